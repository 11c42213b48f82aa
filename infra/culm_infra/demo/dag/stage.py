"""What the demo plays on: Kafka, and a deployment for each policy with its topics and two connectors."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.settings import ALPN
from culm_connectors.transport.interface import Address
from culm_infra.demo.dag.door_client import DoorClient
from culm_infra.demo.dag.plan import HOST, DagDemoSettings, Policy
from culm_infra.demo.kit.broker import broker
from culm_infra.demo.kit.processes import (
    CulmProcess,
    DemoError,
    Show,
    environment,
    running,
)
from culm_infra.demo.kit.waiting import wait_until
from culm_infra.stack.ports import free_ports
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings

_SERVING: Final = f"serving {ALPN}"
"""What a connector prints once peers of DAG replication may come."""
_TOKEN: Final = "cem's token"
_PARTITIONS: Final = 2
_STEP_S: Final = 0.05


@dataclass(slots=True)
class DagEdgeProcess:
    """One connector: where it is called over QUIC, and a client of its HTTP door."""

    name: str
    process: CulmProcess
    address: Address
    door: DoorClient
    timeout_s: float

    async def serving(self) -> None:
        """Wait until peers and clients may come. Raises DemoError."""
        await asyncio.to_thread(self.process.wait_for_log, _SERVING, self.timeout_s)
        await wait_until(
            self._answers,
            f"{self.name} to answer by HTTP",
            limit_s=self.timeout_s,
            progress=self.process.printed,
            step_s=_STEP_S,
            check=self.process.check,
        )

    async def _answers(self) -> bool:
        try:
            await self.door.get("/openapi.json")
        except DemoError:
            return False
        return True


@dataclass(slots=True)
class DagDeployment:
    """What one policy has: topics with a prefix of their own, two edges, and the job."""

    policy: Policy
    kafka: KafkaSettings
    job: CulmProcess
    west: DagEdgeProcess
    east: DagEdgeProcess

    @property
    def edges(self) -> tuple[DagEdgeProcess, DagEdgeProcess]:
        """Both edges."""
        return self.west, self.east

    def processes(self) -> list[CulmProcess]:
        """All that runs of it."""
        return [self.job, *(edge.process for edge in self.edges)]

    def check(self) -> None:
        """Raises DemoError when a process has ended by itself."""
        for process in self.processes():
            process.check()


@asynccontextmanager
async def staged(settings: DagDemoSettings, show: Show) -> AsyncIterator[list[DagDeployment]]:
    """Kafka and the deployments; everything but a Kafka to keep is stopped at the end."""
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(
            broker(
                settings.directory,
                settings.kafka,
                show,
                heap_mb=settings.heap_mb,
                keep=settings.keep,
                topics=(),
            )
        )
        (settings.directory / "output").mkdir(parents=True, exist_ok=True)
        show("creating the topics of a deployment for each policy")
        found = [_deployment(settings, kafka, policy) for policy in settings.policies]
        for one in found:
            await asyncio.to_thread(admin.create, one.kafka)
        stack.enter_context(running([process for one in found for process in one.processes()]))
        show("starting two connectors a policy, with doors for QUIC and HTTP")
        edges = [edge for one in found for edge in one.edges]
        for edge in edges:
            edge.process.start()
        for edge in edges:
            await edge.serving()
        yield found


def _deployment(settings: DagDemoSettings, kafka: KafkaSettings, policy: Policy) -> DagDeployment:
    own = kafka.model_copy(update={"prefix": f"{kafka.prefix}{policy}.", "partitions": _PARTITIONS})
    west, east = (_edge(settings, own, policy, name) for name in ("west", "east"))
    job = CulmProcess(
        "the job dag",
        ("job", "run", "dag", "--checkpoints", str(settings.directory / f"{policy}-checkpoints")),
        environment(own) | {"CULM_JOB__DAG__POLICY": policy},
        settings.directory / "output" / f"{policy}-job.log",
    )
    return DagDeployment(policy, own, job, west, east)


def _edge(settings: DagDemoSettings, kafka: KafkaSettings, policy: Policy, name: str) -> DagEdgeProcess:
    port, other_port, http_port = free_ports(3)
    rule = {"sha256": hashlib.sha256(_TOKEN.encode()).hexdigest(), "append": ["*"], "read": ["*"]}
    variables = {
        "CULM_CONNECTOR__DAG__LISTEN": f"{HOST}:{port}",
        "CULM_CONNECTOR__DAG__POLICY": policy,
        "CULM_CONNECTOR__DAG__APPEND": "anyone",
        "CULM_CONNECTOR__DAG__READ": "anyone",
        "CULM_CONNECTOR__DAG__HTTP": json.dumps({"host": HOST, "port": http_port, "tokens": [rule]}),
    }
    arguments = (
        *("connector", "run", "--listen", f"{HOST}:{other_port}"),
        *("--dir", str(settings.directory / f"{policy}-edge-{name}")),
    )
    log = settings.directory / "output" / f"{policy}-edge-{name}.log"
    process = CulmProcess(f"the edge {name}", arguments, environment(kafka) | variables, log)
    door = DoorClient(HOST, http_port, _TOKEN)
    return DagEdgeProcess(name, process, (HOST, port), door, settings.timeout_s)
