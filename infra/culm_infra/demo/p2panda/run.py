"""The story: catch-up, live entries, concurrent edits, a killed connector, an empty index, the comparison."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from culm_infra.demo.kit.processes import SERVING, CulmProcess
from culm_infra.demo.kit.report import DemoReport
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.demo.p2panda import actors as demo_actors
from culm_infra.demo.p2panda.actors import FinishedSessions, LiveClock, PeerActor, Wanted
from culm_infra.demo.p2panda.concurrent_edits import ConcurrentEdits
from culm_infra.demo.p2panda.convergence import ConnectorStart, Evidence, Timings, check_convergence, gather
from culm_infra.demo.p2panda.documents import Records, held_documents
from culm_infra.demo.p2panda.plan import EDGES, DemoPlan, make_fields, make_plan
from culm_infra.demo.p2panda.size import P2pandaDemoSize
from culm_infra.errors import NotReached
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.kafka.clients import KafkaSettings

_EMPTIED_EDGE, _KILLED_EDGE = 0, 1
_POLL_S = 0.5
_STEP_S = 0.02
_HEIGHTS_STEP_S = 0.1
_LIVE_PAUSE_S = 0.02
_BLOCKS_HAVE = re.compile(r"`blocks` has (\d+) logs")
_SHARES = (0.5, 0.4)
"""Shares of the live entries before the kill and around it; the rest follows the start with an empty
index.
"""


@dataclass(slots=True)
class P2pandaStory:
    """The running demo."""

    stage: DemoStage
    plan: DemoPlan
    kafka: KafkaSettings
    connectors: list[CulmProcess]
    ports: list[int]
    actors: list[PeerActor]
    wanted: Wanted
    clock: LiveClock
    sessions: FinishedSessions
    source: random.Random
    gave_up: dict[str, str] = field(default_factory=dict)
    """Waits for the topics that timed out, by chapter."""

    async def catch_up(self) -> None:
        """Connect one peer at each edge first, then the others one after the other; these find data
        present.
        """
        groups = [self.actors[: len(EDGES)], *([actor] for actor in self.actors[len(EDGES) :])]
        present: list[PeerActor] = []
        for group in groups:
            for actor in group:
                await self.dial(actor)
            for actor in group:
                await self.stage.until(
                    partial(self.is_live, actor), f"{actor.plan.name} to be live", step_s=_STEP_S
                )
            if not present:
                await demo_actors.fork_live(group, self.plan.fork)
            present += group
            await self.all_hold(present, self.initial_logs(present))

    def initial_logs(self, actors: Sequence[PeerActor]) -> Wanted:
        """Return the logs that these peers started with, up to the counted heights."""
        logs: Wanted = {}
        for actor in actors:
            for log in (*actor.plan.logs, actor.plan.writer.log()):
                name = (log.public_key, log.log_id)
                height = min(len(log.entries), self.wanted[name][1])
                logs[name] = max((log.schema_id, height), logs.get(name, (log.schema_id, 0)))
        return logs

    async def dial(self, actor: PeerActor) -> None:
        """Let a peer keep a connection to its edge."""
        edge = actor.plan.edge
        key = await asyncio.to_thread(load_or_make_key, self.stage.directory / EDGES[edge])
        actor.peer.dial((HOST, self.ports[edge]), key.public_key)

    async def all_hold(self, actors: Sequence[PeerActor] | None = None, wanted: Wanted | None = None) -> None:
        """Wait until these peers (default: all) hold these logs (default: all) in their schemas."""
        holders, heights = actors or self.actors, wanted or self.wanted
        await self.stage.until(
            lambda: demo_actors.all_hold(holders, heights),
            lambda: f"all peers to hold everything ({demo_actors.missing_counts(holders, heights)})",
            step_s=_HEIGHTS_STEP_S,
        )

    @staticmethod
    def is_live(actor: PeerActor) -> bool:
        """Whether the actor has a live session for the schema that it writes."""
        return actor.is_live(actor.plan.writer.schema_id)

    async def publish(self, count: int) -> None:
        """Publish entries by all peers in turn."""
        for number in range(count):
            actor = self.actors[number % len(self.actors)]
            writer = actor.plan.writer
            key = await demo_actors.publish(actor, writer.append(make_fields(self.source)), self.clock)
            self.wanted[key[0], key[1]] = (writer.schema_id, key[2])
            await asyncio.sleep(_LIVE_PAUSE_S)

    async def kill_and_recover(self, count: int) -> None:
        """Kill one connector with SIGKILL while ``count`` entries are published, and start it again."""
        connector = self.connectors[_KILLED_EDGE]
        publishing = asyncio.ensure_future(self.publish(count))
        await asyncio.sleep(count * _LIVE_PAUSE_S / 3)
        connector.kill()
        await asyncio.sleep(count * _LIVE_PAUSE_S / 3)
        connector.start()
        await publishing
        await self.all_hold()

    async def start_from_nothing(self) -> ConnectorStart:
        """Start the other connector with an empty index and the list of schemas to serve."""
        connector = self.connectors[_EMPTIED_EDGE]
        await asyncio.to_thread(connector.stop)
        shutil.rmtree(self.stage.directory / EDGES[_EMPTIED_EDGE] / INDEX_FOLDER)
        started_s = time.monotonic()
        connector.start(*(part for schema in self.plan.schema_ids for part in ("--schema", schema)))
        await self.stage.serving([connector], SERVING)
        served_s = time.monotonic() - started_s
        match = _BLOCKS_HAVE.search(connector.printed())
        return ConnectorStart(served_s, int(match[1]) if match is not None else 0)

    def documents(self) -> dict[str, Records]:
        """Reduce the documents at one peer of each edge; that of the forked log differs by nature."""
        logs = [log for log in self.wanted if log != self.plan.fork.log]
        return {actor.plan.name: held_documents(actor, logs) for actor in self.actors[: len(EDGES)]}

    async def settled(self, held: Mapping[str, Records]) -> Evidence:
        """Read the topics until nothing is in transit to them, or nothing changes any more.

        `held` are documents of peers by their names, with which the topic `documents` is compared.
        """
        evidence, missing = None, [""]

        async def are_complete() -> bool:
            nonlocal evidence, missing
            evidence = await asyncio.to_thread(gather, self.kafka, self.wanted, held)
            missing = evidence.unmet(self.plan, self.actors)
            return not missing

        try:
            await self.stage.until(
                are_complete, lambda: ", ".join(missing), step_s=_POLL_S, more=lambda: missing
            )
        except NotReached as error:
            self.gave_up[self.sessions.chapter] = str(error)
            self.stage.show(str(error))
        assert evidence is not None, "the topics were read"
        return evidence


async def play(size: P2pandaDemoSize, stage: DemoStage) -> DemoReport:
    """Run the whole story and check that all converge. Raises `DemoError` if it cannot continue."""
    started_s = time.monotonic()
    async with stage.kafka() as kafka, AsyncExitStack() as stack:
        ports = free_ports(len(EDGES))
        # The topics of a demo are small: a micro-batch of a cold JVM costs by its tasks and shards.
        few = {"CULM_JOB__STATE_PARTITIONS": "2", "CULM_JOB__SHARDS": "2"}
        jobs = stage.job("all", "documents", kafka=kafka, log="jobs", **few)
        connectors = [stage.connector(*edge, kafka) for edge in zip(EDGES, ports, strict=True)]
        stage.show("starting the Spark jobs and two connectors")
        for process in (jobs, *connectors):
            process.start()
        plan = await asyncio.to_thread(make_plan, size.peers, size.entries, size.seed)
        await stage.serving(connectors, SERVING)
        clock, sessions = LiveClock(), FinishedSessions("catch-up")
        stage.show(f"opening {size.peers} peers with their histories")
        actors = await demo_actors.enter(stack, plan, stage.directory / "peers", size.seed, clock, sessions)
        stage.watched.append(lambda: [sum(actor.taken.values()) for actor in actors])
        source = random.Random(size.seed + 1)
        story = P2pandaStory(
            stage, plan, kafka, connectors, ports, actors, _wanted(plan), clock, sessions, source
        )
        before, around = (int(size.live * share) for share in _SHARES)

        stage.show("peers come and catch up by set reconciliation (mode 1)")
        catch_up_s = await _timed(story.catch_up())

        stage.show(f"publishing {before} entries live")
        await story.publish(before)
        await story.all_hold()

        stage.show("two peers edit one document at the same time, one at each edge")
        west, east = actors[: len(EDGES)]
        edits = ConcurrentEdits((west, east), plan.editors, story.wanted)
        await edits.play(story.all_hold)

        stage.show(f"kill -9 of the connector {EDGES[_KILLED_EDGE]}, and on with publishing")
        clock.measuring, sessions.chapter = False, "after kill -9"
        recovery_s = await _timed(story.kill_and_recover(around))

        stage.show("waiting for the streaming jobs")
        await story.settled({})

        stage.show(
            f"starting the connector {EDGES[_EMPTIED_EDGE]} with an empty index: it starts from blocks"
        )
        sessions.chapter = "empty index"
        warm_start = await story.start_from_nothing()
        await story.publish(size.live - before - around)
        await story.all_hold()

        stage.show("comparing everything byte for byte")
        evidence = await story.settled(story.documents())
        timings = Timings(catch_up_s, recovery_s, warm_start)
        scene = check_convergence(plan, actors, evidence, timings, sessions, edits)
        for chapter, why in story.gave_up.items():
            scene.show(f"gave up waiting ({chapter})", why)
        scene.duration_s = time.monotonic() - started_s
        return DemoReport("identical bytes everywhere", [scene], scene.duration_s)


def _wanted(plan: DemoPlan) -> Wanted:
    wanted = {(log.public_key, log.log_id): (log.schema_id, len(log.entries)) for log in plan.logs}
    wanted[plan.fork.log] = (plan.trunk.schema_id, plan.fork.common)
    for peer in plan.peers:
        writer = peer.writer
        wanted[writer.key_pair.public_key, writer.log_id] = (writer.schema_id, len(writer.entries))
    return wanted


async def _timed(work: object) -> float:
    assert asyncio.iscoroutine(work)
    started_s = time.monotonic()
    await work
    return time.monotonic() - started_s
