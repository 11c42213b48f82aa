"""What the SDS demo plays on: Kafka, the topics, the job `sds` and two connectors, started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from culm_infra.demo.kit.broker import broker
from culm_infra.demo.kit.processes import SERVING, CulmProcess, Show, environment, running
from culm_infra.demo.sds.bad_network import NetworkFaults
from culm_infra.demo.sds.plan import EDGES
from culm_infra.stack.ports import free_ports
from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class SdsDemoSettings:
    """How large the demo is; ``messages`` are said in each channel, a third of them around the kill."""

    directory: Path
    participants: int = 5
    messages: int = 60
    faults: NetworkFaults = field(default_factory=NetworkFaults)
    cut_s: float = 10.0
    seed: int = 7
    timeout_s: float = 180.0
    keep: bool = False
    kafka: KafkaSettings | None = None
    heap_mb: int | None = None


@dataclass(slots=True)
class Scene:
    """What is on stage while the demo runs."""

    settings: SdsDemoSettings
    kafka: KafkaSettings
    job: CulmProcess
    connectors: list[CulmProcess]
    ports: list[int]

    def check(self) -> None:
        """Raises DemoError when a process has ended by itself."""
        for process in (self.job, *self.connectors):
            process.check()


@contextlib.asynccontextmanager
async def staged(settings: SdsDemoSettings, show: Show) -> AsyncIterator[Scene]:
    """Kafka, topics, job and connectors, started; everything but a Kafka to keep is stopped at the end.

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
        job = CulmProcess(
            "the job sds",
            ("job", "run", "sds", "--checkpoints", str(settings.directory / "checkpoints")),
            variables,
            logs / "job.log",
        )
        connectors = [
            CulmProcess(
                f"the connector {edge}",
                (
                    *("connector", "run", "--listen", f"127.0.0.1:{port}"),
                    *("--dir", str(settings.directory / edge)),
                ),
                variables,
                logs / f"{edge}.log",
            )
            for edge, port in zip(EDGES, ports, strict=True)
        ]
        stack.enter_context(running([job, *connectors]))
        show("starting the Spark job sds and two connectors")
        for process in (job, *connectors):
            process.start()
        for connector in connectors:
            await asyncio.to_thread(connector.wait_for_log, SERVING, settings.timeout_s)
        yield Scene(settings, kafka, job, connectors, ports)
