"""Shards in chunks, and the local file of where blocks lie."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.multihash import BLAKE2B_256, SHA2_512, block_hasher
from culm_models.dag.errors import HashUnsupported
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_topics.dag.consumer.shard_places import HeldBlock, ShardPlace, ShardPlaces
from culm_topics.dag.errors import ShardChunkRefused, ShardHashRefused, ShardTooLarge
from culm_topics.dag.records import (
    BlockPlace,
    ShardChunkRecord,
    ShardIndexRecord,
    decode_shard_chunk,
    shard_index_key,
)
from culm_topics.dag.shard_chunks import ShardAssembly, cut_shard
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
    block = places.block(A)
    assert block is not None and block.shard.cid == TWO
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


# Shards in chunks: cut and put together they are what they were; what is forged is refused by its code.


SPACE = bytes(range(32))
sizes = st.sampled_from([1, 7, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2_000_000])


def bytes_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@settings(max_examples=25)
@given(sizes, st.lists(st.integers(0, 2_000_000), max_size=5), st.randoms())
def test_a_shard_comes_back_whatever_its_parts_and_the_order_of_its_chunks(
    size: int, cuts: list[int], order: random.Random
) -> None:
    data = bytes_of(size)
    shard = cid_of(CAR, data)
    places = [0, *sorted(min(cut, size) for cut in cuts), size]
    parts = [memoryview(data)[low:high] for low, high in pairwise(places)]
    records = [(key, record.encode()) for key, record in cut_shard(shard, size, parts, space=SPACE)]
    order.shuffle(records)
    with ShardAssembly(shard, size) as assembly:
        for count, (key, value) in enumerate([*records, *records], 1):
            named, offset, record = decode_shard_chunk(key, value)
            assert named == shard
            assert assembly.add(offset, record) == (count >= len(records))
        assert assembly.is_whole and assembly.read() == data and assembly.missing() == []


@pytest.mark.parametrize(
    "shard",
    [
        make_cid(1, CAR, SHA2_512, hashlib.sha512(b"abc").digest()),
        make_cid(1, CAR, BLAKE2B_256, hashlib.blake2b(b"abc", digest_size=32).digest()),
    ],
)
def test_every_hash_that_is_checked_whole_is_checked_in_parts(shard: Cid) -> None:
    hasher = block_hasher(shard)
    hasher.update(b"a")
    hasher.update(memoryview(b"bc"))
    assert hasher.digest() == shard.digest
    with ShardAssembly(shard, 3) as assembly:
        assert assembly.add(0, ShardChunkRecord(3, b"abc", SPACE))


def test_a_hash_that_nobody_checks_is_refused_at_once() -> None:
    for code in (0, 0x16):
        with pytest.raises(HashUnsupported):
            ShardAssembly(make_cid(1, CAR, code, b"abc"), 3)


def test_what_has_not_come_is_named() -> None:
    size = 4 * CHUNK_SIZE + 3
    data = bytes_of(size)
    shard = cid_of(CAR, data)
    chunks = [record for _, record in cut_shard(shard, size, [data], space=SPACE)]
    with ShardAssembly(shard, size) as assembly:
        assert assembly.missing() == [offset * CHUNK_SIZE for offset in range(5)]
        assembly.add(4 * CHUNK_SIZE, chunks[4])
        assembly.add(2 * CHUNK_SIZE, chunks[2])
        assert assembly.missing() == [0, CHUNK_SIZE, 3 * CHUNK_SIZE]
        assert (assembly.held_bytes, assembly.is_whole) == (CHUNK_SIZE + 3, False)


@pytest.mark.parametrize("parts", [[], [b"ab"], [b"abc", b"d"], [bytes(CHUNK_SIZE + 4)]])
def test_parts_that_are_not_the_shard_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(ShardChunkRefused) as refused:
        list(cut_shard(cid_of(CAR, b"abc"), 3, parts, space=SPACE))
    assert refused.value.code == "topics.shard_chunk"


def test_a_shard_above_the_limit_is_refused_before_its_first_byte() -> None:
    with pytest.raises(ShardTooLarge) as refused:
        ShardAssembly(cid_of(CAR, b"abc"), 3, max_bytes=2)
    assert refused.value.code == "topics.shard_size" and refused.value.hint is not None


def test_a_chunk_of_another_size_or_place_is_refused_and_costs_only_itself() -> None:
    shard = cid_of(CAR, b"abc")
    with ShardAssembly(shard, 3) as assembly:
        for offset, record in (
            (0, ShardChunkRecord(4, b"abcd", SPACE)),
            (1, ShardChunkRecord(3, b"abc", SPACE)),
            (CHUNK_SIZE, ShardChunkRecord(3, b"abc", SPACE)),
        ):
            with pytest.raises(ShardChunkRefused):
                assembly.add(offset, record)
        assert assembly.add(0, ShardChunkRecord(3, b"abc", SPACE))


def test_forged_chunks_are_refused_and_good_ones_begin_anew() -> None:
    with ShardAssembly(cid_of(CAR, b"abc"), 3) as assembly:
        with pytest.raises(ShardHashRefused) as refused:
            assembly.add(0, ShardChunkRecord(3, b"abd", SPACE))
        assert refused.value.code == "topics.shard_hash"
        assert (assembly.is_whole, assembly.held_bytes, assembly.missing()) == (False, 0, [0])
        assert assembly.add(0, ShardChunkRecord(3, b"abc", SPACE))
        assert assembly.read() == b"abc"
