"""`blocks` and `block-vectors`: log heights and their fingerprints by block of public keys.

A block is the first `block_bits` bits (0 to 16) of the public key within one set: a schema (`blocks`) or a
peer (`block-vectors`). Its state is one `BlockSummary` and as many `BlockHeights` chunks as the summary
names: `recent` rows stand above the rows of the chunks. A block that grows a little rewrites its summary
alone; when `recent` has become long, everything goes into chunks of the other slot, then comes the summary
that names them, then the tombstones of the former chunks. Whoever reads a partition in order thus always has
every chunk that the latest summary names; a chunk that no summary names by its digest is left over and means
nothing. `BlockProgress` comes last in each micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

from culm_topics.errors import RecordError
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    dump,
    head_size,
    is_uint,
    load_array,
    refuse_item,
    string_size,
    text_size,
)

MAX_BLOCK_BITS = 16
DEFAULT_BLOCK_BITS = 8
"""256 blocks a schema: of a million logs about 4,000 in each, 190 KB of heights."""
LOG_SIZE = 40
"""Bytes of a row that say which log: the log key."""
ROW_SIZE = 48
"""Bytes of one height: public key, log id and seq_num, the numbers as u64, most significant byte first."""
MAX_CHUNK_ROWS = 16_384
"""Rows of one chunk, or of `recent`: 768 KiB, below 1 MB with everything around them."""
MAX_CHUNKS = 65_535
_MAX_LIFTS = 16

Offsets = tuple[tuple[int, int], ...]
"""((partition, next offset), ...) sorted by partition: of each, every record before that offset."""


class BlockKind(IntEnum):
    """What the record under a key is; the key's first byte."""

    SUMMARY = 0
    HEIGHTS = 1
    PROGRESS = 2


@dataclass(frozen=True, slots=True)
class BlockKey:
    """Key of a `BlockSummary` or `BlockHeights`. `name` is the set's: schema id in UTF-8, or peer id."""

    kind: BlockKind
    block_bits: int
    block: int
    name: bytes
    slot: int = 0
    chunk: int = 0

    def encode(self) -> bytes:
        """`kind, block_bits, block (u16)`, of a chunk also `slot, chunk (u16)`, then the name."""
        assert self.kind is not BlockKind.PROGRESS
        assert 0 <= self.block_bits <= MAX_BLOCK_BITS
        assert 0 <= self.block < 1 << self.block_bits
        head = bytes((self.kind, self.block_bits)) + self.block.to_bytes(2, "big")
        if self.kind is BlockKind.HEIGHTS:
            head += bytes((self.slot,)) + self.chunk.to_bytes(2, "big")
        return head + self.name


@dataclass(frozen=True, slots=True)
class ProgressKey:
    """Key of a `BlockProgress`: the shard that wrote it, which is also its partition of the topic."""

    block_bits: int
    shard: int

    def encode(self) -> bytes:
        """`2, block_bits, shard (u16)`."""
        return bytes((BlockKind.PROGRESS, self.block_bits)) + self.shard.to_bytes(2, "big")


def split_block_key(key: bytes | None) -> BlockKey | ProgressKey:
    """The key of a record of `blocks` or `block-vectors`; `RecordError` when it is none."""
    if key is None or len(key) < 4 or key[0] > BlockKind.PROGRESS or key[1] > MAX_BLOCK_BITS:
        raise RecordError("blocks key: it does not start with a kind, block bits and a number")
    kind, block_bits, number = BlockKind(key[0]), key[1], int.from_bytes(key[2:4], "big")
    if kind is BlockKind.PROGRESS:
        if len(key) != 4:
            raise RecordError(f"blocks key: {len(key)} bytes where a shard's has 4")
        return ProgressKey(block_bits, number)
    if number >> block_bits:
        raise RecordError(f"blocks key: there is no block {number} of {block_bits} bits")
    if kind is BlockKind.SUMMARY:
        return BlockKey(kind, block_bits, number, key[4:])
    if len(key) < 7 or key[4] > 1:
        raise RecordError("blocks key: a chunk's has a slot (0 or 1) and a number behind the block")
    return BlockKey(kind, block_bits, number, key[7:], key[4], int.from_bytes(key[5:7], "big"))


