"""The story: concurrent edits of every type, a killed edge and job, and a comparison of all stores."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from culm_connectors.chotki.reference_peer.copy import copy_replica
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.url import parse_url
from culm_infra.demo.chotki.actors import DemoReplicas, connected, make_certificate, make_replicas
from culm_infra.demo.chotki.convergence import ComparedStore, alike, check_convergence
from culm_infra.demo.chotki.edits import EDGES, RECORDED_OBJECTS, SCHEMES_OF
from culm_infra.demo.chotki.size import ChotkiDemoSize
from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.demo.kit.report import DemoReport, in_ms
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.errors import NotReached
from culm_infra.stack.ports import HOST, free_ports
from culm_models.chotki.ids import Id, object_key
from culm_topics.chotki.state_reader import StateReader
from culm_topics.kafka.clients import KafkaSettings

_SERVING = "serving chotki-tcp"
"""Printed by an edge once replicas may connect."""
_PAUSE_S = 0.1
_POLL_S = 1.0
_KILLED_EDGE = 0
_OBJECT_EVERY = 3
_STATE_WAIT_S = 2.0


@dataclass(slots=True)
class ChotkiStory:
    """The running demo."""

    stage: DemoStage
    kafka: KafkaSettings
    job: CulmProcess
    edges: list[CulmProcess]
    addresses: list[dict[str, str]]
    replicas: DemoReplicas
    class_id: Id
    objects: list[Id]
    rounds: int = 0

    def progress(self) -> object:
        """Return the vectors and session counts of all replicas."""
        return [(actor.replica.vector(), actor.sessions) for actor in self.replicas.actors]

    def all_hold_the_objects(self) -> bool:
        """Whether every replica has all initial objects, including the recorded ones."""
        return all(
            actor.replica.store.get(object_key(id, "O")) is not None
            for actor in self.replicas.actors
            for id in self.objects
        )

    def are_alike(self) -> bool:
        """Whether all replicas hold the same state."""
        first, *others = (actor.replica for actor in self.replicas.actors)
        return all(first.vector() == other.vector() for other in others) and alike(
            [actor.replica.store.values() for actor in self.replicas.actors]
        )

    async def edit(self, rounds: int) -> None:
        """Let every replica edit every type in each round, before it receives the others' edits."""
        for _ in range(rounds):
            for editor in self.replicas.editors:
                editor.edit_every_type(self.objects)
                if not self.rounds % _OBJECT_EVERY:
                    editor.new_object(self.class_id)
            self.rounds += 1
            await asyncio.sleep(_PAUSE_S)

    def make_more(self) -> None:
        """Rename the same field of the class differently at every replica, and make replica objects."""
        for editor in self.replicas.editors:
            editor.rename(self.class_id)
            editor.new_replica_object()

    async def edit_while_killed(self, rounds: int) -> float:
        """Kill an edge and the job with SIGKILL during edits. Returns the seconds until the replicas are
        equal.
        """
        edge, job = self.edges[_KILLED_EDGE], self.job
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
            await self.stage.serving([edge], _SERVING)
            await self.stage.until(self.are_alike, "the replicas to hold the same after the kills")
            return time.monotonic() - started_s
        finally:
            editing.cancel()

    async def stores(self) -> list[ComparedStore]:
        """Return the present stores: of the replicas, of the edges as any replica reads them, of the
        topics.
        """
        made = {editor.name: sum(editor.made.values()) for editor in self.replicas.editors}
        stores = [
            ComparedStore(
                name=actor.role.name,
                kind="replica",
                location=f"{EDGES[actor.role.edge]}, {actor.role.scheme}",
                store=actor.replica.store.values(),
                sessions=actor.sessions,
                made=made.get(actor.role.name, 0),
            )
            for actor in self.replicas.actors
        ]
        for edge, addresses in zip(EDGES, self.addresses, strict=True):
            channel = await connect_tcp(parse_url(addresses["tcp"]).address, TcpSettings())
            copy = await copy_replica(channel, silence_s=self.stage.timeout_s)
            stores.append(ComparedStore(f"edge {edge}", "edge", "as it answers", copy.store))
        state = await asyncio.to_thread(self._state)
        return [*stores, ComparedStore("chotki.state", "topic", "Kafka", state)]

    def _state(self) -> dict[bytes, bytes]:
        with StateReader(self.kafka) as reader:
            for _ in reader.catch_up(_STATE_WAIT_S):
                continue
            return reader.state.store()

    async def settled(self) -> list[ComparedStore]:
        """Wait until all stores are equal, or until nothing changes any more."""
        stores: list[ComparedStore] = []

        async def hold_the_same() -> bool:
            nonlocal stores
            if not self.are_alike():
                return False
            stores = await self.stores()
            return alike([copy.store for copy in stores])

        try:
            await self.stage.until(
                hold_the_same,
                "everybody to hold the same",
                step_s=_POLL_S,
                more=lambda: [copy.store for copy in stores],
            )
        except NotReached as error:
            self.stage.show(str(error))
            return await self.stores()
        return stores


