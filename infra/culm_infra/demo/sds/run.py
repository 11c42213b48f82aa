"""The story: a chat on a bad network, a cut, a killed job, and the comparison of everybody's log."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from culm_infra.demo.kit.processes import Show
from culm_infra.demo.kit.waiting import output_bytes, wait_for, wait_until
from culm_infra.demo.sds.book import Book
from culm_infra.demo.sds.cast import Actor, enter
from culm_infra.demo.sds.plan import lines, make_roles, settings_of
from culm_infra.demo.sds.report import NetworkFigures, SdsReport
from culm_infra.demo.sds.stage import Scene, SdsDemoSettings, staged
from culm_infra.demo.sds.verdict import (
    Pipeline,
    channel_figures,
    figures,
    gather,
    last_word,
    log_hash,
    unheard,
    unmet,
    wanted_log,
)
from culm_infra.errors import NotReached

_POLL_S = 0.5
_STEP_S = 0.05
_PAUSE_S = 0.05
_CUT_EDGE = 1
_EPHEMERAL_EVERY = 10


@dataclass(slots=True)
class Play:
    """The demo under way."""

    scene: Scene
    actors: list[Actor]
    words: Iterator[str]
    counter: Iterator[int] = field(default_factory=itertools.count)

    @property
    def channels(self) -> list[str]:
        """The channels, once each."""
        return list(dict.fromkeys(actor.role.channel_id for actor in self.actors))

    def members(self, channel: str) -> list[Actor]:
        """Who takes part in a channel."""
        return [actor for actor in self.actors if actor.role.channel_id == channel]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for ``what``. Raises NotReached when nothing changes for too long."""
        await wait_until(
            condition,
            what,
            limit_s=self.scene.settings.timeout_s,
            progress=self.progress,
            step_s=_STEP_S,
            check=self.scene.check,
        )

    def progress(self) -> object:
        """All that changes while something goes on: everybody's book, and what processes print."""
        books = [(len(a.book.held), len(a.book.heard_ms), len(a.book.sent_ms)) for a in self.actors]
        joined = sum(actor.voice.joined.is_set() for actor in self.actors)
        return books, joined, output_bytes(self.scene.settings.directory)

    async def chat(self, count: int) -> None:
        """So many messages in each channel, its members in turn; beside one in ten an ephemeral one."""
        for _ in range(count):
            number = next(self.counter)
            for channel in self.channels:
                members = self.members(channel)
                actor = members[number % len(members)]
                await self._say(actor, next(self.words), ephemeral=False)
                if not number % _EPHEMERAL_EVERY and actor.role.profile != "nim":
                    await self._say(actor, "is typing", ephemeral=True)
            await asyncio.sleep(_PAUSE_S)

    async def _say(self, actor: Actor, line: str, *, ephemeral: bool) -> None:
        if ephemeral and not actor.voice.joined.is_set():
            return
        saying = actor.say(line.encode(), ephemeral=ephemeral)
        what = f"{actor.role.name} to say something"
        await wait_for(saying, what, limit_s=self.scene.settings.timeout_s, progress=self.progress)

    async def chat_while_cut(self, count: int) -> None:
        """The full participants of one edge are cut off while everybody goes on talking."""
        links = [actor.link for actor in self.actors if actor.link and actor.role.edge == _CUT_EDGE]
        for link in links:
            link.cut()
        cut_s = self.scene.settings.cut_s
        await asyncio.gather(self.chat(count), asyncio.sleep(cut_s))
        for link in links:
            link.mend()

    async def chat_while_killed(self, count: int) -> float:
        """SIGKILL for the job in the midst of it, and a new start; seconds until it takes messages again."""
        job = self.scene.job
        talking = asyncio.ensure_future(self.chat(count))
        try:
            await asyncio.sleep(count * _PAUSE_S / 2)
            job.kill()
            started_s = time.monotonic()
            job.start()
            hosted = [actor for actor in self.actors if actor.role.hosted]
            before = [len(actor.book.held) for actor in hosted]
            await talking
            await self.until(
                lambda: all(len(a.book.held) > count for a, count in zip(hosted, before, strict=True)),
                "the job to take messages again",
            )
            return time.monotonic() - started_s
        finally:
            talking.cancel()

    async def good_night(self) -> None:
        """Where there are no syncs each member speaks once more in turn, knowing all before: so all is heard.

        All but the last word, that is.
        """
        for channel in self.channels:
            members = self.members(channel)
            if settings_of(members[0].role.profile).sync_messages:
                continue
            for actor in members:
                said = {one for other in members for one in other.book.sent_ms}
                await self.until(
                    lambda actor=actor, said=said: said <= actor.book.held.keys(),  # type: ignore[misc]
                    f"{actor.role.name} to have all that was said",
                )
                before = len(actor.book.sent_ms)
                await self._say(actor, "good night", ephemeral=False)
                await self.until(
                    lambda actor=actor, before=before: len(actor.book.sent_ms) > before,  # type: ignore[misc]
                    f"{actor.role.name} to be told what it said",
                )

    def books(self) -> dict[str, dict[str, Book]]:
        """Everybody's book, by channel and participant."""
        return {
            channel: {actor.role.participant_id: actor.book for actor in self.members(channel)}
            for channel in self.channels
        }

    async def settled(self) -> tuple[Pipeline, list[str]]:
        """Read the topics until nothing is under way, or nothing changes any more: then what still is."""
        pipeline, open_ends = Pipeline({}, {}, Counter()), [""]

        async def is_at_rest() -> bool:
            nonlocal pipeline, open_ends
            pipeline = await asyncio.to_thread(gather, self.scene.kafka, self.channels)
            open_ends = unmet([actor.role for actor in self.actors], self.books(), pipeline)
            return not open_ends

        with contextlib.suppress(NotReached):
            await wait_until(
                is_at_rest,
                "everybody to have everything",
                limit_s=self.scene.settings.timeout_s,
                progress=lambda: (self.progress(), open_ends),
                step_s=_POLL_S,
                check=self.scene.check,
            )
        return pipeline, open_ends


