"""`dag.shard-index`: where the blocks of a shard lie in it, in parts that fit a record (reference 3.3, 6).

An identity CID is not listed: it carries its block. The index of an opaque shard lists nothing, and says that
the shard is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.records.keys import MAX_CID_BYTES, shard_index_key, split_shard_index_key
from culm_topics.dag.records.shape import dump_list, link_item, list_item, load_list, uint_item
from culm_topics.errors import RecordError
from culm_topics.records.shape import head_size, refuse_item, require

INDEX_PART_BYTES: Final = 512 * 1024
"""What the list of blocks of a part takes at most."""
MAX_ROOT_BYTES: Final = 65_536
_NAME: Final = "dag.shard-index"
_MOST_BLOCKS: Final = INDEX_PART_BYTES // 40
_MOST_ROOTS: Final = 1_024


class BlockPlace(NamedTuple):
    """A block in a shard: `length` bytes from `offset` on."""

    cid: Cid
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class ShardIndexRecord:
    """Value of `dag.shard-index`: some blocks of a shard, in the order of the shard.

    Its key is the shard's CID and the number of the part; the roots stand in part 0.
    """

    size: int
    parts: int
    roots: tuple[Cid, ...]
    blocks: tuple[BlockPlace, ...] = field(repr=False)

    @property
    def chunks(self) -> int:
        """How many chunks the shard has."""
        return -(-self.size // CHUNK_SIZE)

    def encode(self) -> bytes:
        """`[1, size, chunks, parts, roots, [[CID, offset, length]...]]`."""
        self._check()
        return dump_list(_NAME, self.size, self.chunks, self.parts, self.roots, self.blocks)

    @staticmethod
    def decode(value: bytes | None) -> ShardIndexRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        size, chunks, parts, roots, blocks = load_list(value, _NAME, 5)
        record = ShardIndexRecord(
            uint_item(_NAME, "size", size),
            uint_item(_NAME, "parts", parts),
            tuple(link_item(_NAME, "roots", one) for one in list_item(_NAME, "roots", roots, _MOST_ROOTS)),
            tuple(_place(one) for one in list_item(_NAME, "blocks", blocks, _MOST_BLOCKS)),
        )
        record._check()
        if uint_item(_NAME, "chunks", chunks) != record.chunks:
            refuse_item(_NAME, "chunks", chunks, f"the {record.chunks} chunks of {size} bytes")
        return record

    def _check(self) -> None:
        require(0 < self.size <= SHARD_SIZE_MAX, _NAME, f"a shard has 1 to {SHARD_SIZE_MAX} bytes")
        require(0 < self.parts < 1 << 32, _NAME, f"{self.parts} is no number of parts")
        root_bytes = sum(len(root.raw) for root in self.roots)
        require(root_bytes <= MAX_ROOT_BYTES, _NAME, f"roots of more than {MAX_ROOT_BYTES} bytes")
        for place in self.blocks:
            sound = min(place.offset, place.length) >= 0 and place.offset + place.length <= self.size
            require(sound, _NAME, f"a block lies outside of the {self.size} bytes of its shard")
            sound = not place.cid.is_identity and len(place.cid.raw) <= MAX_CID_BYTES
            require(sound, _NAME, "a CID that no block of its own has")


def shard_index(
    shard: Cid, size: int, roots: Iterable[Cid], blocks: Iterable[BlockPlace]
) -> Iterator[tuple[bytes, ShardIndexRecord]]:
    """(key, record) of each part of a shard's index; of a block that is there twice, the first place."""
    parts: list[list[BlockPlace]] = [[]]
    room = INDEX_PART_BYTES
    seen: set[Cid] = set()
    for place in blocks:
        if place.cid.is_identity or place.cid in seen:
            continue
        seen.add(place.cid)
        cost = _cost(place)
        if cost > room:
            parts.append([])
            room = INDEX_PART_BYTES
        parts[-1].append(place)
        room -= cost
    named = tuple(roots)
    for number, part in enumerate(parts):
        record = ShardIndexRecord(size, len(parts), () if number else named, tuple(part))
        yield shard_index_key(shard, number), record


def decode_shard_index(key: bytes | None, value: bytes | None) -> tuple[Cid, int, ShardIndexRecord]:
    """Shard, number of the part and record. Raises `RecordError`, also where there is no such part."""
    shard, part = split_shard_index_key(key)
    record = ShardIndexRecord.decode(value)
    if part >= record.parts or (part and record.roots):
        raise RecordError(f"{_NAME}: this is no part {part} of {record.parts}")
    return shard, part, record


def _place(item: Any) -> BlockPlace:
    if type(item) is not list or len(item) != 3:
        refuse_item(_NAME, "blocks", item, "a CID, an offset and a length")
    cid, offset, length = item
    return BlockPlace(
        link_item(_NAME, "blocks", cid),
        uint_item(_NAME, "offset", offset),
        uint_item(_NAME, "length", length),
    )


def _cost(place: BlockPlace) -> int:
    """Bytes of its encoding: list, tag, head and zero before the CID, two numbers."""
    link = len(place.cid.raw) + 1
    return 3 + head_size(link) + link + head_size(place.offset) + head_size(place.length)
