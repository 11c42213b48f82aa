"""The real broker that tests run against: which one, in which order, and its end.

CULM_BOOTSTRAP, when set; else a broker of our own from Kafka's jars; else, where Java or the jars are not
to be had, Apache Kafka's official image in a Docker engine. There is no fourth: without one of them the
tests fail and say why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from culm_infra.stack import JarError, JarSumError, JavaNotFoundError, Stack
from culm_infra.stack.broker import cluster_id_at
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings

IMAGE = "apache/kafka:4.3.1"
_CONTAINER_TIMEOUT_S = 90.0
_DELETE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker: its address, and words on where it comes from for the report."""

    bootstrap: str
    origin: str
    stack: Stack | None = None
    """The stack that it is, where it is one of our own: a test may kill it, and starts it again."""


class NoBrokerError(Exception):
    """None of the three could be had."""


@contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    """The first of the three that can be had; ``directory`` is for the data of one of our own."""
    configured = os.environ.get("CULM_BOOTSTRAP")
    if configured:
        yield Broker(configured, "CULM_BOOTSTRAP")
        return
    stack = Stack(directory)
    try:
        try:
            bootstrap = stack.up(quick_start=True)
        except JarSumError:
            raise  # never a reason to look elsewhere
        except (JarError, JavaNotFoundError) as error:
            with _container(error) as bootstrap:
                yield Broker(bootstrap, f"Docker, {IMAGE}")
            return
        yield Broker(bootstrap, f"jars of Apache Kafka, {directory}", stack)
    finally:
        stack.down()


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete the topics whose names begin with a prefix. What a broker that is away keeps harms nobody."""
    client = clients.admin(KafkaSettings(bootstrap=bootstrap))
    with suppress(KafkaException):
        names = [
            name for name in client.list_topics(timeout=_DELETE_TIMEOUT_S).topics if name.startswith(prefix)
        ]
        if names:
            wait(client.delete_topics(names).values(), _DELETE_TIMEOUT_S)


@contextmanager
def _container(no_jars: Exception) -> Iterator[str]:
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        DockerClient().client.ping()
    except Exception as error:
        raise NoBrokerError(
            f"no Kafka to test against: CULM_BOOTSTRAP is not set; no broker of our own ({no_jars}); "
            f"no Docker engine ({error})"
        ) from error
    (port,) = free_ports(1)
    container = (
        DockerContainer(IMAGE)
        .with_env("KAFKA_NODE_ID", "1")
        .with_env("KAFKA_PROCESS_ROLES", "broker,controller")
        .with_env("KAFKA_LISTENERS", f"PLAINTEXT://:{port},CONTROLLER://:9093")
        .with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{HOST}:{port}")
        .with_env("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER")
        .with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")
        .with_env("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@localhost:9093")
        .with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        .with_env("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
        .with_env("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1")
        .with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
        .with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
        .with_env("KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR", "1")
        .with_env("KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR", "1")
    )
    bindings: dict[str, Any] = container.ports
    bindings[f"{port}/tcp"] = (HOST, port)  # docker's own form for "on this address only"
    with container:
        deadline = time.monotonic() + _CONTAINER_TIMEOUT_S
        while cluster_id_at(port, timeout_s=1.0) is None:
            if time.monotonic() > deadline:
                raise NoBrokerError(f"{IMAGE} did not answer within {_CONTAINER_TIMEOUT_S:g} s")
        yield f"{HOST}:{port}"