async def play(settings: SdsDemoSettings, show: Show) -> SdsReport:
    """Run the whole story and judge it. Raises DemoError when it cannot go on."""
    started_s = time.monotonic()
    async with staged(settings, show) as scene, AsyncExitStack() as stack:
        roles = make_roles(settings.participants)
        show(f"{len(roles)} participants join {len(roles) // settings.participants} channels")
        edges = [("127.0.0.1", port) for port in scene.ports]
        folder = settings.directory / "participants"
        actors = await enter(stack, roles, folder, edges, settings.faults, settings.seed)
        story = Play(scene, actors, lines(settings.seed))
        await story.until(lambda: all(actor.voice.joined.is_set() for actor in actors), "everybody to join")

        third = settings.messages // 3
        faults = settings.faults
        show(f"they talk; {faults.loss:.0%} of the messages are lost, {faults.duplication:.0%} doubled")
        await story.chat(settings.messages - 2 * third)
        show(f"one edge's full participants are cut off for {settings.cut_s:.0f} s; all go on talking")
        await story.chat_while_cut(third)
        show("kill -9 of the job sds while they talk")
        recovery_s = await story.chat_while_killed(third)

        show("waiting until everybody has everything and knows that it was heard")
        silent_s = time.monotonic()
        await story.good_night()
        pipeline, open_ends = await story.settled()
        settled_s = time.monotonic() - silent_s
        show("comparing the logs message by message")
        return _judged(story, pipeline, open_ends, recovery_s, settled_s, time.monotonic() - started_s)


def _judged(
    story: Play, pipeline: Pipeline, open_ends: list[str], recovery_s: float, settled_s: float, total_s: float
) -> SdsReport:
    channels, people = [], []
    missing_acks = 0
    for channel, books in story.books().items():
        members = story.members(channel)
        wanted = wanted_log(books)
        people += [figures(actor.role, actor.book, wanted) for actor in members]
        missing_acks += sum(len(unheard(actor.book, last_word(actor.role, wanted))) for actor in members)
        full = [actor for actor in members if actor.link is not None]
        channels.append(
            channel_figures(
                members[0].role,
                wanted,
                [actor.book for actor in full],
                [log_hash(book.log()) for book in books.values()],
                pipeline,
                sum(actor.link.mishaps.said_bytes for actor in full if actor.link is not None),
            )
        )
    mishaps = [actor.link.mishaps for actor in story.actors if actor.link is not None]
    report = SdsReport(
        participants=people,
        channels=channels,
        network=NetworkFigures(
            passed=sum(one.passed for one in mishaps),
            lost=sum(one.lost for one in mishaps),
            doubled=sum(one.doubled for one in mishaps),
            cut_s=story.scene.settings.cut_s,
        ),
        missing_acks=missing_acks,
        recovery_s=recovery_s,
        settled_s=settled_s,
        total_s=total_s,
        unmet=open_ends,
    )
    report.judge()
    return report
