"""Keys and values of the topics: what is written is read again, in one encoding only, as the CDDL says."""

from importlib.resources import files
from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import RecordError
from culm_topics.logs.catalogue import LOGS
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    ROW_SIZE,
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    CoverageRecord,
    EntryRecord,
    FragmentRecord,
    HoldingRecord,
    LogRecord,
    PayloadChunkRecord,
    ProgressKey,
    ReceiptRecord,
    VersionVectorRecord,
    block_of,
    split_block_key,
)
from culm_topics.records import (
    HEIGHTS_PEER_ID,
    RejectedRecord,
    check_peer_key,
    log_key,
    split_log_key,
    split_version_vector_key,
    version_vector_key,
)
from tests.support.record_rules import has_one_encoding, is_read_as_written, refuses_junk

MAX = 2**64 - 1
uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
public_keys = st.binary(min_size=32, max_size=32)
blobs = st.binary(max_size=300) | st.integers(65530, 65540).map(bytes)
texts = st.text(max_size=80)

offsets = st.dictionaries(uints, uints, max_size=9).map(lambda known: tuple(sorted(known.items())))
rows = st.integers(0, 5).flatmap(
    lambda count: st.binary(min_size=count * ROW_SIZE, max_size=count * ROW_SIZE)
)

hashes = st.sampled_from([34, 66]).flatmap(lambda size: st.binary(min_size=size, max_size=size))
log_keys = public_keys.flatmap(lambda key: st.sampled_from([key + bytes(8), key + bytes(8) + b"\x01"]))
runs = st.lists(st.integers(1, MAX) | st.integers(1, 99), max_size=40, unique=True).map(
    lambda numbers: tuple(zip(*[iter(sorted(numbers)[: len(numbers) & ~1])] * 2, strict=True))
)
chunks = st.builds(
    lambda whole, last, rest: PayloadChunkRecord(
        whole * PAYLOAD_CHUNK_BYTES + len(last) + rest,
        whole * PAYLOAD_CHUNK_BYTES,
        last if rest == 0 else bytes(PAYLOAD_CHUNK_BYTES),
    ),
    st.integers(0, 9) | st.integers(0, 2**32 - 3),
    st.binary(min_size=1, max_size=300),
    st.sampled_from([0, PAYLOAD_CHUNK_BYTES]),
)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "entries": st.builds(
        EntryRecord, blobs, blobs, texts, public_keys, uints, st.binary(min_size=8, max_size=32)
    ),
    "logs": st.builds(
        LogRecord,
        uints.map(lambda number: max(number, 1)),
        blobs,
        blobs,
        hashes,
        texts,
    ),
    "rejected": st.builds(
        RejectedRecord,
        texts,
        texts,
        st.none() | blobs,
        st.none() | blobs,
        st.none() | public_keys,
        st.none() | st.tuples(texts, uints, uints),
        st.none() | uints,
        st.none() | blobs,
    ),
    "receipts": st.builds(
        ReceiptRecord, st.lists(st.tuples(public_keys, uints, uints), max_size=30).map(tuple)
    ),
    "version-vectors": st.builds(VersionVectorRecord, uints),
    "blocks/block-summary": st.builds(
        BlockSummary,
        offsets,
        uints,
        uints,
        st.dictionaries(texts, blobs, max_size=4).map(lambda known: tuple(sorted(known.items()))),
        st.integers(0, 1),
        st.lists(uints, max_size=30).map(tuple),
        rows,
    ),
    "blocks/block-heights": st.builds(BlockHeights, rows),
    "blocks/block-progress": st.builds(BlockProgress, st.integers(1, 65_535), offsets),
    "fragments": st.builds(FragmentRecord, blobs, hashes),
    "payloads": chunks,
    "holdings": st.builds(HoldingRecord, log_keys, runs, runs, runs),
    "coverage": st.builds(CoverageRecord, runs, runs, runs, uints),
}
SAMPLES: dict[str, Any] = {
    "entries": EntryRecord(b"entry", b"operation", "schema_definition_v1", bytes(32), 7, b"connector"),
    "logs": LogRecord(3, b"entry", b"operation", bytes(34), "schema_definition_v1"),
    "rejected": RejectedRecord("bamboo.fork", "", b"a", b"b", bytes(32), ("culm.entries", 0, 9), 3, b"c"),
    "receipts": ReceiptRecord(((bytes(32), 0, 5), (bytes(32), 1, 300))),
    "version-vectors": VersionVectorRecord(12),
    "blocks/block-summary": BlockSummary(((0, 9),), 2, 7, (("add128", bytes(16)),), 1, (5,), bytes(48)),
    "blocks/block-heights": BlockHeights(bytes(96)),
    "blocks/block-progress": BlockProgress(8, ((0, 9), (3, 300))),
    "fragments": FragmentRecord(b"entry", bytes(66)),
    "payloads": PayloadChunkRecord(7, 0, b"payload"),
    "holdings": HoldingRecord(bytes(40), ((1, 5), (8, 9)), ((1, 300),), ((2, 3),)),
    "coverage": CoverageRecord(((1, 5), (8, 9)), ((1, 300),), ((1, 5),), 7),
}


def schema(name: str) -> pycddl.Schema:
    """The rules of one record: `file`, or `file/rule` where a topic holds several kinds."""
    file, _, rule = name.partition("/")
    text = files("culm_topics").joinpath("logs", "cddl", f"{file}.cddl").read_text()
    return pycddl.Schema(f"record = {rule}\n{text}" if rule else text)


def test_every_record_of_the_replicated_logs_is_tested_here() -> None:
    described = {topic.cddl for topic in LOGS if topic.cddl is not None}
    assert described == {f"logs/cddl/{name.partition('/')[0]}.cddl" for name in RECORDS}
    assert set(RECORDS) == set(SAMPLES)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_read_as_it_was_written_and_fits_its_cddl(name: str) -> None:
    is_read_as_written(RECORDS[name], schema(name))


@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_breaks_the_cddl_is_refused(name: str) -> None:
    """Each item in turn becomes something else; what the CDDL refuses, `decode` refuses too."""
    record = SAMPLES[name]
    rules = schema(name)
    items = cbor2.loads(record.encode())
    strangers: list[Any] = [
        None,
        -1,
        2**64,
        1.5,
        True,
        "text",
        b"bytes",
        [],
        {},
        [1, 2, 3],
        bytes(31),
        cbor2.CBORTag(9, 1),
    ]
    refused = 0
    for place in range(len(items)):
        for stranger in strangers:
            changed = cbor2.dumps([*items[:place], stranger, *items[place + 1 :]])
            try:
                rules.validate_cbor(changed)
            except pycddl.ValidationError:
                refused += 1
                with pytest.raises(RecordError):
                    type(record).decode(changed)
    assert refused > len(items)


@pytest.mark.parametrize("name", SAMPLES)
def test_only_the_shortest_encoding_is_read(name: str) -> None:
    has_one_encoding(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
@given(junk=st.binary(max_size=200))
def test_junk_is_refused_with_the_record_error_alone(name: str, junk: bytes) -> None:
    refuses_junk(type(SAMPLES[name]), junk)


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
def test_blocks_are_ranges_of_the_sort_order(block_bits: int, one: bytes, other: bytes) -> None:
    low, high = sorted((one, other))
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
