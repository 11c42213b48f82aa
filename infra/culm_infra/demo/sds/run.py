"""The story: a chat on a bad network, a cut, a killed job, and the comparison of all logs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from culm_infra.demo.kit.processes import SERVING, CulmProcess
from culm_infra.demo.kit.report import DemoReport
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.demo.sds.actors import ParticipantActor, Transcript, enter
from culm_infra.demo.sds.bad_network import NetworkFaults
from culm_infra.demo.sds.convergence import Pipeline, check_convergence, gather, unmet
from culm_infra.demo.sds.plan import EDGES, lines, make_roles, settings_of
from culm_infra.demo.sds.size import SdsDemoSize
from culm_infra.errors import NotReached
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.kafka.clients import KafkaSettings

_POLL_S = 0.5
_PAUSE_S = 0.05
_CUT_EDGE = 1
_EPHEMERAL_EVERY = 10


@dataclass(slots=True)
class SdsStory:
    """The running demo."""

    stage: DemoStage
    size: SdsDemoSize
    kafka: KafkaSettings
    job: CulmProcess
    actors: list[ParticipantActor]
    words: Iterator[str]
    counter: Iterator[int] = field(default_factory=itertools.count)

    @property
    def channels(self) -> list[str]:
        """The channels without repeats."""
        return list(dict.fromkeys(actor.role.channel_id for actor in self.actors))

    def members(self, channel: str) -> list[ParticipantActor]:
        """Return the participants of a channel."""
        return [actor for actor in self.actors if actor.role.channel_id == channel]

    def progress(self) -> object:
        """Return a value that changes with every participant's record and connection."""
        transcripts = [
            (len(a.transcript.messages), len(a.transcript.heard_ms), len(a.transcript.sent_ms))
            for a in self.actors
        ]
        return transcripts, sum(actor.endpoint.joined.is_set() for actor in self.actors)

    async def chat(self, count: int) -> None:
        """Send `count` messages to each channel, its members in turn; with every tenth also an ephemeral
        one.
        """
        for _ in range(count):
            number = next(self.counter)
            for channel in self.channels:
                members = self.members(channel)
                actor = members[number % len(members)]
                await self._send(actor, next(self.words), ephemeral=False)
                if not number % _EPHEMERAL_EVERY and actor.role.profile != "nim":
                    await self._send(actor, "is typing", ephemeral=True)
            await asyncio.sleep(_PAUSE_S)

    async def _send(self, actor: ParticipantActor, line: str, *, ephemeral: bool) -> None:
        if ephemeral and not actor.endpoint.joined.is_set():
            return
        saying = actor.send(line.encode(), ephemeral=ephemeral)
        await self.stage.within(saying, f"{actor.role.name} to send a message")

    async def chat_while_cut(self, count: int) -> None:
        """Cut off the full participants of one edge while all participants go on sending."""
        links = [actor.link for actor in self.actors if actor.link and actor.role.edge == _CUT_EDGE]
        for link in links:
            link.cut()
        await asyncio.gather(self.chat(count), asyncio.sleep(self.size.cut))
        for link in links:
            link.restore()

    async def chat_while_killed(self, count: int) -> float:
        """Kill the job with SIGKILL during the chat and restart it. Returns the seconds until it takes
        messages again.
        """
        job = self.job
        talking = asyncio.ensure_future(self.chat(count))
        try:
            await asyncio.sleep(count * _PAUSE_S / 2)
            job.kill()
            started_s = time.monotonic()
            job.start()
            hosted = [actor for actor in self.actors if actor.role.hosted]
            before = [len(actor.transcript.messages) for actor in hosted]
            await talking
            await self.stage.until(
                lambda: all(
                    len(a.transcript.messages) > count for a, count in zip(hosted, before, strict=True)
                ),
                "the job to take messages again",
            )
            return time.monotonic() - started_s
        finally:
            talking.cancel()

    async def send_last_messages(self) -> None:
        """In channels without syncs, let each member send once more after it has all messages.

        These messages acknowledge everything except the last message.
        """
        for channel in self.channels:
            members = self.members(channel)
            if settings_of(members[0].role.profile).sync_messages:
                continue
            for actor in members:
                sent_ids = {message_id for other in members for message_id in other.transcript.sent_ms}
                await self.stage.until(
                    lambda actor=actor, sent_ids=sent_ids: sent_ids <= actor.transcript.messages.keys(),  # type: ignore[misc]
                    f"{actor.role.name} to receive all messages",
                )
                before = len(actor.transcript.sent_ms)
                await self._send(actor, "good night", ephemeral=False)
                await self.stage.until(
                    lambda actor=actor, before=before: len(actor.transcript.sent_ms) > before,  # type: ignore[misc]
                    f"{actor.role.name} to receive the event of its own message",
                )

    def transcripts(self) -> dict[str, dict[str, Transcript]]:
        """Return all transcripts by channel and participant."""
        return {
            channel: {actor.role.participant_id: actor.transcript for actor in self.members(channel)}
            for channel in self.channels
        }

    async def settled(self) -> tuple[Pipeline, list[str]]:
        """Read the topics until nothing is in transit or nothing changes any more. Returns them and open
        items.
        """
        pipeline, open_ends = Pipeline({}, {}, Counter()), [""]

        async def is_at_rest() -> bool:
            nonlocal pipeline, open_ends
            pipeline = await asyncio.to_thread(gather, self.kafka, self.channels)
            open_ends = unmet([actor.role for actor in self.actors], self.transcripts(), pipeline)
            return not open_ends

        with contextlib.suppress(NotReached):
            await self.stage.until(
                is_at_rest, "everybody to have everything", step_s=_POLL_S, more=lambda: open_ends
            )
        return pipeline, open_ends


