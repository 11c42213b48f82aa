"""A broker that dies or stands still, and readers that do not read: nothing is lost, memory stays flat.

What is killed is the broker of all tests, which is whole again at the end; one that is not ours to harm
(`CULM_BOOTSTRAP`, Docker) is spared for one of their own. The long runs write so much that they always have
their own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_infra.demo.p2panda.plan import DemoLogWriter
from culm_infra.stack import Stack
from culm_models.keys import KeyPair
from culm_models.p2panda.wire.messages import Announce, Have, SyncRequest
from tests.support.deployment.members import (
    Member,
    audit,
    members,
    new_schema,
    publish_slowly,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World, frozen, running_world
from tests.support.hostile.remote import hostile
from tests.support.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_MIB = 1024**2
# The long form pushes 30,000.
_PUSHED = int(os.environ.get("CULM_E2E_PUSHED", "12000"))
_PAYLOAD_BYTES = 8_000
_QUIET_S = 3.0
# What a connector may take above its size at rest: its queues, and what Python does not give back.
_ROOM_BYTES = 160 * _MIB


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("own") / "stack")
    try:
        stack.up(quick_start=True)
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="module")
def own_world(own_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("own_world"), own_stack.bootstrap, "own.") as running:
        yield running


@pytest.fixture
def mortal(kafka_broker: Broker, request: pytest.FixtureRequest) -> Iterator[tuple[World, Stack]]:
    """A deployment and the broker below it, which may be killed and runs again when the test is over."""
    ours = kafka_broker.stack
    world: World = request.getfixturevalue("own_world" if ours is None else "world")
    stack: Stack = request.getfixturevalue("own_stack") if ours is None else ours
    yield world, stack
    stack.up(quick_start=True)


def large_logs(schema: str, count: int) -> list[DemoLogWriter]:
    """Logs whose operations together are much larger than what a connector may hold in memory."""
    writers = write_logs(1, schema, [1] * 8)
    for number in range(count):
        writers[number % len(writers)].append({"body": os.urandom(_PAYLOAD_BYTES // 2).hex()})
    return writers


async def load(peer: Member, writers: list[DemoLogWriter]) -> None:
    for writer in writers:
        for start in range(0, len(writer.entries), 500):
            await peer.add(writer.entries[start : start + 500])


async def test_a_killed_broker_under_publishing_peers(mortal: tuple[World, Stack], tmp_path: Path) -> None:
    world, stack = mortal
    schema = new_schema("broker")
    own = write_logs(1, schema, [1, 1])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        await until_all_hold(world, own, *peers)
        async with asyncio.TaskGroup() as group:
            for peer, writer in zip(peers, own, strict=True):
                group.create_task(publish_slowly(peer, writer, 100))
            await world.until(lambda: len(own[0].entries) >= 30, "entries to publish")
            await asyncio.to_thread(stack.kill)
            await world.until(lambda: len(own[0].entries) >= 80, "entries to publish")
            await asyncio.to_thread(stack.up, quick_start=True)
        await audit(world, schema, own, peers)


@pytest.mark.soak
async def test_a_broker_that_stands_still_does_not_fill_the_connector(
    own_world: World, own_stack: Stack, tmp_path: Path
) -> None:
    world = own_world
    schema = new_schema("slow_kafka")
    history = await asyncio.to_thread(large_logs, schema, _PUSHED)
    own = write_logs(2, schema, [1])
    async with members(tmp_path, schema, 2) as peers:
        await load(peers[0], history)
        await peers[1].add(own[0].entries)
        peers[1].dial(world.east)
        await until_live(world, schema, peers[1])
        before = world.west.anonymous_bytes()
        broker = own_stack.status().pid
        assert broker is not None
        peak = 0
        with frozen(broker):
            peers[0].dial(world.west)
            sent, quiet_since_s = 0, time.monotonic()

            def is_stopped() -> bool:
                """Whether no more is taken: the connector's queues are full, and the transport's window."""
                nonlocal sent, quiet_since_s, peak
                peak = max(peak, world.west.anonymous_bytes())
                if (now := peers[0].peer.driver.metrics.bytes_out) != sent:
                    sent, quiet_since_s = now, time.monotonic()
                return sent > 0 and time.monotonic() - quiet_since_s > _QUIET_S

            await world.until(is_stopped, "a peer that is stopped")
        assert sent < _PUSHED * _PAYLOAD_BYTES / 2, "the peer was stopped before it had sent half of it"
        assert peak - before < _ROOM_BYTES
        await audit(world, schema, history + own, peers)


@pytest.mark.soak
async def test_a_peer_that_does_not_read_does_not_fill_the_connector(
    own_world: World, tmp_path: Path
) -> None:
    world = own_world
    schema = new_schema("slow_reader")
    history = await asyncio.to_thread(large_logs, schema, _PUSHED // 2)
    async with members(tmp_path, schema, 2) as peers:
        await load(peers[0], history)
        peers[0].dial(world.west)
        await until_live(world, schema, peers[0])
        before = world.west.anonymous_bytes()
        key_pair = KeyPair.generate(os.urandom(32))
        async with hostile(world.west.address, key_pair, listens=False) as deaf:
            await deaf.say(Announce(1, 1, (schema,)), SyncRequest(0, 0, (schema,)), Have(0, ()))
            # Entries that are new while the deaf one is served wait for it, in vain.
            for _ in range(40):
                for writer in history:
                    await peers[0].write(writer, 5)
            peers[1].dial(world.east)
            await until_all_hold(world, history, *peers)
            assert world.west.anonymous_bytes() - before < _ROOM_BYTES
        await audit(world, schema, history, peers)
