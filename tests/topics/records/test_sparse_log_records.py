"""Keys and records of logs with gaps: flavours, partitions by a part of the key, runs, what is refused."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo.range_set import RangeSet
from culm_topics.errors import RecordError
from culm_topics.logs.records import (
    MAX_COVERAGE_RUNS,
    MAX_HOLDING_RUNS,
    PAYLOAD_CHUNK_BYTES,
    CoverageRecord,
    FragmentRecord,
    HoldingRecord,
    PayloadChunkRecord,
    chunk_count,
    clip_runs,
    coverage_key,
    coverage_record,
    decode_fragment,
    decode_payload_chunk,
    fragment_key,
    fragment_partition,
    holding_records,
    payload_chunk_key,
    payload_partition,
    split_coverage_key,
    split_fragment_key,
    split_payload_chunk_key,
)
from culm_topics.records import key_partition, log_key, split_flavoured_log_key
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

KEY = bytes(range(32))
flavours = st.sampled_from([YASMF, YAMF])
ids = st.binary(min_size=32, max_size=32)
u64s = st.integers(0, 2**64 - 1)


@given(ids, u64s, flavours)
def test_a_log_key_says_its_flavour(public_key: bytes, log_id: int, flavour: HashFlavour) -> None:
    key = log_key(public_key, log_id, flavour)
    assert len(key) == {"yasmf": 40, "yamf": 41}[flavour.name]
    assert split_flavoured_log_key(key) == (flavour, (public_key, log_id))


@pytest.mark.parametrize("key", [None, b"", bytes(39), bytes(41), bytes(40) + b"\x02", bytes(42)])
def test_what_is_no_log_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(RecordError):
        split_flavoured_log_key(key)


@given(ids, u64s, flavours, st.integers(1, 2**64 - 1), ids)
def test_keys_are_read_as_they_were_written(
    public_key: bytes, log_id: int, flavour: HashFlavour, seq_num: int, peer_id: bytes
) -> None:
    log = log_key(public_key, log_id, flavour)
    assert split_fragment_key(fragment_key(log, seq_num)) == (flavour, (public_key, log_id), seq_num)
    assert split_coverage_key(coverage_key(peer_id, log)) == (peer_id, flavour, (public_key, log_id))


@pytest.mark.parametrize("key", [None, b"", bytes(5), bytes(37), bytes(38), bytes(70), bytes(71), bytes(74)])
def test_what_is_no_key_is_refused(key: bytes | None) -> None:
    for split in (split_fragment_key, split_coverage_key, split_payload_chunk_key):
        with pytest.raises(RecordError):
            split(key)


@pytest.mark.parametrize("size", [47, 50])
def test_a_fragments_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(RecordError):
        split_fragment_key(bytes(size - 1) + b"\x01")
    with pytest.raises(RecordError, match="start at 1"):
        split_fragment_key(bytes(48))


def test_a_fragment_has_the_hash_that_its_key_names() -> None:
    record = FragmentRecord(b"entry", YAMF.hash(b"entry"))
    assert decode_fragment(fragment_key(log_key(KEY, 1, YAMF), 3), record.encode()) == (
        YAMF,
        (KEY, 1),
        3,
        record,
    )
    with pytest.raises(RecordError, match="yasmf"):
        decode_fragment(fragment_key(log_key(KEY, 1), 3), record.encode())


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_the_partition_is_that_of_the_java_client(key: bytes, murmur2: int) -> None:
    """The hashes are those of the tests of Kafka's own `Utils.murmur2`."""
    assert key_partition(key, 1 << 31) == murmur2 & 0x7FFF_FFFF
    assert key_partition(key, 8) == (murmur2 & 0x7FFF_FFFF) % 8


def test_a_log_and_its_fragments_and_the_chunks_of_a_payload_lie_together() -> None:
    log, payload_hash = log_key(KEY, 7), YAMF.hash(b"payload")
    assert fragment_partition(log, 8) == key_partition(log, 8)
    assert payload_partition(payload_hash, 8) == key_partition(payload_hash, 8)


@given(flavours, st.integers(0, 2**32 - 1))
def test_a_chunks_key_is_read_as_it_was_written(flavour: HashFlavour, index: int) -> None:
    payload_hash = flavour.hash(b"payload")
    assert split_payload_chunk_key(payload_chunk_key(payload_hash, index)) == (payload_hash, index)


def test_a_chunk_under_another_chunks_key_is_refused() -> None:
    payload_hash = YASMF.hash(b"x")
    value = PayloadChunkRecord(1, 0, b"x").encode()
    assert decode_payload_chunk(payload_chunk_key(payload_hash, 0), value)[1].index == 0
    with pytest.raises(RecordError):
        decode_payload_chunk(payload_chunk_key(payload_hash, 1), value)


