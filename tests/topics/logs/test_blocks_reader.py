"""What a reader makes of the records of `blocks`, without Kafka: fed in the order of a partition."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from culm_topics.errors import RecordError
from culm_topics.logs.blocks import BlockTable, with_recent
from culm_topics.logs.records import (
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    Offsets,
    ProgressKey,
)
from culm_topics.readers.batch import TopicMessage

NAME = b"schema_definition_v1"
Heights = dict[tuple[bytes, int], int]
logs = st.tuples(st.integers(0, 40).map(lambda number: bytes((number,)) * 32), st.integers(0, 2))
heights = st.dictionaries(logs, st.integers(1, 2**64 - 1), max_size=30)


def rows(known: Heights) -> bytes:
    return b"".join(
        public_key + log_id.to_bytes(8, "big") + seq_num.to_bytes(8, "big")
        for (public_key, log_id), seq_num in sorted(known.items())
    )


def some(first: int, count: int) -> bytes:
    return rows({(bytes((first + number,)) * 32, 0): 1 for number in range(count)})


def message(key: bytes, value: bytes) -> TopicMessage:
    return TopicMessage(key, value, 0, 0, 0)


def summary(
    chunks: Sequence[bytes], recent: bytes = b"", *, slot: int = 0, bits: int = 0, count: int | None = None
) -> TopicMessage:
    count = (sum(map(len, chunks)) + len(recent)) // 48 if count is None else count
    record = BlockSummary(((0, 9),), count, count, (), slot, tuple(map(xxh64_intdigest, chunks)), recent)
    return message(BlockKey(BlockKind.SUMMARY, bits, 0, NAME).encode(), record.encode())


def chunk(number: int, content: bytes, *, slot: int = 0, bits: int = 0) -> TopicMessage:
    key = BlockKey(BlockKind.HEIGHTS, bits, 0, NAME, slot, number)
    return message(key.encode(), BlockHeights(content).encode())


def tombstone(of: TopicMessage) -> TopicMessage:
    return message(of.key, b"")


def progress(shard: int, shards: int, applied: Offsets, bits: int = 0) -> TopicMessage:
    return message(ProgressKey(bits, shard).encode(), BlockProgress(shards, applied).encode())


def table(*messages: TopicMessage, names: Sequence[bytes] | None = None) -> BlockTable:
    made = BlockTable(names)
    for message in messages:
        made.add(message)
    return made


@given(heights, heights)
def test_recent_rows_stand_above_the_rows_of_the_chunks(base: Heights, recent: Heights) -> None:
    assert with_recent(rows(base), rows(recent)) == rows(base | recent)


def test_rows_of_another_size_are_refused() -> None:
    with pytest.raises(RecordError):
        with_recent(bytes(47), b"")


def test_a_block_is_its_chunks_and_what_is_recent() -> None:
    first, second, recent = some(0, 3), some(10, 3), some(20, 2)
    blocks = table(chunk(0, first), chunk(1, second), summary([first, second], recent)).blocks()
    assert [(block.schema_id, block.block, block.heights) for block in blocks] == [
        (NAME.decode(), 0, first + second + recent)
    ]
    assert not blocks.torn


def test_a_prefix_of_a_partition_holds_whole_blocks() -> None:
    """A block moves from one slot to the other and shrinks to fewer chunks: no cut leaves it torn."""
    old, new, newest = [some(0, 3), some(3, 3)], [some(0, 9)], [some(0, 12)]
    written = [
        chunk(0, old[0]),
        chunk(1, old[1]),
        summary(old),
        chunk(0, new[0], slot=1),
        summary(new, slot=1),
        tombstone(chunk(0, old[0])),
        tombstone(chunk(1, old[1])),
        chunk(0, newest[0]),
        summary(newest),
        tombstone(chunk(0, new[0], slot=1)),
    ]
    sizes = []
    for end in range(3, len(written) + 1):
        blocks = table(*written[:end]).blocks()
        assert not blocks.torn
        sizes.append(blocks.blocks[0].log_count)
    assert sizes == [6, 6, 9, 9, 9, 9, 12, 12]


def test_chunks_of_an_older_version_are_passed_over() -> None:
    left_over = [chunk(1, some(30, 3)), chunk(0, some(30, 3), slot=1)]
    blocks = table(*left_over, chunk(0, some(0, 3)), summary([some(0, 3)])).blocks()
    assert blocks.blocks[0].heights == some(0, 3)


@pytest.mark.parametrize(
    "messages",
    [
        [summary([some(0, 3)])],
        [chunk(0, some(0, 3), slot=1), summary([some(0, 3)])],
        [chunk(0, some(1, 3)), summary([some(0, 3)])],
        [chunk(0, some(0, 3)), summary([some(0, 3)], count=4)],
    ],
    ids=["missing", "other slot", "other version", "other count"],
)
def test_a_block_without_its_chunks_is_named_as_torn(messages: list[TopicMessage]) -> None:
    blocks = table(*messages).blocks()
    assert not blocks.blocks
    assert blocks.torn == ((NAME, 0),)


def test_a_removed_block_is_gone() -> None:
    assert not table(summary([], some(0, 1)), tombstone(summary([]))).blocks().blocks


def test_other_sets_are_left_out() -> None:
    given_summary = summary([], some(0, 1))
    assert not table(given_summary, names=[b"another"]).blocks().blocks
    assert table(given_summary, names=[NAME]).blocks().blocks


def test_what_all_shards_have_applied_is_applied() -> None:
    both = table(progress(0, 2, ((0, 7), (1, 4))), progress(1, 2, ((0, 9),)))
    assert both.blocks().applied == {0: 7, 1: 0}
    assert table(progress(0, 2, ((0, 7),))).blocks().applied == {}


def test_records_of_other_block_bits_are_left_out() -> None:
    mixed = table(
        summary([], some(0, 1), bits=4),
        progress(0, 1, ((0, 5),), bits=4),
        summary([], some(0, 2), bits=8),
        progress(0, 1, ((0, 9),), bits=8),
    )
    assert [block.block_bits for block in mixed.blocks()] == [8]
    assert [block.block_bits for block in mixed.blocks(4)] == [4]
    assert mixed.blocks().applied == {0: 9}
    assert mixed.blocks(5).blocks == ()


def test_a_schema_that_is_no_text_is_passed_over() -> None:
    key = BlockKey(BlockKind.SUMMARY, 0, 0, b"\xff").encode()
    blocks = table(message(key, BlockSummary((), 0, 0, ()).encode())).blocks()
    assert (blocks.blocks, blocks.passed_over.records) == ((), 1)
