"""Announcements over both edges: one state a peer, unannounced schemas, interests that grow."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from culm_models.keys import KeyPair
from culm_models.p2panda.operations.identifiers import normalise
from culm_models.p2panda.wire.codec import decode
from culm_models.p2panda.wire.messages import Announce, Have, SyncRequest
from culm_topics.readers.partitions import read_to_end
from tests.support.deployment.members import (
    audit,
    heights,
    member,
    members,
    new_schema,
    read_logs,
    signed,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import Edge, World
from tests.support.hostile.remote import Hostile, hostile
from tests.support.p2panda.logs import author

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def timestamps(world: World, peer_id: bytes) -> list[int]:
    """Those of all records of one peer on `announcements`, in order; the last one is its state."""
    stamps = []
    for message in read_to_end(world.kafka, "announcements"):
        if message.key == peer_id:
            announce = decode(message.value)
            assert isinstance(announce, Announce)
            stamps.append(announce.timestamp)
    return stamps


async def until_heard(world: World, remote: Hostile, kind: type) -> None:
    await world.until(
        lambda: any(isinstance(message, kind) for message in remote.heard), f"a {kind.__name__}"
    )


async def until_schema_served(world: World, remote: Hostile, schema: str) -> None:
    def served() -> bool:
        return any(isinstance(message, Announce) and schema in message.schema_ids for message in remote.heard)

    await world.until(served, "an edge that announces the schema")


async def until_told(world: World, edge: Edge, schema: str) -> None:
    """Everything that an edge had to tell until now is on `announcements`, for a stranger's word is."""
    stranger = KeyPair.generate(os.urandom(32))
    async with hostile(edge.address, stranger) as remote:
        await remote.say(Announce(1, 1, (schema,)))
        await world.until(lambda: timestamps(world, stranger.public_key), "a stranger's announcement")


async def test_a_peer_at_two_edges_has_one_announcement_state(world: World) -> None:
    schema = new_schema("mover")
    key_pair = author(schema)

    def state() -> int:
        return (timestamps(world, key_pair.public_key) or [0])[-1]

    async with hostile(world.west.address, key_pair) as at_west:
        await at_west.say(Announce(1, 1_000, (schema,)))
        await world.until(lambda: state() == 1_000, "the first announcement")
        await until_schema_served(world, at_west, schema)
    async with hostile(world.east.address, key_pair) as at_east:
        await at_east.say(Announce(1, 2_000, (schema,)))
        await world.until(lambda: state() == 2_000, "the second announcement, from the other edge")
        await until_told(world, world.west, schema)
        async with hostile(world.west.address, key_pair) as late:
            await until_heard(world, late, Announce)
            # The answer to the request says that the late announcement has been dealt with.
            await late.say(Announce(1, 1_500, (schema,)), SyncRequest(0, 0, (schema,)))
            await until_heard(world, late, Have)
            await until_told(world, world.west, schema)
            assert timestamps(world, key_pair.public_key) == [1_000, 2_000]
            # At both edges at once, the older one perhaps last: the newer one is what remains.
            for older in (3_000, 5_000, 7_000):
                await asyncio.gather(
                    at_east.say(Announce(1, older + 1_000, (schema,))),
                    late.say(Announce(1, older, (schema,))),
                )
            await until_told(world, world.west, schema)
            await until_told(world, world.east, schema)
            await world.until(lambda: state() == 8_000, lambda: f"the newest, not {state()}")


async def test_what_is_unannounced_is_no_longer_delivered_until_it_is_announced_again(
    world: World, tmp_path: Path
) -> None:
    kept, dropped = new_schema("kept"), new_schema("dropped")
    (of_kept,) = write_logs(1, kept, [5])
    (of_dropped,) = write_logs(1, dropped, [5])
    both = [of_kept, of_dropped]
    async with (
        member(tmp_path, "writer", [kept, dropped]) as writer,
        member(tmp_path, "reader", [kept, dropped]) as reader,
    ):
        await writer.add(of_kept.entries + of_dropped.entries)
        writer.dial(world.west)
        reader.dial(world.east)
        await until_all_hold(world, both, reader)
        await until_live(world, kept, writer, reader)
        await until_live(world, dropped, writer, reader)

        reader.peer.driver.announce(normalise([kept]))
        await world.until(lambda: not reader.is_live(dropped) and reader.is_live(kept), "a narrower session")
        await writer.write(of_dropped, 5)
        await writer.write(of_kept, 5)
        await until_all_hold(world, [of_kept], reader)
        # Both are there by now, on `logs` and at the reader's edge.
        await audit(world, dropped, [of_dropped], [])
        await writer.write(of_kept, 1)
        await until_all_hold(world, [of_kept], reader)
        assert reader.lacks(heights([of_dropped])) == 5

        reader.peer.driver.announce(normalise([kept, dropped]))
        await until_all_hold(world, both, reader)
        await writer.write(of_dropped, 5)
        await audit(world, dropped, [of_dropped], [writer, reader])
        await audit(world, kept, [of_kept], [writer, reader])


async def test_an_interest_that_grows_is_filled_from_logs(world: World, tmp_path: Path) -> None:
    first, second = new_schema("grows_first"), new_schema("grows_second")
    histories = {schema: write_logs(1, schema, [30, 8, 1]) for schema in (first, second)}
    async with member(tmp_path, "writer", [first, second]) as writer:
        for history in histories.values():
            for log in history:
                await writer.add(log.entries)
        writer.dial(world.west)
        for schema, history in histories.items():
            await audit(world, schema, history, [writer])
        await writer.leave()
    # Nobody who holds the second schema is connected, and the east has never heard of it.
    async with member(tmp_path, "reader", [first]) as reader:
        reader.dial(world.east)
        await until_all_hold(world, histories[first], reader)
        reader.peer.driver.announce(normalise([first, second]))
        await until_all_hold(world, histories[second], reader)
        for schema, history in histories.items():
            await audit(world, schema, history, [reader])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("CULM_E2E_RUNS", "1"))))
async def test_interests_that_grow_during_a_catch_up(world: World, tmp_path: Path, seed: int) -> None:
    """Several peers with the same histories at once, at both edges, while schemas are added one by one."""
    schemas = [new_schema(f"many_{number}") for number in range(5)]
    source = random.Random(seed)
    histories = {schema: write_logs(seed, schema, [40] * 8) for schema in schemas}
    async with members(tmp_path, schemas[0], 4) as peers:
        for log in [log for history in histories.values() for log in history]:
            owners = source.sample(peers, 2)
            for peer in peers:
                await peer.add(log.entries[: 40 if peer in owners else source.randrange(40)])
        for number, peer in enumerate(peers):
            peer.dial(world.edges[number % 2])
        for count in range(2, len(schemas) + 1):
            for peer in peers:
                peer.peer.driver.announce(normalise(schemas[:count]))
            known = [log for schema in schemas[: source.randrange(count)] for log in histories[schema]]
            await until_all_hold(world, known, *peers)
        for schema, history in histories.items():
            await until_all_hold(world, history, *peers)
            await audit(world, schema, history, peers)
            assert dict(read_logs(world.kafka, schema)) == signed(history)
