"""One block of one set: its stored records as arrays, and the records that describe its changes.

A block that grows a little only rewrites its summary, with the changed rows in `recent`. Once these have
become many, the whole block is written to new chunks. So a block of n rows that grows by few rows at a time
costs about the square root of n each time, not n.
"""

from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
from xxhash import xxh64_intdigest

from culm_streaming.blocks.growth import HEIGHT, merge, owned
from culm_streaming.blocks.rows import Array
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import CHUNKS, SUMMARIES, BlockId
from culm_streaming.errors import StateMissingError
from culm_streaming.stateful.job_state import JobState
from culm_topics.logs.records import MAX_CHUNK_ROWS, BlockHeights, BlockKey, BlockKind, BlockSummary

Record = tuple[bytes, bytes | None]
"""(key, value) of a record to write; a record without a value removes the key."""

_EMPTY = BlockSummary((), 0, 0, ())
_RECENT_FACTOR = 4


@dataclass(frozen=True, slots=True)
class BlockState:
    """A block as stored: `chunked` and `recent` are arrays of `HEIGHT`, both sorted."""

    place: BlockId
    summary: BlockSummary
    chunked: Array
    recent: Array


def load_block(store: JobState, block_id: BlockId) -> BlockState:
    """Load the block at `block_id`; empty if there is none yet."""
    blob = store.load(SUMMARIES, block_id)
    if blob is None:
        return BlockState(block_id, _EMPTY, np.empty(0, HEIGHT), np.empty(0, HEIGHT))
    summary = BlockSummary.decode(blob)
    chunks = []
    for number in range(len(summary.chunks)):
        chunk = store.load(CHUNKS, (*block_id, number))
        if chunk is None:
            raise StateMissingError("a chunk of a block's state is missing")
        chunks.append(BlockHeights.decode(chunk).heights)
    chunked = np.frombuffer(b"".join(chunks), HEIGHT)
    return BlockState(block_id, summary, chunked, np.frombuffer(summary.recent, HEIGHT))


def save_block(
    store: JobState, block: BlockState, summary: BlockSummary, recent: Array, settings: HeightsSettings
) -> list[Record]:
    """Store the block with a new summary and new recent rows; returns the records to write, in order."""
    former = block.summary
    max_recent = settings.recent_rows + _RECENT_FACTOR * isqrt(len(block.chunked))
    if len(recent) <= min(max_recent, MAX_CHUNK_ROWS):
        summary = replace(summary, slot=former.slot, chunks=former.chunks, recent=recent.tobytes())
        store.save(SUMMARIES, block.place, value := summary.encode())
        return [(_key(block.place, settings).encode(), value)]
    rows = merge(owned([block.chunked]), owned([recent])).heights
    pieces = [
        rows[start : start + settings.chunk_rows].tobytes()
        for start in range(0, len(rows), settings.chunk_rows)
    ]
    slot = 1 - former.slot
    chunks = tuple(map(xxh64_intdigest, pieces))
    records: list[Record] = []
    for number, piece in enumerate(pieces):
        store.save(CHUNKS, (*block.place, number), value := BlockHeights(piece).encode())
        records.append((_chunk_key(block.place, settings, slot, number).encode(), value))
    for number in range(len(pieces), len(former.chunks)):
        store.save(CHUNKS, (*block.place, number), None)
    summary = replace(summary, slot=slot, chunks=chunks, recent=b"")
    store.save(SUMMARIES, block.place, value := summary.encode())
    records.append((_key(block.place, settings).encode(), value))
    records += [
        (_chunk_key(block.place, settings, former.slot, number).encode(), None)
        for number in range(len(former.chunks))
    ]
    return records


def _key(block_id: BlockId, settings: HeightsSettings) -> BlockKey:
    _, name, block = block_id
    return BlockKey(BlockKind.SUMMARY, settings.block_bits, block, name)


def _chunk_key(block_id: BlockId, settings: HeightsSettings, slot: int, number: int) -> BlockKey:
    _, name, block = block_id
    return BlockKey(BlockKind.HEIGHTS, settings.block_bits, block, name, slot, number)
