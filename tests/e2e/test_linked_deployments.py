"""Two deployments, each with a Kafka of its own as far as they know, linked by one QUIC connection."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.stack.ports import free_ports
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.deployment.members import (
    audit,
    member,
    new_schema,
    read_logs,
    signed,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import Edge, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@dataclass
class Far:
    """The other deployment: topics under another prefix, its own streaming job, its own connector."""

    kafka: KafkaSettings
    edge: Edge


@contextlib.asynccontextmanager
async def far_deployment(world: World, folder: Path) -> AsyncIterator[Far]:
    kafka = KafkaSettings(bootstrap=world.kafka.bootstrap, prefix=f"far-{world.kafka.prefix}", partitions=2)
    admin.create(kafka)
    variables = environment(kafka) | {"CULM_STACK__DIRECTORY": str(folder / "stack")}
    (port,) = free_ports(1)
    host, near = world.west.address
    commands = {
        "far job": ("job", "run", "logs", "--checkpoints", str(folder / "checkpoints")),
        "far connector": (
            *("connector", "run", "--listen", f"127.0.0.1:{port}", "--dir", str(folder / "far")),
            *("--dial", f"{host}:{near}"),
        ),
    }
    processes = [
        CulmProcess(name, command, variables, folder / f"{name.replace(' ', '-')}.log")
        for name, command in commands.items()
    ]
    edge = Edge(processes[1], folder / "far", port)
    try:
        for process in processes:
            process.start()
        await world.until(lambda: edge.is_serving, "the far connector")
        yield Far(kafka, edge)
    finally:
        for process in reversed(processes):
            process.stop()


@pytest.mark.soak  # tests/connectors/p2panda/test_receipts.py links connectors in every run
async def test_entries_cross_a_link_without_kafka_and_are_in_both_logs(world: World, tmp_path: Path) -> None:
    schema = new_schema("linked")
    before = write_logs(1, schema, [5, 1, 12])
    own = write_logs(2, schema, [1, 1])
    async with (
        far_deployment(world, tmp_path) as far,
        member(tmp_path, "near", [schema]) as near,
        member(tmp_path, "away", [schema]) as away,
    ):
        for log in before:
            await near.add(log.entries)
        await near.add(own[0].entries)
        await away.add(own[1].entries)
        near.dial(world.east)
        away.dial(far.edge)
        every = [*before, *own]
        # What was there before crosses as well as what is written while all are live.
        await until_all_hold(world, every, near, away)
        await until_live(world, schema, near, away)
        await near.write(own[0], 20)
        await away.write(own[1], 20)
        await until_all_hold(world, every, near, away)
        await audit(world, schema, every, [near])
        wanted = signed(every)
        arrived: dict[object, object] = {}

        def all_there() -> bool:
            arrived.clear()
            arrived.update(read_logs(far.kafka, schema))
            return arrived.keys() == wanted.keys()

        await world.until(all_there, lambda: f"{len(arrived)} of {len(wanted)} entries in the far logs")
        assert arrived == wanted
        assert set(away.taken.values()) == {1}
        assert away.taken.keys() == wanted.keys()