@pytest.mark.parametrize(
    "items",
    [
        [1, 0, 0, b""],
        [1, 1, 0, b""],
        [1, 1, 0, b"ab"],
        [1, PAYLOAD_CHUNK_BYTES + 1, 1, b"a"],
        [1, PAYLOAD_CHUNK_BYTES, PAYLOAD_CHUNK_BYTES, b""],
        [1, PAYLOAD_CHUNK_BYTES + 1, 0, b"a"],
        [1, PAYLOAD_CHUNK_BYTES + 1, 0, bytes(PAYLOAD_CHUNK_BYTES + 1)],
        [1, (PAYLOAD_CHUNK_BYTES << 32) + 1, 0, bytes(PAYLOAD_CHUNK_BYTES)],
    ],
)
def test_a_chunk_that_does_not_fit_its_payload_is_refused(items: list[Any]) -> None:
    with pytest.raises(RecordError):
        PayloadChunkRecord.decode(cbor2.dumps(items))


def test_a_payload_has_as_many_chunks_as_it_fills() -> None:
    sizes = (0, 1, PAYLOAD_CHUNK_BYTES, PAYLOAD_CHUNK_BYTES + 1, 10 * PAYLOAD_CHUNK_BYTES)
    assert [chunk_count(size) for size in sizes] == [0, 1, 1, 2, 10]


BAD_RUNS: list[Any] = [[0, 1], [1], [1, 1], [2, 1], [1, 2, 2, 3], [3, 4, 1, 2], [1, True], [1, 2**64]]


@pytest.mark.parametrize("index", range(2, 5))
@pytest.mark.parametrize("bad", BAD_RUNS)
def test_runs_out_of_order_are_refused(index: int, bad: list[Any]) -> None:
    items: list[Any] = [1, bytes(40), [], [], []]
    items[index] = bad
    with pytest.raises(RecordError):
        HoldingRecord.decode(cbor2.dumps(items))
    with pytest.raises(RecordError):
        CoverageRecord.decode(cbor2.dumps([1, *items[2:], 0]))


def test_more_runs_than_a_record_has_room_for_are_refused() -> None:
    many = [number for start in range(MAX_COVERAGE_RUNS + 1) for number in (2 * start + 1, 2 * start + 2)]
    with pytest.raises(RecordError):
        CoverageRecord.decode(cbor2.dumps([1, [], many, [], 0]))
    with pytest.raises(RecordError):
        HoldingRecord.decode(cbor2.dumps([1, bytes(40), many[: 2 * MAX_HOLDING_RUNS + 2], [], []]))
    with pytest.raises(RecordError):
        HoldingRecord.decode(cbor2.dumps([1, bytes(40), many[: 2 * MAX_HOLDING_RUNS], [1, 2], []]))


def test_what_a_peer_holds_goes_into_as_many_records_as_it_takes() -> None:
    log = log_key(KEY, 0)
    many = [(2 * number, 2 * number + 1) for number in range(2 * MAX_HOLDING_RUNS)]
    assert list(holding_records(log)) == []
    assert list(holding_records(log, [(1, 5)], [(2, 3)])) == [HoldingRecord(log, ((1, 5),), ((2, 3),))]
    records = [HoldingRecord.decode(record.encode()) for record in holding_records(log, many, many, [(4, 5)])]
    assert [run for record in records for run in record.entries] == many[1:]  # no entry has the number 0
    assert [run for record in records for run in record.payloads] == many[1:]
    assert [run for record in records for run in record.payloads_dropped] == [(4, 5)]


def test_coverage_says_how_much_it_leaves_out_and_fits_its_topic() -> None:
    step = 2**64 // (2 * MAX_COVERAGE_RUNS)
    many = [(2**63 + number * 2, 2**63 + number * 2 + 1) for number in range(MAX_COVERAGE_RUNS + 3)]
    record = coverage_record(many, [(1, step)], many)
    assert (record.left_out, len(record.entries), record.payloads) == (6, MAX_COVERAGE_RUNS, ((1, step),))
    value = record.encode()
    assert CoverageRecord.decode(value) == record
    assert len(value) * 3 // 2 < MAX_MESSAGE_BYTES - 1024


def test_the_numbers_that_no_list_can_name_are_left_out() -> None:
    ranges = RangeSet()
    ranges.add(0, 3)
    ranges.add(2**64 - 1, 2**64)
    assert clip_runs(ranges) == ((1, 3),)