def block_of(public_key: bytes, block_bits: int) -> int:
    """The number of the block that a public key falls into: its first `block_bits` bits."""
    return int.from_bytes(public_key[:2], "big") >> (16 - block_bits)


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """What is known of one block of one set. See the module and `blocks.cddl` for the fields.

    `fingerprints` is sorted by the lifts' names. An entry's height counts as that many entries.
    """

    version: Offsets
    log_count: int
    entry_count: int
    fingerprints: tuple[tuple[str, bytes], ...]
    slot: int = 0
    chunks: tuple[int, ...] = ()
    recent: bytes = b""

    def encode(self) -> bytes:
        """`[1, version, log_count, entry_count, {lift: value}, slot, chunks, recent]`."""
        assert len(self.recent) % ROW_SIZE == 0
        assert len(self.recent) <= MAX_CHUNK_ROWS * ROW_SIZE
        return dump(
            FORMAT,
            self.version,
            self.log_count,
            self.entry_count,
            dict(self.fingerprints),
            self.slot,
            self.chunks,
            self.recent,
        )

    @staticmethod
    def decode(value: bytes | None) -> "BlockSummary":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, version, log_count, entry_count, fingerprints, slot, chunks, recent = load_array(
            value, "blocks", 8
        )
        if not is_uint(log_count) or not is_uint(entry_count):
            refuse_item("blocks", "a count", log_count, "an unsigned integer of 64 bits")
        if type(fingerprints) is not dict or len(fingerprints) > _MAX_LIFTS:
            refuse_item("blocks", "fingerprints", fingerprints, f"a map of at most {_MAX_LIFTS} lifts")
        size = 2 + head_size(log_count) + head_size(entry_count) + head_size(len(fingerprints))
        for name, lanes in fingerprints.items():
            if type(name) is not str or type(lanes) is not bytes:
                refuse_item("blocks", "a fingerprint", lanes, "bytes under a lift's name")
            size += text_size(name) + string_size(len(lanes))
        if not _ascends(list(fingerprints)):
            refuse_item("blocks", "fingerprints", fingerprints, "sorted by the lifts' names")
        if type(slot) is not int or slot not in (0, 1):
            refuse_item("blocks", "slot", slot, "0 or 1")
        if type(chunks) is not list or len(chunks) > MAX_CHUNKS or not all(map(is_uint, chunks)):
            refuse_item("blocks", "chunks", chunks, f"a list of at most {MAX_CHUNKS} digests")
        _check_rows("recent", recent)
        check_size(
            value,
            size
            + _offsets_size(version)
            + 1
            + head_size(len(chunks))
            + sum(map(head_size, chunks))
            + string_size(len(recent)),
            "blocks",
        )
        return BlockSummary(
            _offsets(version),
            log_count,
            entry_count,
            tuple(fingerprints.items()),
            slot,
            tuple(chunks),
            recent,
        )


@dataclass(frozen=True, slots=True)
class BlockHeights:
    """One chunk of a block's heights: `heights` is n times `ROW_SIZE` bytes, sorted."""

    heights: bytes

    def encode(self) -> bytes:
        """`[1, heights]`."""
        assert len(self.heights) % ROW_SIZE == 0
        assert len(self.heights) <= MAX_CHUNK_ROWS * ROW_SIZE
        return dump(FORMAT, self.heights)

    @staticmethod
    def decode(value: bytes | None) -> "BlockHeights":
        """The record in `value`; `RecordError` says what is wrong with it. The order is not looked at."""
        _, heights = load_array(value, "blocks", 2)
        _check_rows("heights", heights)
        check_size(value, 2 + string_size(len(heights)), "blocks")
        return BlockHeights(heights)


@dataclass(frozen=True, slots=True)
class BlockProgress:
    """How far one of `shards` shards has come: all input before `applied` is in its blocks."""

    shards: int
    applied: Offsets

    def encode(self) -> bytes:
        """`[1, shards, applied]`."""
        return dump(FORMAT, self.shards, self.applied)

    @staticmethod
    def decode(value: bytes | None) -> "BlockProgress":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, shards, applied = load_array(value, "blocks", 3)
        if type(shards) is not int or not 1 <= shards <= 65_535:
            refuse_item("blocks", "shards", shards, "a number from 1 to 65,535")
        check_size(value, 2 + head_size(shards) + _offsets_size(applied), "blocks")
        return BlockProgress(shards, _offsets(applied))


def _check_rows(name: str, rows: object) -> None:
    if type(rows) is not bytes or len(rows) % ROW_SIZE or len(rows) > MAX_CHUNK_ROWS * ROW_SIZE:
        refuse_item("blocks", name, rows, f"at most {MAX_CHUNK_ROWS} heights of {ROW_SIZE} bytes")


def _offsets(rows: Sequence[Sequence[int]]) -> Offsets:
    return tuple([(row[0], row[1]) for row in rows])


def _offsets_size(rows: Any) -> int:
    """The size of the shortest encoding; `RecordError` when these are no offsets."""
    if type(rows) is not list:
        refuse_item("blocks", "offsets", rows, "a list of [partition, next offset]")
    for row in rows:
        if type(row) is not list or len(row) != 2 or not all(map(is_uint, row)):
            refuse_item("blocks", "offsets", row, "[partition, next offset]")
    if not _ascends([row[0] for row in rows]):
        refuse_item("blocks", "offsets", rows, "sorted by partition")
    return head_size(len(rows)) + sum(1 + head_size(row[0]) + head_size(row[1]) for row in rows)


def _ascends(items: Sequence[Any]) -> bool:
    return all(before < after for before, after in pairwise(items))