async def play(size: SdsDemoSize, stage: DemoStage) -> DemoReport:
    """Run the whole story and check that all converge. Raises `DemoError` if it cannot continue."""
    started_s = time.monotonic()
    async with stage.kafka() as kafka, AsyncExitStack() as stack:
        ports = free_ports(len(EDGES))
        job = stage.job("sds", kafka=kafka)
        connectors = [stage.connector(*edge, kafka) for edge in zip(EDGES, ports, strict=True)]
        stage.show("starting the Spark job sds and two connectors")
        for process in (job, *connectors):
            process.start()
        await stage.serving(connectors, SERVING)
        roles, faults = make_roles(size.participants), NetworkFaults(loss=size.loss)
        stage.show(f"{len(roles)} participants join {len(roles) // size.participants} channels")
        edges = [(HOST, port) for port in ports]
        folder = stage.directory / "participants"
        actors = await enter(stack, roles, folder, edges, faults, size.seed)
        story = SdsStory(stage, size, kafka, job, actors, lines(size.seed))
        stage.watched.append(story.progress)
        await stage.until(
            lambda: all(actor.endpoint.joined.is_set() for actor in actors), "everybody to join"
        )

        third = size.messages // 3
        stage.show(f"they talk; {faults.loss:.0%} of the messages are lost, {faults.duplication:.0%} doubled")
        await story.chat(size.messages - 2 * third)
        stage.show(f"one edge's full participants are cut off for {size.cut:.0f} s; all go on talking")
        await story.chat_while_cut(third)
        stage.show("kill -9 of the job sds while they talk")
        recovery_s = await story.chat_while_killed(third)

        stage.show("waiting until everybody has everything and knows that it was heard")
        silent_s = time.monotonic()
        await story.send_last_messages()
        pipeline, open_ends = await story.settled()
        settled_s = time.monotonic() - silent_s
        stage.show("comparing the logs message by message")
        scene = check_convergence(actors, pipeline, open_ends)
        scene.show("one edge cut off for", size.cut, "s")
        scene.show("working again after kill -9 of the job", recovery_s, "s")
        scene.show("all at rest after the last word", settled_s, "s")
        scene.duration_s = time.monotonic() - started_s
        return DemoReport("identical logs everywhere", [scene], scene.duration_s)
