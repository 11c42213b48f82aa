"""`blocks` and `block-vectors`: log heights and their fingerprints by block of public keys.

A block is the first `block_bits` bits (0 to 16) of the public key within one set: a schema (`blocks`) or a
peer (`block-vectors`). Its state is one `BlockSummary` and the `BlockHeights` chunks that the summary names:
`recent` rows replace or extend the chunks. A block that grows a little rewrites its summary alone. When
`recent` has become long, everything goes into chunks of the other slot, then comes the summary that names
them, then the tombstones of the previous chunks. A reader that reads a partition in order thus always has
every chunk that the latest summary names; a chunk whose digest no summary names is left over and ignored.
`BlockProgress` comes last in each micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import lt
from typing import Annotated, Any, Final

from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import ItemKind, between, counted, named, rule, sized_between, when_read
from culm_topics.records.shape import head_size, string_size, text_size

MAX_BLOCK_BITS = 16
DEFAULT_BLOCK_BITS = 8
"""256 blocks per schema: with a million logs about 4,000 in each, 190 KB of heights."""
LOG_SIZE = 40
"""Bytes of a row that identify the log: the log key."""
ROW_SIZE = 48
"""Bytes of one height: public key, log id and seq_num, the numbers as u64, most significant byte first."""
MAX_CHUNK_ROWS = 16_384
"""Limit of rows in one chunk, or in `recent`: 768 KiB, below 1 MB with everything around them."""
MAX_CHUNKS = 65_535
_MAX_LIFTS = 16


def _ascends(items: Sequence[Any]) -> bool:
    return all(map(lt, items, items[1:]))


Offsets = tuple[tuple[int, int], ...]
"""((partition, next offset), ...) sorted by partition: every record of the partition before that offset."""

_Offsets = Annotated[
    tuple[Annotated[tuple[int, int], named("partition", "next_offset")], ...],
    when_read(
        "ascends([row[0] for row in {x}])",
        "a list of [partition, next offset] by partition",
        ascends=_ascends,
    ),
    rule("offsets", "sorted by partition"),
]
_Rows = Annotated[bytes, sized_between(0, MAX_CHUNK_ROWS * ROW_SIZE, ROW_SIZE)]


def _are_lifts(lifts: dict[Any, Any]) -> bool:
    return all(type(name) is str and type(lanes) is bytes for name, lanes in lifts.items()) and _ascends(
        list(lifts)
    )


def _lifts_size(lifts: dict[str, bytes]) -> int:
    return head_size(len(lifts)) + sum(
        text_size(name) + string_size(len(lanes)) for name, lanes in lifts.items()
    )


_LIFTS: Final = ItemKind(
    cddl="{* tstr => bstr}",
    wanted=f"bytes under the names of at most {_MAX_LIFTS} lifts, sorted by name",
    sound=f"type({{x}}) is dict and len({{x}}) <= {_MAX_LIFTS} and are_lifts({{x}})",
    size="lifts_size({x})",
    read="tuple({x}.items())",
    write="dict({x})",
    names={"are_lifts": _are_lifts, "lifts_size": _lifts_size},
)


class BlockKind(IntEnum):
    """Kind of the record under a key; the key's first byte."""

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
        """Return `kind, block_bits, block (u16)`, for a chunk also `slot, chunk (u16)`, then the name."""
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
        """Return `2, block_bits, shard (u16)`."""
        return bytes((BlockKind.PROGRESS, self.block_bits)) + self.shard.to_bytes(2, "big")


def split_block_key(key: bytes | None) -> BlockKey | ProgressKey:
    """Return the key of a record of `blocks` or `block-vectors`. Raises `RecordError` if it is malformed."""
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
    """Return the number of a public key's block: its first `block_bits` bits."""
    return int.from_bytes(public_key[:2], "big") >> (16 - block_bits)


@record(
    "blocks",
    "Key: u8 0, u8 block_bits, u16 block, name of the set (schema id in UTF-8, or peer id).",
    rule="block-summary",
)
class BlockSummary(Record):
    """State of one block of one set. See the module and docs/topics.md for the fields.

    `fingerprints` is sorted by the lifts' names. `entry_count` is the sum of the logs' heights.
    """

    version: Annotated[_Offsets, "the input that this block includes"]
    log_count: int
    entry_count: Annotated[int, "sum of all heights, modulo 2^64"]
    fingerprints: Annotated[
        tuple[tuple[str, bytes], ...], _LIFTS, "by name of the lift: lanes, most significant byte first"
    ]
    slot: Annotated[int, between(0, 1), "which of its two slots contains its chunks"] = 0
    chunks: Annotated[
        tuple[int, ...],
        counted(MAX_CHUNKS),
        "XXH64 (seed 0) of the heights of each chunk; no other chunks belong to the block",
    ] = ()
    recent: Annotated[_Rows, "heights that changed after the chunks were written; they take precedence"] = b""


@record(
    "blocks",
    "Key: u8 1, u8 block_bits, u16 block, u8 slot, u16 number of the chunk, name of the set.",
    rule="block-heights",
)
class BlockHeights(Record):
    """One chunk of a block's heights: `heights` is n times `ROW_SIZE` bytes, sorted (not checked)."""

    heights: Annotated[
        _Rows,
        "48 bytes each: public key, log id and seq_num as u64, sorted, each log once",
    ]


@record(
    "blocks",
    "Key: u8 2, u8 block_bits, u16 shard. Shard n writes partition n of the topic, this "
    "after everything else.",
    rule="block-progress",
)
class BlockProgress(Record):
    """Progress of one of `shards` shards: all input before `applied` is in its blocks."""

    shards: Annotated[int, between(1, 65_535)]
    applied: Annotated[_Offsets, "the shard's blocks include every record before these offsets"]
