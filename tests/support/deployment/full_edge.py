"""A connector process that serves every protocol, with its probes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.transport import Address
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.kafka.clients import KafkaSettings
from tests.support.deployment.world import Edge

START_LIMIT_S = 60.0


@dataclass
class FullEdge:
    """One connector with the doors of all protocols. Edges with the same ports follow each other."""

    edge: Edge
    metrics_port: int
    http_port: int
    bamboo_port: int
    """Where Bamboo is spoken over TCP."""

    @property
    def address(self) -> Address:
        """The one port that has QUIC by UDP, and Chotki by TCP."""
        return self.edge.address

    @property
    def http(self) -> Address:
        """Where DAGs are served over HTTP."""
        return HOST, self.http_port

    def start(self) -> None:
        """Start the process, and wait until it serves."""
        self.edge.start()
        self.edge.process.wait_for_log("serving peers", START_LIMIT_S)


@contextmanager
def full_edge(
    folder: Path, kafka: KafkaSettings, name: str = "edge", **settings: object
) -> Iterator[FullEdge]:
    """A running connector in `folder / name`; it is stopped at the end.

    `settings` are those of `connector`, with two underscores between nested names.
    """
    port, metrics_port, http_port, bamboo_port = free_ports(4)
    process = CulmProcess(
        f"the connector {name}",
        (
            *("connector", "run", "--listen", f"{HOST}:{port}", "--dir", str(folder / name)),
            *("--metrics-port", str(metrics_port), "--serve-at-once"),
        ),
        # Replicas of Chotki call by TCP at the port that has QUIC by UDP.
        environment(kafka)
        | {
            "CULM_CONNECTOR__CHOTKI__LISTEN": f'["tcp://{HOST}:{port}"]',
            "CULM_CONNECTOR__BAMBOO__LISTEN": json.dumps(
                [f"quic://{HOST}:{port}/yamf", f"tcp://{HOST}:{bamboo_port}/yamf"]
            ),
            "CULM_CONNECTOR__DAG__LISTEN": f"{HOST}:{port}",
            "CULM_CONNECTOR__DAG__APPEND": "anyone",
            "CULM_CONNECTOR__DAG__READ": "anyone",
            "CULM_CONNECTOR__DAG__HTTP": json.dumps(
                {"host": HOST, "port": http_port, "append": "anyone", "read": "anyone"}
            ),
        }
        | {f"CULM_CONNECTOR__{setting.upper()}": str(value) for setting, value in settings.items()},
        folder / f"{name}.log",
    )
    opened = FullEdge(Edge(process, folder / name, port), metrics_port, http_port, bamboo_port)
    try:
        opened.start()
        yield opened
    finally:
        process.stop()
