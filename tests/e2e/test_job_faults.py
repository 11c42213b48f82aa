"""The streaming jobs under faults: a driver killed in mid-batch, and records on `entries` that are none."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from confluent_kafka import Message

from culm_topics.kafka import clients as kafka
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.partitions import read_to_end
from culm_topics.records import RejectedRecord, log_key
from tests.support.deployment.members import (
    audit,
    heights,
    members,
    new_schema,
    publish_slowly,
    read_logs,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World
from tests.support.p2panda.logs import author, make_log

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


async def test_a_driver_killed_in_mid_batch_under_live_peers(world: World, tmp_path: Path) -> None:
    schema = new_schema("kill_driver")
    history = write_logs(1, schema, [40] * 25)
    own = write_logs(2, schema, [1, 1])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        await audit(world, schema, own, peers)
        async with asyncio.TaskGroup() as group:
            for peer, writer in zip(peers, own, strict=True):
                group.create_task(publish_slowly(peer, writer, 100))
            for writer in history:
                await peers[0].add(writer.entries)
            # A batch begins with the first records that come: the jobs are in the middle of one.
            await world.until(lambda: peers[1].lacks(heights(history)) < 800, "a part of the history")
            world.kill_jobs()
            # Both edges serve this schema already: they go on without the jobs.
            await until_all_hold(world, history, *peers)
            world.jobs.start()
        await audit(world, schema, history + own, peers)


async def test_garbage_on_entries_is_refused_with_its_place_and_stops_nobody(
    world: World, tmp_path: Path
) -> None:
    schema = new_schema("garbage")
    topic = world.kafka.topic("entries")
    log = make_log(author("garbage"), 0, 1, schema_id=schema)
    sound = EntryRecord(
        log[0].entry_bytes, log[0].payload_bytes, schema, b"\x01" * 32, 0, b"no connector"
    ).encode()
    signature_changed = log[0].entry_bytes[:-1] + bytes([log[0].entry_bytes[-1] ^ 1])
    forged = EntryRecord(
        signature_changed, log[0].payload_bytes, schema, b"\x01" * 32, 0, b"no connector"
    ).encode()
    garbage = [
        (log_key(*log[0].log), os.urandom(300)),
        (b"no log key", sound),
        (log_key(b"\x02" * 32, 7), sound),
        (None, sound),
        (log_key(*log[0].log), b""),
        (log_key(*log[0].log), None),
        (log_key(*log[0].log), forged),
    ]
    producer = kafka.producer(world.kafka)
    places: list[tuple[str, int, int]] = []

    def delivered(_: object, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        places.append((topic, partition, offset))

    for key, value in garbage:
        producer.produce(topic, value, key, on_delivery=delivered)
    assert producer.flush(30) == 0

    def refused() -> set[tuple[str, int, int]]:
        records = [RejectedRecord.decode(message.value) for message in read_to_end(world.kafka, "rejected")]
        return {record.source for record in records if record.source is not None}

    missing = set(places)

    def all_refused() -> bool:
        nonlocal missing
        missing = set(places) - refused()
        return not missing

    await world.until(all_refused, lambda: f"refusals of {sorted(missing)}, of {places}")
    own = write_logs(1, schema, [20, 20])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await audit(world, schema, own, peers)
    authors = {writer.key_pair.public_key for writer in own}
    assert {key[0] for key, _ in read_logs(world.kafka, schema)} == authors
