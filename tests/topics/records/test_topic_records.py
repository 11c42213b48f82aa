"""Keys of the replicated logs' topics, and records that are out of order or bounds."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import RecordError
from culm_topics.logs.records import (
    BlockKey,
    BlockKind,
    BlockSummary,
    ProgressKey,
    ReceiptRecord,
    VersionVectorRecord,
    block_of,
    split_block_key,
)
from culm_topics.records import (
    HEIGHTS_PEER_ID,
    check_peer_key,
    log_key,
    split_log_key,
    split_version_vector_key,
    version_vector_key,
)

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
public_keys = st.binary(min_size=32, max_size=32)


def test_references_and_big_numbers_are_refused() -> None:
    reference = bytes.fromhex("8201d81c05")
    big = bytes.fromhex("8201c24105")
    for value in (reference, big):
        with pytest.raises(RecordError):
            VersionVectorRecord.decode(value)


def test_a_deep_value_is_refused() -> None:
    with pytest.raises(RecordError):
        ReceiptRecord.decode(b"\x82\x01" + b"\x81" * 10_000)


@given(public_keys, uints)
def test_log_key_sorts_by_author_then_log(public_key: bytes, log_id: int) -> None:
    key = log_key(public_key, log_id)
    assert len(key) == 40
    assert split_log_key(key) == (public_key, log_id)
    if log_id < 2**64 - 1:
        assert key < log_key(public_key, log_id + 1)


@given(public_keys, public_keys, uints)
def test_version_vector_key_is_peer_then_log(peer_id: bytes, public_key: bytes, log_id: int) -> None:
    key = version_vector_key(peer_id, public_key, log_id)
    assert len(key) == 72
    assert split_version_vector_key(key) == (peer_id, public_key, log_id)


def test_log_heights_are_the_rows_of_the_all_zero_peer() -> None:
    assert bytes(32) == HEIGHTS_PEER_ID


@pytest.mark.parametrize("key", [None, b"", bytes(39), bytes(41)])
def test_keys_of_another_size_are_refused(key: bytes | None) -> None:
    for split in (split_log_key, split_version_vector_key, check_peer_key):
        with pytest.raises(RecordError):
            split(key)


@given(st.integers(0, 16), public_keys, st.binary(max_size=80), st.integers(0, 1), st.integers(0, 65_535))
def test_a_block_key_is_read_as_it_was_written(
    block_bits: int, public_key: bytes, name: bytes, slot: int, chunk: int
) -> None:
    block = block_of(public_key, block_bits)
    for key in (
        BlockKey(BlockKind.SUMMARY, block_bits, block, name),
        BlockKey(BlockKind.HEIGHTS, block_bits, block, name, slot, chunk),
        ProgressKey(block_bits, chunk),
    ):
        assert split_block_key(key.encode()) == key


@given(st.integers(0, 16), public_keys, public_keys)
def test_blocks_are_ranges_of_the_sort_order(block_bits: int, key: bytes, other: bytes) -> None:
    low, high = sorted((key, other))
    assert block_of(low, block_bits) <= block_of(high, block_bits) < 1 << block_bits


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        bytes((0, 8, 0)),
        bytes((3, 8, 0, 0)),  # no such kind
        bytes((0, 17, 0, 0)),  # more bits than there are
        bytes((0, 8, 1, 0)),  # block 256 of 256
        bytes((1, 8, 0, 0, 0, 0)),  # a chunk without its number
        bytes((1, 8, 0, 0, 2, 0, 0)),  # a third slot
        bytes((2, 8, 0, 0, 0)),  # something behind a shard
    ],
)
def test_a_key_that_names_no_block_is_refused(key: bytes | None) -> None:
    with pytest.raises(RecordError):
        split_block_key(key)


@pytest.mark.parametrize(
    "items",
    [
        [1, [[1, 5], [0, 5]], 0, 0, {}, 0, [], b""],
        [1, [[1, 5], [1, 6]], 0, 0, {}, 0, [], b""],
        [1, [], 0, 0, {"b": b"", "a": b""}, 0, [], b""],
        [1, [], 0, 0, {}, 0, [], bytes(47)],
        [1, [], 0, 0, {}, 0, [], bytes(16_385 * 48)],
    ],
)
def test_a_summary_out_of_order_or_bounds_is_refused(items: list[Any]) -> None:
    with pytest.raises(RecordError):
        BlockSummary.decode(cbor2.dumps(items))
