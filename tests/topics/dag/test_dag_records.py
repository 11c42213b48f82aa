"""Keys of `dag.*`, and what is peculiar to some of its records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, IDENTITY, RAW, Cid, cid_of, make_cid
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.records import (
    INDEX_PART_BYTES,
    MAX_KEY_LINKS,
    MAX_ORDER_LINKS,
    MAX_RECORD_BYTES,
    NO_LINKS,
    BlockedRecord,
    BlockPlace,
    CompletePublish,
    HeadsRecord,
    NodeRecord,
    OrderRecord,
    PublishedRecord,
    PublishRecord,
    ShardChunkRecord,
    ShardIndexRecord,
    blocked_key,
    cid_of_key,
    cid_partition,
    common_node_record,
    dag_rejection,
    decode_blocked,
    decode_node_record,
    decode_publish_record,
    decode_shard_chunk,
    decode_shard_index,
    first_links,
    id_of_key,
    node_key,
    order_records,
    shard_chunk_key,
    shard_index,
    shard_index_key,
    split_blocked_key,
    split_node_key,
    split_shard_chunk_key,
    split_shard_index_key,
)
from culm_topics.errors import RecordError
from culm_topics.records import key_partition
from tests.support.kafka.record_values import keys, nodes, shards

SPACE = bytes(range(32))
SHARD = cid_of(CAR, b"shard")
NODE = cid_of(DAG_CBOR, b"node")


@given(keys, shards, st.integers(0, 146), st.integers(0, 2**32 - 1))
def test_keys_are_read_as_they_were_written(space: bytes, shard: Cid, chunk: int, part: int) -> None:
    assert split_shard_chunk_key(shard_chunk_key(shard, chunk * CHUNK_SIZE)) == (shard, chunk * CHUNK_SIZE)
    assert split_shard_index_key(shard_index_key(shard, part)) == (shard, part)
    assert split_blocked_key(blocked_key(shard)) == shard
    assert split_blocked_key(blocked_key(space)) == space
    assert cid_of_key("rejected", shard.raw) == shard


@given(keys, nodes | st.binary(max_size=9).map(lambda data: cid_of(RAW, data)))
def test_the_key_of_a_node_is_space_and_cid(space: bytes, cid: Cid) -> None:
    assert node_key(space, cid) == space + cid.raw
    assert split_node_key(node_key(space, cid)) == (space, cid)
    assert id_of_key("dag.heads", space) == space


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        bytes(31),
        bytes(33),
        SHARD.raw[:-1],
        SHARD.raw + b"\0",
        SPACE + SHARD.raw + bytes(3),
        make_cid(1, RAW, IDENTITY, bytes(40)).raw,
        make_cid(0, 0x70, 0x12, bytes(32)).raw,
        make_cid(1, RAW, 0x13, bytes(200)).raw,
    ],
)
def test_what_is_no_key_is_refused(key: bytes | None) -> None:
    for split in (split_node_key, split_shard_chunk_key, split_shard_index_key, split_blocked_key):
        with pytest.raises(RecordError):
            split(key)
    with pytest.raises(RecordError):
        id_of_key("dag.heads", key)


@pytest.mark.parametrize("offset", [1, CHUNK_SIZE - 1, 147 * CHUNK_SIZE, 2**63])
def test_no_chunk_begins_elsewhere(offset: int) -> None:
    with pytest.raises(RecordError, match="no chunk begins"):
        shard_chunk_key(SHARD, offset)
    with pytest.raises(RecordError, match="no chunk begins"):
        split_shard_chunk_key(SHARD.raw + offset.to_bytes(8, "big"))


@given(shards, st.integers(1, 64))
def test_what_a_cid_names_is_in_its_partition(cid: Cid, partitions: int) -> None:
    assert cid_partition(cid, partitions) == key_partition(cid.raw, partitions)


def test_bytes_of_another_cid_are_refused() -> None:
    value = NodeRecord(b"other").encode()
    with pytest.raises(RecordError, match="not those of"):
        decode_node_record(node_key(SPACE, NODE), value)
    assert decode_node_record(node_key(SPACE, NODE), NodeRecord(b"node").encode())[1] == NODE
    publish = PublishRecord(NODE, None, b"other", 0)
    with pytest.raises(RecordError, match="not those of"):
        decode_publish_record(SPACE, publish.encode())
    record = PublishRecord(NODE, None, b"node", 7, SPACE)
    assert decode_publish_record(SPACE, record.encode()) == (SPACE, record)


def test_a_chunk_has_the_length_that_its_offset_asks_for() -> None:
    last = ShardChunkRecord(CHUNK_SIZE + 3, b"abc", SPACE).encode()
    assert decode_shard_chunk(shard_chunk_key(SHARD, CHUNK_SIZE), last)[:2] == (SHARD, CHUNK_SIZE)
    with pytest.raises(RecordError, match="at 0"):
        decode_shard_chunk(shard_chunk_key(SHARD, 0), last)
    with pytest.raises(RecordError, match="no chunk of"):
        ShardChunkRecord(CHUNK_SIZE + 3, b"abcd", SPACE).encode()


def test_a_tombstone_of_blocked_says_blocked_no_more() -> None:
    record = BlockedRecord("unwanted", 5)
    assert decode_blocked(SHARD.raw, record.encode()) == (SHARD, record)
    assert decode_blocked(SPACE, None) == (SPACE, None)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (NodeRecord(b""), "bytes"),
        (NodeRecord(bytes(262_145)), "bytes"),
        (NodeRecord(b"x", b"short"), "peer"),
        (PublishRecord(SHARD, None, b"x", 0), "cid"),
        (PublishRecord(NODE, None, b"x", -1), "received_at"),
        (ShardChunkRecord(0, b"", SPACE), "1 to"),
        (ShardChunkRecord(SHARD_SIZE_MAX + 1, b"x", SPACE), "1 to"),
        (ShardChunkRecord(1, b"x", b"short"), "space"),
        (BlockedRecord("x" * 1_001, 0), "reason"),
        (BlockedRecord("\ud800", 0), "dag.blocked"),
        (ShardIndexRecord(9, 1, (), (BlockPlace(NODE, 5, 5),)), "outside"),
        (ShardIndexRecord(9, 1, (), (BlockPlace(make_cid(1, RAW, 0, b"x"), 0, 1),)), "CID"),
        (ShardIndexRecord(9, 0, (), ()), "parts"),
        (HeadsRecord(first_links([SHARD]), 0, NO_LINKS, NO_LINKS, NO_LINKS), "heads"),
        (OrderRecord(0, (NODE,) * (MAX_ORDER_LINKS + 1)), "list of at most"),
        (PublishedRecord(NODE, (), 1, PublishState.COMPLETE, NO_LINKS, NO_LINKS, None), "key"),
        (PublishedRecord(NODE, (NODE,), 0, PublishState.COMPLETE, NO_LINKS, NO_LINKS, None), "count"),
    ],
)
def test_what_would_not_be_read_is_not_written(record: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        record.encode()


def test_of_many_links_the_first_by_text_are_named() -> None:
    many = [cid_of(DAG_CBOR, bytes([number % 256, number // 256])) for number in range(1_000)]
    first = first_links(many + many)
    assert first.total == 1_000
    assert list(first.links) == sorted(many)[:256]
    large = [make_cid(1, CAR, 0x13, bytes([number]) * 30_000) for number in range(5)]
    assert first_links(large) == (5, tuple(sorted(large)[:2]))


def test_a_long_order_takes_several_records() -> None:
    links = [cid_of(DAG_CBOR, number.to_bytes(4, "big")) for number in range(2 * MAX_ORDER_LINKS + 5)]
    records = list(order_records(7, links))
    assert [len(record.links) for record in records] == [MAX_ORDER_LINKS, MAX_ORDER_LINKS, 5]
    assert [record.position for record in records] == [7, 7 + MAX_ORDER_LINKS, 7 + 2 * MAX_ORDER_LINKS]
    assert [link for record in records for link in record.links] == links
    assert list(order_records(3, [])) == [OrderRecord(3, ())]


def test_the_largest_record_of_every_topic_is_within_the_limit() -> None:
    node = cid_of(DAG_CBOR, b"")
    many = first_links(cid_of(DAG_CBOR, bytes([number % 256, number // 256])) for number in range(300))
    large = first_links(make_cid(1, CAR, 0x13, bytes([number]) * 5_000) for number in range(30))
    link = make_cid(1, RAW, IDENTITY, bytes(200_000))
    records: list[Any] = [
        NodeRecord(bytes(262_144), SPACE),
        PublishRecord(node, node, bytes(262_144), 2**63, SPACE),
        ShardChunkRecord(SHARD_SIZE_MAX, bytes(CHUNK_SIZE), SPACE, SPACE),
        BlockedRecord("\U0001f4a3" * 1_000, 2**63),
        HeadsRecord(many, 2**63, many, large, large),
        OrderRecord(2**63, (node,) * MAX_ORDER_LINKS),
        PublishedRecord(
            node,
            (node,) * MAX_KEY_LINKS,
            2**63,
            PublishState.COMPLETE,
            many,
            many,
            CompletePublish(node, link, node, SHARD),
        ),
    ]
    for record in records:
        assert type(record).decode(record.encode()) == record
        assert len(record.encode()) < MAX_RECORD_BYTES


def test_a_large_index_is_cut_into_parts_below_their_bound() -> None:
    places = [
        BlockPlace(cid_of(RAW, number.to_bytes(4, "big")), number * 100, 99) for number in range(30_000)
    ]
    identity = BlockPlace(make_cid(1, RAW, IDENTITY, b"x"), 5, 1)
    records = list(shard_index(SHARD, 3_000_000, [NODE], [*places, identity, places[0]]))
    assert len(records) > 2
    joined: list[BlockPlace] = []
    for number, (key, record) in enumerate(records):
        value = record.encode()
        assert len(value) <= INDEX_PART_BYTES + 100
        assert decode_shard_index(key, value) == (SHARD, number, record)
        assert (record.parts, record.chunks) == (len(records), 4)
        assert record.roots == (() if number else (NODE,))
        joined += record.blocks
    assert joined == places
    with pytest.raises(RecordError, match="no part"):
        decode_shard_index(shard_index_key(SHARD, len(records)), records[-1][1].encode())


def test_an_index_of_nothing_is_one_part() -> None:
    ((key, record),) = shard_index(SHARD, 26, [], [])
    assert decode_shard_index(key, record.encode()) == (SHARD, 0, record)


def test_what_was_refused_stands_under_its_cid() -> None:
    key, record = dag_rejection(NODE, "dag.schema", "no map", data=b"node", peer=SPACE)
    assert (key, record.code, record.entry, record.brought_by) == (NODE.raw, "dag.schema", b"node", SPACE)
    assert dag_rejection(None, "dag.bad_cid", "none")[0] == b""


@given(
    st.binary(min_size=1, max_size=300),
    st.none() | st.just(b"p" * 32),
    st.sampled_from((DAG_CBOR, RAW)),
    st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
)
def test_a_node_that_is_known_at_sight_is_the_one_that_its_reader_reads(
    data: bytes, peer: bytes | None, codec: int, changed: tuple[int, int] | None
) -> None:
    cid = cid_of(codec, data)
    value = bytearray(NodeRecord(data, peer).encode())
    if changed is not None:
        value[changed[0] % len(value)] = changed[1]
    common = common_node_record(node_key(SPACE, cid), bytes(value))
    if common is not None:
        space, read, record = decode_node_record(node_key(SPACE, cid), bytes(value))
        assert common == (space, read.raw, record.data, record.peer)
    elif changed is None:
        assert codec == RAW or len(data) < 24
