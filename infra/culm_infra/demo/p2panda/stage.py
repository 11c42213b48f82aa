"""What the demo plays on: Kafka, the topics, the streaming jobs and two connectors, started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from culm_infra.demo.kit.broker import broker
from culm_infra.demo.kit.processes import SERVING, CulmProcess, Show, environment, running
from culm_infra.demo.p2panda.plan import EDGES, Plan, make_plan
from culm_infra.stack.ports import free_ports
from culm_topics.kafka.clients import KafkaSettings


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
    heap_mb: int | None = None


@dataclass(slots=True)
class Scene:
    """What is on stage while the demo runs."""

    settings: DemoSettings
    plan: Plan
    kafka: KafkaSettings
    jobs: CulmProcess
    connectors: list[CulmProcess]
    ports: list[int]

    def check(self) -> None:
        """Raises DemoError when a process has ended by itself."""
        for process in (self.jobs, *self.connectors):
            process.check()

    def empty_index(self, edge: int) -> None:
        """Throw the index of a stopped connector away."""
        assert not self.connectors[edge].is_running, "its index is in use"
        shutil.rmtree(self.settings.directory / EDGES[edge] / INDEX_FOLDER)


@contextlib.asynccontextmanager
async def staged(settings: DemoSettings, show: Show) -> AsyncIterator[Scene]:
    """Kafka, topics, jobs and connectors, started; everything but a Kafka to keep is stopped at the end.

    A local stack is brought up in the demo's directory unless ``settings.kafka`` names a cluster.
    """
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(
            broker(settings.directory, settings.kafka, show, heap_mb=settings.heap_mb, keep=settings.keep)
        )
        ports = free_ports(len(EDGES))
        variables = environment(kafka)
        logs = settings.directory / "output"
        logs.mkdir(parents=True, exist_ok=True)
        jobs = CulmProcess(
            "the streaming jobs",
            ("job", "run", "all", "--checkpoints", str(settings.directory / "checkpoints")),
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
        show("starting the Spark jobs and two connectors")
        for process in (jobs, *connectors):
            process.start()
        plan = await asyncio.to_thread(make_plan, settings.peer_count, settings.entry_count, settings.seed)
        for connector in connectors:
            await asyncio.to_thread(connector.wait_for_log, SERVING, settings.timeout_s)
        yield Scene(settings, plan, kafka, jobs, connectors, ports)
