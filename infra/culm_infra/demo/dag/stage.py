"""Kafka, and one deployment per policy with its topics and two connectors."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.settings import ALPN
from culm_connectors.transport.interface import Address
from culm_infra.demo.dag.door import DoorClient
from culm_infra.demo.dag.size import DagDemoSize, Policy
from culm_infra.demo.kit.processes import CulmProcess, DemoError
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings

_SERVING: Final = f"serving {ALPN}"
"""Printed by a connector once peers of DAG replication may connect."""
_TOKEN: Final = "cem's token"
_PARTITIONS: Final = 2


@dataclass(slots=True)
class DagEdgeProcess:
    """One connector with its QUIC address and a client of its HTTP door."""

    name: str
    process: CulmProcess
    address: Address
    door: DoorClient

    async def serving(self, stage: DemoStage) -> None:
        """Wait until peers and clients may connect. Raises `DemoError`."""
        await stage.serving([self.process], _SERVING)
        await stage.until(self._answers, f"{self.name} to answer by HTTP")

    async def _answers(self) -> bool:
        try:
            await self.door.get("/openapi.json")
        except DemoError:
            return False
        return True


@dataclass(slots=True)
class DagDeployment:
    """The deployment of one policy: topics with their own prefix, two edges, and the job."""

    policy: Policy
    kafka: KafkaSettings
    job: CulmProcess
    west: DagEdgeProcess
    east: DagEdgeProcess

    @property
    def edges(self) -> tuple[DagEdgeProcess, DagEdgeProcess]:
        """Both edges."""
        return self.west, self.east


@asynccontextmanager
async def staged(size: DagDemoSize, stage: DemoStage) -> AsyncIterator[list[DagDeployment]]:
    """Start Kafka and the deployments; at the end stop everything except a Kafka to keep."""
    async with stage.kafka(topics=()) as kafka:
        stage.show("creating the topics of a deployment for each policy")
        deployments = [_deployment(stage, kafka, policy) for policy in size.chosen]
        for deployment in deployments:
            await asyncio.to_thread(admin.create, deployment.kafka)
        await stage.console(deployments[0].kafka)
        stage.show("starting two connectors a policy, with doors for QUIC and HTTP")
        edges = [edge for deployment in deployments for edge in deployment.edges]
        for edge in edges:
            edge.process.start()
        for edge in edges:
            await edge.serving(stage)
        yield deployments


def _deployment(stage: DemoStage, kafka: KafkaSettings, policy: Policy) -> DagDeployment:
    own = kafka.model_copy(update={"prefix": f"{kafka.prefix}{policy}.", "partitions": _PARTITIONS})
    west, east = (_edge(stage, own, policy, name) for name in ("west", "east"))
    log, checkpoints = f"{policy}-job", f"{policy}-checkpoints"
    job = stage.job("dag", kafka=own, log=log, checkpoints=checkpoints, CULM_JOB__DAG__POLICY=policy)
    return DagDeployment(policy, own, job, west, east)


def _edge(stage: DemoStage, kafka: KafkaSettings, policy: Policy, name: str) -> DagEdgeProcess:
    port, other_port, http_port = free_ports(3)
    rule = {"sha256": hashlib.sha256(_TOKEN.encode()).hexdigest(), "append": ["*"], "read": ["*"]}
    process = stage.connector(
        name,
        other_port,
        kafka,
        folder=f"{policy}-edge-{name}",
        CULM_CONNECTOR__DAG__LISTEN=f"{HOST}:{port}",
        CULM_CONNECTOR__DAG__POLICY=policy,
        CULM_CONNECTOR__DAG__APPEND="anyone",
        CULM_CONNECTOR__DAG__READ="anyone",
        CULM_CONNECTOR__DAG__HTTP=json.dumps({"host": HOST, "port": http_port, "tokens": [rule]}),
    )
    return DagEdgeProcess(name, process, (HOST, port), DoorClient(HOST, http_port, _TOKEN))
