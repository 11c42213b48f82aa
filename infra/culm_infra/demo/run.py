"""The story: from an empty stack over catch-up, live entries and a killed connector to the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.keyfile import load_or_make_key
from culm_infra.demo import cast
from culm_infra.demo.cast import Actor, LiveClock
from culm_infra.demo.history import make_fields
from culm_infra.demo.judge import Evidence, Timings, gather, judge
from culm_infra.demo.plan import EDGES, Plan, make_plan
from culm_infra.demo.processes import CulmProcess, DemoError, environment, free_udp_ports, running
from culm_infra.demo.report import Report
from culm_infra.stack import Stack
from culm_models.p2panda.store import LogKey
from culm_topics import admin
from culm_topics.kafka import KafkaSettings

_KILLED_EDGE = 1
_POLL_S = 0.5
_LIVE_PAUSE_S = 0.02

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How large the demo is; half of ``live_entries`` are published before the kill, half around it."""

    directory: Path
    peer_count: int = 4
    entry_count: int = 3_000
    live_entries: int = 400
    seed: int = 7
    timeout_s: float = 120.0
    keep: bool = False
    kafka: KafkaSettings | None = None
    heap_mb: int = 512


@dataclass(slots=True)
class Scene:
    """What is on stage while the demo runs."""

    settings: DemoSettings
    plan: Plan
    kafka: KafkaSettings
    jobs: CulmProcess
    connectors: list[CulmProcess]
    ports: list[int]


@contextlib.asynccontextmanager
async def staged(settings: DemoSettings, tell: Tell) -> AsyncIterator[Scene]:
    """Kafka, topics, jobs and connectors, started; everything but a Kafka to keep is stopped at the end.

    A local stack is brought up in the demo's directory unless ``settings.kafka`` names a cluster.
    """
    async with AsyncExitStack() as stack:
        kafka = settings.kafka
        if kafka is None:
            local = Stack(settings.directory)
            tell("starting Kafka")
            if not settings.keep:
                stack.callback(local.down)
            kafka = KafkaSettings(bootstrap=await asyncio.to_thread(local.up, heap_mb=settings.heap_mb))
        tell("creating the topics")
        await asyncio.to_thread(admin.create, kafka)
        ports = free_udp_ports(len(EDGES))
        variables = environment(kafka)
        logs = settings.directory / "output"
        logs.mkdir(parents=True, exist_ok=True)
        checkpoints = settings.directory / "checkpoints"
        jobs = CulmProcess(
            "the streaming jobs",
            ("job", "run", "all", "--checkpoints", str(checkpoints)),
            variables,
            logs / "jobs.log",
        )
        connectors = [
            CulmProcess(
                f"the connector {edge}",
                (
                    "connector",
                    "run",
                    "--listen",
                    f"127.0.0.1:{port}",
                    "--dir",
                    str(settings.directory / edge),
                ),
                variables,
                logs / f"{edge}.log",
            )
            for edge, port in zip(EDGES, ports, strict=True)
        ]
        stack.enter_context(running([jobs, *connectors]))
        tell("starting the Spark jobs and two connectors")
        for process in (jobs, *connectors):
            process.start()
        plan = await asyncio.to_thread(make_plan, settings.peer_count, settings.entry_count, settings.seed)
        for connector in connectors:
            await asyncio.to_thread(connector.wait_for_log, "serving peers", settings.timeout_s)
        yield Scene(settings, plan, kafka, jobs, connectors, ports)


async def play(settings: DemoSettings, tell: Tell) -> Report:
    """Run the whole story and judge it. Raises DemoError when it cannot go on."""
    started_s = time.monotonic()
    async with staged(settings, tell) as scene, AsyncExitStack() as stack:
        clock = LiveClock()
        tell(f"opening {settings.peer_count} peers with their histories")
        actors = await cast.enter(stack, scene.plan.peers, settings.directory / "peers", settings.seed, clock)
        wanted = _wanted_heights(scene.plan)

        tell("peers announce and catch up")
        catch_up_s = await _timed(_catch_up(scene, actors, wanted))
        await _wait_until_live(actors, settings.timeout_s)

        half = settings.live_entries // 2
        tell(f"publishing {half} entries live")
        await _publish_live(actors, wanted, half, clock, settings)
        await cast.wait_until_all_hold(actors, wanted, settings.timeout_s)

        tell(f"kill -9 of the connector {EDGES[_KILLED_EDGE]}, and on with publishing")
        clock.measuring = False
        recovery_s = await _timed(_kill_and_recover(scene, actors, wanted, half, clock))

        tell("waiting for the streaming jobs")
        evidence = await _settle(scene, actors, wanted)
        timings = Timings(catch_up_s, recovery_s, time.monotonic() - started_s)
        return judge(scene.plan, actors, evidence, timings)


