"""The local file of where blocks lie: what records say in their order, or filled anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from culm_models.dag.blocks.cid import CAR, RAW, cid_of
from culm_topics.dag.consumer.shard_places import HeldBlock, ShardPlace, ShardPlaces
from culm_topics.dag.records import BlockPlace, ShardIndexRecord, shard_index_key
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import TopicMessage

ORIGIN = Origin("cluster", {"culm.dag.shard-index": "one"})
ONE, TWO = cid_of(CAR, b"one"), cid_of(CAR, b"two")
A, B, C = (cid_of(RAW, bytes([name])) for name in b"abc")


def message(shard: bytes, value: bytes, offset: int = 0) -> TopicMessage:
    return TopicMessage(shard, value, 3, offset, 1_000 + offset)


def part(number: int, *blocks: BlockPlace) -> bytes:
    return ShardIndexRecord(500, 2, (), blocks).encode()


def test_blocks_are_found_as_the_records_say() -> None:
    places = ShardPlaces(None, ORIGIN)
    first = message(shard_index_key(ONE, 0), part(0, BlockPlace(A, 10, 5)))
    second = message(shard_index_key(ONE, 1), part(1, BlockPlace(B, 20, 5)), 1)
    places.take([first, second, message(b"junk", b"junk"), second, first], {3: 4})
    assert places.block(A) == HeldBlock(ShardPlace(ONE, 500, 1_000), 10, 5)
    assert places.block(B) == HeldBlock(ShardPlace(ONE, 500, 1_000), 20, 5)
    assert places.block(C) is None and places.shard(TWO) is None
    assert places.positions() == {3: 4}
    assert places.passed_over.records == 1
    places.close()


def test_a_shard_that_was_dropped_holds_nothing_and_another_one_still_does() -> None:
    places = ShardPlaces(None, ORIGIN)
    both = BlockPlace(A, 1, 1)
    places.take(
        [message(shard_index_key(ONE, 0), part(0, both)), message(shard_index_key(TWO, 0), part(0, both))],
        {3: 2},
    )
    places.take([message(shard_index_key(ONE, number), b"") for number in (0, 1)], {3: 4})
    assert places.shard(ONE) is None
    held = places.block(A)
    assert held is not None and held.shard.cid == TWO
    places.take([message(shard_index_key(TWO, 0), b"")], {3: 5})
    assert places.block(A) is None
    places.close()


def test_what_was_read_is_kept_with_its_positions(tmp_path: Path) -> None:
    path = tmp_path / "places"
    places = ShardPlaces(path, ORIGIN)
    places.take([message(shard_index_key(ONE, 0), part(0, BlockPlace(A, 1, 1)))], {3: 7})
    places.close()
    again = ShardPlaces(path, ORIGIN)
    assert again.positions() == {3: 7} and again.block(A) is not None
    again.close()


@pytest.mark.parametrize("damage", ["origin", "bytes", "format"])
def test_a_file_that_cannot_be_trusted_is_filled_anew(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "places"
    places = ShardPlaces(path, ORIGIN)
    places.take([message(shard_index_key(ONE, 0), part(0, BlockPlace(A, 1, 1)))], {3: 7})
    places.close()
    origin = Origin("another", {}) if damage == "origin" else ORIGIN
    if damage == "bytes":
        path.write_bytes(b"no database at all" * 100)
    if damage == "format":
        database = sqlite3.connect(path)
        database.execute("PRAGMA user_version = 9")
        database.close()
    again = ShardPlaces(path, origin)
    assert again.positions() == {} and again.block(A) is None
    again.close()
