"""The story: edits of every type at once, a killed edge and job, and everybody's store compared."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from culm_connectors.chotki.reference_peer.copy import copy_replica
from culm_connectors.chotki.settings import parse_url
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.demo.chotki.cast import Cast, calling, cast
from culm_infra.demo.chotki.plan import EDGES, RECORDED_OBJECTS
from culm_infra.demo.chotki.report import ChotkiReport
from culm_infra.demo.chotki.stage import ChotkiDemoSettings, ChotkiScene, serving, staged
from culm_infra.demo.chotki.verdict import Holder, alike, holder_figures, merged, type_figures, wrong_sums
from culm_infra.demo.kit.processes import Show
from culm_infra.demo.kit.waiting import output_bytes, wait_until
from culm_infra.errors import NotReached
from culm_models.chotki.ids import Id, object_key
from culm_topics.chotki.state_reader import StateReader

_STEP_S = 0.1
_PAUSE_S = 0.1
_POLL_S = 1.0
_KILLED_EDGE = 0
_OBJECT_EVERY = 3
_STATE_WAIT_S = 2.0


@dataclass(slots=True)
class ChotkiPlay:
    """The demo under way."""

    scene: ChotkiScene
    people: Cast
    class_id: Id
    objects: list[Id]
    show: Show
    rounds: int = 0

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
        """All that changes while something goes on: what the replicas know, and what processes print."""
        replicas = [(actor.replica.vector(), actor.sessions) for actor in self.people.actors]
        return replicas, output_bytes(self.scene.settings.directory)

    def all_hold_the_objects(self) -> bool:
        """Whether every replica has every object of the beginning, the recorded ones too."""
        return all(
            actor.replica.store.get(object_key(one, "O")) is not None
            for actor in self.people.actors
            for one in self.objects
        )

    def are_alike(self) -> bool:
        """Whether the replicas hold the same."""
        first, *others = (actor.replica for actor in self.people.actors)
        return all(first.vector() == other.vector() for other in others) and alike(
            [actor.replica.store.values() for actor in self.people.actors]
        )

    async def edit(self, rounds: int) -> None:
        """In each round everybody edits every type before anybody hears of the others' edits."""
        for _ in range(rounds):
            for editor in self.people.editors:
                editor.edit_every_type(self.objects)
                if not self.rounds % _OBJECT_EVERY:
                    editor.new_object(self.class_id)
            self.rounds += 1
            await asyncio.sleep(_PAUSE_S)

    def make_more(self) -> None:
        """Everybody renames one field of the class, each otherwise, and makes a replica object."""
        for editor in self.people.editors:
            editor.rename(self.class_id)
            editor.new_replica_object()

    async def edit_while_killed(self, rounds: int) -> float:
        """SIGKILL for an edge and the job in the midst of it; seconds until the replicas are alike again."""
        edge, job = self.scene.edges[_KILLED_EDGE], self.scene.job
        editing = asyncio.ensure_future(self.edit(rounds))
        try:
            await asyncio.sleep(rounds * _PAUSE_S / 2)
            started_s = time.monotonic()
            edge.kill()
            job.kill()
            self.make_more()
            await editing
            job.start()
            edge.start()
            await serving(self.scene, [edge])
            await self.until(self.are_alike, "the replicas to hold the same after the kills")
            return time.monotonic() - started_s
        finally:
            editing.cancel()

    async def holders(self) -> list[Holder]:
        """Everybody's store of now: the replicas', the edges' as anybody may read them, the topics'."""
        made = {editor.name: sum(editor.made.values()) for editor in self.people.editors}
        found = [
            Holder(
                name=actor.role.name,
                kind="replica",
                place=f"{EDGES[actor.role.edge]}, {actor.role.scheme}",
                store=actor.replica.store.values(),
                sessions=actor.sessions,
                made=made.get(actor.role.name, 0),
            )
            for actor in self.people.actors
        ]
        for edge, addresses in zip(EDGES, self.scene.addresses, strict=True):
            channel = await connect_tcp(parse_url(addresses["tcp"])[1], TcpSettings())
            copy = await copy_replica(channel, silence_s=self.scene.settings.timeout_s)
            found.append(Holder(f"edge {edge}", "edge", "as it answers", copy.store))
        state = await asyncio.to_thread(self._state)
        return [*found, Holder("chotki.state", "topic", "Kafka", state)]

    def _state(self) -> dict[bytes, bytes]:
        with StateReader(self.scene.kafka) as reader:
            for _ in reader.catch_up(_STATE_WAIT_S):
                continue
            return reader.state.store()

    async def settled(self) -> list[Holder]:
        """Look until all hold the same, or nothing changes any more."""
        found: list[Holder] = []

        async def hold_the_same() -> bool:
            nonlocal found
            if not self.are_alike():
                return False
            found = await self.holders()
            return alike([one.store for one in found])

        try:
            await wait_until(
                hold_the_same,
                "everybody to hold the same",
                limit_s=self.scene.settings.timeout_s,
                progress=lambda: (self.progress(), [one.store for one in found]),
                step_s=_POLL_S,
                check=self.scene.check,
            )
        except NotReached as error:
            self.show(str(error))
            return await self.holders()
        return found


async def play(settings: ChotkiDemoSettings, show: Show) -> ChotkiReport:
    """Run the whole story and judge it. Raises DemoError when it cannot go on."""
    started_s = time.monotonic()
    async with staged(settings, show) as scene:
        people = cast(settings.seed, scene.addresses)
        before = people.recorded.replica.store.values()
        class_id = people.editors[0].new_class()
        count = len(people.editors)
        objects = [people.editors[one % count].new_object(class_id) for one in range(settings.objects)]
        story = ChotkiPlay(scene, people, class_id, [*objects, *RECORDED_OBJECTS], show)
        show("three replicas come, by TCP, TLS and QUIC; a fourth says what a Go replica recorded")
        async with calling(people.actors, scene.tls):
            await story.until(story.all_hold_the_objects, "everybody to hold all objects")
            third = settings.rounds // 3
            show("all three edit the same objects at the same time, every type of field")
            await story.edit(settings.rounds - 2 * third)
            show("kill -9 of the edge west and of the job chotki while they edit")
            recovery_s = await story.edit_while_killed(third)
            show("all three go on")
            await story.edit(third)
            show("waiting until all hold the same")
            silent_s = time.monotonic()
            found = await story.settled()
            settled_s = time.monotonic() - silent_s
        show("comparing every field and every vector")
        return _judged(story, found, before, recovery_s, settled_s, time.monotonic() - started_s)


def _judged(
    story: ChotkiPlay,
    found: list[Holder],
    before: dict[bytes, bytes],
    recovery_s: float,
    settled_s: float,
    total_s: float,
) -> ChotkiReport:
    people = story.people
    stores = [one.store for one in found]
    wanted = merged(stores)
    made: Counter[str] = sum((editor.made for editor in people.editors), Counter())
    added: Counter[bytes] = Counter()
    for editor in people.editors:
        added.update(editor.added)
    report = ChotkiReport(
        holders=[holder_figures(one, wanted) for one in found],
        types=type_figures(stores, made),
        wrong_sums=wrong_sums(before, wanted, added),
        replayed=people.recorded.replayed,
        recorded_bytes=len(people.recorded.stream),
        recovery_s=recovery_s,
        settled_s=settled_s,
        total_s=total_s,
        latencies_ms=people.latencies_ms,
    )
    report.judge()
    return report