async def _settle(scene: Scene, actors: list[Actor], wanted: dict[LogKey, tuple[str, int]]) -> Evidence:
    """Read the topics until they say what they should, or until time is up: the verdict is not given here."""
    deadline_s = time.monotonic() + scene.settings.timeout_s
    while True:
        scene.jobs.check()
        evidence = await asyncio.to_thread(gather, scene.kafka, wanted)
        if evidence.settled(scene.plan, actors) or time.monotonic() > deadline_s:
            return evidence
        await asyncio.sleep(_POLL_S)


def _wanted_heights(plan: Plan) -> dict[LogKey, tuple[str, int]]:
    wanted = {(log.public_key, log.log_id): (log.schema_id, len(log.entries)) for log in plan.logs}
    wanted[plan.fork.log] = (plan.trunk.schema_id, plan.fork.common)
    for peer in plan.peers:
        writer = peer.writer
        wanted[writer.key_pair.public_key, writer.log_id] = (writer.schema_id, len(writer.entries))
    return wanted


async def _catch_up(scene: Scene, actors: list[Actor], wanted: dict[LogKey, tuple[str, int]]) -> None:
    timeout_s = scene.settings.timeout_s
    for actor in actors:
        edge = actor.plan.edge
        key = await asyncio.to_thread(load_or_make_key, scene.settings.directory / EDGES[edge])
        actor.peer.dial(("127.0.0.1", scene.ports[edge]), key.public_key)
    await _guarded(scene, cast.wait_until_all_hold(actors, wanted, timeout_s))


async def _wait_until_live(actors: list[Actor], timeout_s: float) -> None:
    """Every peer has a live session for each of its schemas that the other side knows."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if all(actor.is_live(actor.plan.writer.schema_id) for actor in actors):
            return
        await asyncio.sleep(0.05)
    raise DemoError("not every peer reached live mode")


async def _publish_live(
    actors: list[Actor],
    wanted: dict[LogKey, tuple[str, int]],
    count: int,
    clock: LiveClock,
    settings: DemoSettings,
) -> None:
    source = random.Random(settings.seed + 1)
    for number in range(count):
        actor = actors[number % len(actors)]
        writer = actor.plan.writer
        key = await cast.publish(actor, writer.append(make_fields(source)), clock)
        wanted[key[0], key[1]] = (writer.schema_id, key[2])
        await asyncio.sleep(_LIVE_PAUSE_S)


async def _kill_and_recover(
    scene: Scene, actors: list[Actor], wanted: dict[LogKey, tuple[str, int]], count: int, clock: LiveClock
) -> None:
    connector = scene.connectors[_KILLED_EDGE]
    publishing = asyncio.ensure_future(_publish_live(actors, wanted, count, clock, scene.settings))
    await asyncio.sleep(count * _LIVE_PAUSE_S / 3)
    connector.kill()
    await asyncio.sleep(count * _LIVE_PAUSE_S / 3)
    connector.start()
    await publishing
    await _guarded(scene, cast.wait_until_all_hold(actors, wanted, scene.settings.timeout_s))


async def _guarded(scene: Scene, work: object) -> None:
    """Wait for ``work``, but end at once when a process that it needs has ended."""
    assert asyncio.iscoroutine(work)
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_POLL_S)
            for process in (scene.jobs, *scene.connectors):
                process.check()
        task.result()
    finally:
        task.cancel()


async def _timed(work: object) -> float:
    assert asyncio.iscoroutine(work)
    started_s = time.monotonic()
    await work
    return time.monotonic() - started_s