async def play(size: ChotkiDemoSize, stage: DemoStage) -> DemoReport:
    """Run the whole story and check that all converge. Raises `DemoError` if it cannot continue."""
    started_s = time.monotonic()
    async with stage.kafka() as kafka:
        tls = make_certificate(stage.directory)
        addresses = _addresses()
        job = stage.job("chotki", kafka=kafka)
        edges = [_edge(stage, kafka, name, urls, tls) for name, urls in zip(EDGES, addresses, strict=True)]
        stage.show("starting the Spark job chotki and two edges")
        for process in (job, *edges):
            process.start()
        await stage.serving(edges, _SERVING)
        replicas = make_replicas(size.seed, addresses)
        before = replicas.recorded.replica.store.values()
        class_id = replicas.editors[0].new_class()
        count = len(replicas.editors)
        objects = [replicas.editors[number % count].new_object(class_id) for number in range(size.objects)]
        everything = [*objects, *RECORDED_OBJECTS]
        story = ChotkiStory(stage, kafka, job, edges, addresses, replicas, class_id, everything)
        stage.watched.append(story.progress)
        stage.show("three replicas connect over TCP, TLS and QUIC; a fourth sends a Go replica's recording")
        async with connected(replicas.actors, tls):
            await stage.until(story.all_hold_the_objects, "everybody to hold all objects")
            third = size.rounds // 3
            stage.show("all three edit the same objects at the same time, every type of field")
            await story.edit(size.rounds - 2 * third)
            stage.show("kill -9 of the edge west and of the job chotki while they edit")
            recovery_s = await story.edit_while_killed(third)
            stage.show("all three go on")
            await story.edit(third)
            stage.show("waiting until all hold the same")
            silent_s = time.monotonic()
            stores = await story.settled()
            settled_s = time.monotonic() - silent_s
        stage.show("comparing every field and every vector")
        made: Counter[str] = sum((editor.made for editor in replicas.editors), Counter())
        added: Counter[bytes] = Counter()
        for editor in replicas.editors:
            added.update(editor.added)
        scene = check_convergence(stores, made, before, added)
        scene.show("live, from replica to replica", in_ms(replicas.latencies_ms))
        scene.show("bytes of a Go replica", len(replicas.recorded.stream))
        scene.at_least("recording sent again", replicas.recorded.replayed, 1, "times")
        scene.show("alike after kill -9 of edge and job", recovery_s, "s")
        scene.show("alike after the last edit", settled_s, "s")
        scene.show("lists (L)", "not compared: nothing merges them")
        scene.duration_s = time.monotonic() - started_s
        return DemoReport("equal state and vectors everywhere", [scene], scene.duration_s)


def _edge(
    stage: DemoStage, kafka: KafkaSettings, name: str, urls: dict[str, str], tls: TlsFiles
) -> CulmProcess:
    flags = ("--dir", str(stage.directory / name), "--replica-name", name)
    return stage.process(
        f"the edge {name}",
        ("chotki", "listen", *urls.values(), *flags),
        kafka,
        name,
        CULM_CONNECTOR__CHOTKI__TLS__CERTIFICATE=str(tls.certificate),
        CULM_CONNECTOR__CHOTKI__TLS__PRIVATE_KEY=str(tls.private_key),
    )


def _addresses() -> list[dict[str, str]]:
    ports = iter(free_ports(sum(map(len, SCHEMES_OF))))
    return [{scheme: f"{scheme}://{HOST}:{next(ports)}" for scheme in schemes} for schemes in SCHEMES_OF]
