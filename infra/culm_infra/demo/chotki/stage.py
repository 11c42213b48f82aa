"""What the demo of Chotki plays on: Kafka, topics, the job `chotki` and two edges, started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.transport.tcp.settings import TlsFiles
from culm_infra.demo.chotki.certificate import HOST, make_certificate
from culm_infra.demo.chotki.plan import EDGES, SCHEMES_OF
from culm_infra.demo.kit.broker import broker
from culm_infra.demo.kit.processes import (
    CulmProcess,
    Show,
    environment,
    running,
)
from culm_infra.stack.ports import free_ports
from culm_topics.kafka.clients import KafkaSettings

_SERVING = "serving chotki-tcp"
"""What an edge prints once replicas may come."""


@dataclass(frozen=True, slots=True)
class ChotkiDemoSettings:
    """How large the demo is: `objects` at the beginning, and rounds in which everybody edits every type."""

    directory: Path
    objects: int = 30
    rounds: int = 30
    seed: int = 7
    timeout_s: float = 120.0
    keep: bool = False
    kafka: KafkaSettings | None = None
    heap_mb: int | None = None


@dataclass(slots=True)
class ChotkiScene:
    """What is on stage while the demo runs. `addresses`: of each edge by scheme."""

    settings: ChotkiDemoSettings
    kafka: KafkaSettings
    job: CulmProcess
    edges: list[CulmProcess]
    addresses: list[dict[str, str]]
    tls: TlsFiles

    def check(self) -> None:
        """Raises DemoError when a process has ended by itself."""
        for process in (self.job, *self.edges):
            process.check()


@contextlib.asynccontextmanager
async def staged(settings: ChotkiDemoSettings, show: Show) -> AsyncIterator[ChotkiScene]:
    """Kafka, topics, job and edges, started; everything but a Kafka to keep is stopped at the end.

    A local stack is brought up in the demo's directory unless ``settings.kafka`` names a cluster.
    """
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(
            broker(settings.directory, settings.kafka, show, heap_mb=settings.heap_mb, keep=settings.keep)
        )
        logs = settings.directory / "output"
        logs.mkdir(parents=True, exist_ok=True)
        tls = make_certificate(settings.directory)
        addresses = _addresses()
        variables = environment(kafka)
        job = CulmProcess(
            "the job chotki",
            ("job", "run", "chotki", "--checkpoints", str(settings.directory / "checkpoints")),
            variables,
            logs / "job.log",
        )
        shown = {
            "CULM_CONNECTOR__CHOTKI__TLS__CERTIFICATE": str(tls.certificate),
            "CULM_CONNECTOR__CHOTKI__TLS__PRIVATE_KEY": str(tls.private_key),
        }
        edges = [
            CulmProcess(
                f"the edge {edge}",
                (
                    *("chotki", "listen", *urls.values()),
                    *("--dir", str(settings.directory / edge), "--name", edge),
                ),
                variables | shown,
                logs / f"{edge}.log",
            )
            for edge, urls in zip(EDGES, addresses, strict=True)
        ]
        stack.enter_context(running([job, *edges]))
        show("starting the Spark job chotki and two edges")
        for process in (job, *edges):
            process.start()
        scene = ChotkiScene(settings, kafka, job, edges, addresses, tls)
        await serving(scene, edges)
        yield scene


async def serving(scene: ChotkiScene, edges: list[CulmProcess]) -> None:
    """Wait until replicas may come to these edges. Raises DemoError."""
    for edge in edges:
        await asyncio.to_thread(edge.wait_for_log, _SERVING, scene.settings.timeout_s)


def _addresses() -> list[dict[str, str]]:
    return [{scheme: f"{scheme}://{HOST}:{free_ports(1)[0]}" for scheme in schemes} for schemes in SCHEMES_OF]
