"""A peer's lag behind the replicated logs, block by block: `blocks` compared with `block-vectors`.

Fingerprints are sums, so a peer's vector of a block can be compared without its heights: if the peer holds
all of one schema, or of all of them, its fingerprint is that sum. Otherwise the heights tell what is missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.lifts import DEFAULT, Lift, LiftError, by_name
from culm_topics.errors import RecordError
from culm_topics.logs.blocks import Block, Blocks
from culm_topics.logs.records.blocks import LOG_SIZE, ROW_SIZE

_INDEXED_SHARE: Final = 8


@dataclass(frozen=True, slots=True)
class BlockLag:
    """One peer and one block of one schema.

    `logs` and `entries` count the contents of the block; `logs_held` counts the logs of which the peer holds
    something, and `entries_behind` the entries of these logs that it is missing. Whether it wants the other
    logs is unknown.
    """

    peer_id: bytes
    schema_id: str
    block: int
    logs: int
    entries: int
    logs_held: int
    logs_behind: int
    entries_behind: int

    @property
    def equal(self) -> bool:
        """Whether the peer holds the whole block."""
        return self.logs_held == self.logs and not self.logs_behind


def block_lags(blocks: Blocks, vectors: Blocks) -> Iterator[BlockLag]:
    """Yield every peer's lag in every block of which it holds something, sorted by peer, block and schema.

    Raises `RecordError` if the two have different block bits.
    """
    if len(blocks) and len(vectors) and blocks.block_bits != vectors.block_bits:
        raise RecordError(f"blocks have {blocks.block_bits} bits and the peers' vectors {vectors.block_bits}")
    by_number: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        by_number[block.block].append(block)
    for vector in vectors:
        schemas = by_number.get(vector.block, [])
        whole = _held_whole(vector, schemas)
        peer_heights = {} if whole is not None else dict(rows_of(vector.heights))
        for block in schemas:
            if whole is None:
                yield from _compared(vector, block, peer_heights, rows_of(block.heights))
            elif block in whole:
                yield _block_lag(vector, block, block.log_count, 0, 0)


def lags_in_block(schemas: Sequence[Block], vectors: Iterable[Block]) -> Iterator[BlockLag]:
    """Yield the lags of many peers in one block, peer by peer. Logs of peers are looked up in the schemas."""
    many = list(vectors)
    # It pays to index a block if many of its logs are looked up.
    lookups = sum(vector.log_count for vector in many) * _INDEXED_SHARE
    indexed = [
        (block, dict(rows_of(block.heights)) if lookups > block.log_count else None) for block in schemas
    ]
    for vector in many:
        whole = _held_whole(vector, schemas)
        peer_heights = {} if whole is not None else dict(rows_of(vector.heights))
        for block, index in indexed:
            if whole is None:
                found = (
                    (log, height_of(block.heights, log) if index is None else index.get(log))
                    for log in peer_heights
                )
                held = [(log, height) for log, height in found if height is not None]
                yield from _compared(vector, block, peer_heights, held)
            elif block in whole:
                yield _block_lag(vector, block, block.log_count, 0, 0)


def _compared(
    vector: Block, block: Block, peer_heights: Mapping[bytes, int], heights: Iterable[tuple[bytes, int]]
) -> Iterator[BlockLag]:
    """Yield the lag of a peer that holds some of these logs of the block."""
    lacks = [height - peer_heights[log] for log, height in heights if log in peer_heights]
    if lacks:
        behind = [entries for entries in lacks if entries > 0]
        yield _block_lag(vector, block, len(lacks), len(behind), sum(behind))


def _block_lag(
    vector: Block, block: Block, held_logs: int, logs_behind: int, entries_behind: int
) -> BlockLag:
    return BlockLag(
        vector.peer_id,
        block.schema_id,
        block.block,
        block.log_count,
        block.entry_count,
        held_logs,
        logs_behind,
        entries_behind,
    )


def _held_whole(vector: Block, schemas: Sequence[Block]) -> Sequence[Block] | None:
    """Return the blocks of which the peer holds everything, if it holds nothing else; None if unknown."""
    lift = _common_lift((vector, *schemas))
    if lift is None:
        return None
    wanted = vector.fingerprints[lift.name]
    for chosen in (schemas, *([block] for block in schemas)):
        if sum(block.log_count for block in chosen) != vector.log_count:
            continue
        total = lift.total(lift.read_value(block.fingerprints[lift.name]) for block in chosen)
        if lift.value(total) == wanted:
            return chosen
    return None


def _common_lift(blocks: Iterable[Block]) -> Lift | None:
    known: set[str] = set.intersection(*(set(block.fingerprints) for block in blocks))
    for name in sorted(known, key=lambda name: (name != DEFAULT.name, name)):
        try:
            return by_name(name)
        except LiftError:
            continue
    return None


def first_row(heights: bytes, log: bytes) -> int:
    """Return the number of the first row of packed heights whose log is not before `log`."""
    low, high = 0, len(heights) // ROW_SIZE
    while low < high:
        middle = (low + high) // 2
        if heights[middle * ROW_SIZE : middle * ROW_SIZE + LOG_SIZE] < log:
            low = middle + 1
        else:
            high = middle
    return low


def height_of(heights: bytes, log: bytes) -> int | None:
    """Return the height of a log in packed heights, or None if they do not have it."""
    at = first_row(heights, log) * ROW_SIZE
    if heights[at : at + LOG_SIZE] != log:
        return None
    return int.from_bytes(heights[at + LOG_SIZE : at + ROW_SIZE], "big")


def rows_of(heights: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield (log key, sequence number) of packed heights."""
    for start in range(0, len(heights), ROW_SIZE):
        log = heights[start : start + LOG_SIZE]
        yield log, int.from_bytes(heights[start + LOG_SIZE : start + ROW_SIZE], "big")


def total_fingerprints(blocks: Iterable[Block]) -> Mapping[str, bytes]:
    """Return the combined fingerprints of several blocks, for the lifts that all of them have."""
    many = list(blocks)
    names = set.intersection(*(set(block.fingerprints) for block in many)) if many else set()
    totals: dict[str, bytes] = {}
    for name in sorted(names):
        try:
            lift = by_name(name)
        except LiftError:
            continue
        totals[name] = lift.value(lift.total(lift.read_value(block.fingerprints[name]) for block in many))
    return totals
