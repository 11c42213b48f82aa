"""`dag.shard-index`: the locations of a shard's blocks, in parts that fit a record (reference 3.3, 6).

An identity CID is not listed: it contains its block. The index of an opaque shard lists no blocks, and tells
that the shard is available.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Annotated, Final, NamedTuple

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.records.keys import MAX_CID_BYTES, shard_index_key, split_shard_index_key
from culm_topics.dag.records.shape import DAG_LIST, Link
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import between, counted
from culm_topics.records.shape import head_size, require

INDEX_PART_BYTES: Final = 512 * 1024
"""Limit of the list of blocks in a part, in bytes."""
MAX_ROOT_BYTES: Final = 65_536
_NAME: Final = "dag.shard-index"
_MAX_BLOCKS: Final = INDEX_PART_BYTES // 40
_MAX_ROOTS: Final = 1_024
_MAX_CHUNKS: Final = -(-SHARD_SIZE_MAX // CHUNK_SIZE)


class BlockPlace(NamedTuple):
    """A block in a shard: `length` bytes from `offset` on."""

    cid: Link
    offset: int
    length: int


@record(
    _NAME,
    "some blocks of a shard, in its order. Key: the shard's CID, number of the part (u32).",
    layout=("size", "chunks", "parts", "roots", "blocks"),
    codec=DAG_LIST,
)
class ShardIndexRecord(Record):
    """Value of `dag.shard-index`: some blocks of a shard, in the order of the shard.

    Its key is the shard's CID and the number of the part; the roots are in part 0.
    """

    size: Annotated[int, between(1, SHARD_SIZE_MAX), "of the whole shard"]
    parts: Annotated[int, between(1, (1 << 32) - 1), "number of records of the index"]
    roots: Annotated[tuple[Link, ...], counted(_MAX_ROOTS), "only in part 0"]
    blocks: Annotated[tuple[BlockPlace, ...], counted(_MAX_BLOCKS)] = field(repr=False)

    @property
    def chunks(
        self,
    ) -> Annotated[int, between(1, _MAX_CHUNKS), f"of {CHUNK_SIZE:,} bytes, the last one shorter"]:
        """The number of the shard's chunks."""
        return -(-self.size // CHUNK_SIZE)

    def verify(self) -> None:
        """Raise `RecordError` if the roots are too long, or if a block is outside of the shard."""
        root_bytes = sum(len(root.raw) for root in self.roots)
        require(root_bytes <= MAX_ROOT_BYTES, _NAME, f"roots of more than {MAX_ROOT_BYTES} bytes")
        for block in self.blocks:
            within = min(block.offset, block.length) >= 0 and block.offset + block.length <= self.size
            require(within, _NAME, f"a block lies outside of the {self.size} bytes of its shard")
            sound = not block.cid.is_identity and len(block.cid.raw) <= MAX_CID_BYTES
            require(sound, _NAME, "a CID that no block of its own has")


def shard_index(
    shard: Cid, size: int, roots: Iterable[Cid], blocks: Iterable[BlockPlace]
) -> Iterator[tuple[bytes, ShardIndexRecord]]:
    """Yield (key, record) of each part of a shard's index; of a repeated block, only the first place."""
    parts: list[list[BlockPlace]] = [[]]
    free_bytes = INDEX_PART_BYTES
    seen: set[Cid] = set()
    for block in blocks:
        if block.cid.is_identity or block.cid in seen:
            continue
        seen.add(block.cid)
        cost = _cost(block)
        if cost > free_bytes:
            parts.append([])
            free_bytes = INDEX_PART_BYTES
        parts[-1].append(block)
        free_bytes -= cost
    named = tuple(roots)
    for number, part in enumerate(parts):
        record = ShardIndexRecord(size, len(parts), () if number else named, tuple(part))
        yield shard_index_key(shard, number), record


def decode_shard_index(key: bytes | None, value: bytes | None) -> tuple[Cid, int, ShardIndexRecord]:
    """Return shard, number of the part and record. Raises `RecordError`, also if there is no such part."""
    shard, part = split_shard_index_key(key)
    record = ShardIndexRecord.decode(value)
    if part >= record.parts or (part and record.roots):
        raise RecordError(f"{_NAME}: this is no part {part} of {record.parts}")
    return shard, part, record


def _cost(block: BlockPlace) -> int:
    """Return the size of its encoding in bytes: list, tag, head and zero before the CID, two numbers."""
    link = len(block.cid.raw) + 1
    return 3 + head_size(link) + link + head_size(block.offset) + head_size(block.length)
