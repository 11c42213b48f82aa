"""Packs a batch of records into rows by shard, one row per log: the stateless part of the job `blocks`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from culm_streaming.blocks.records import read_heights
from culm_streaming.blocks.rows import ROW, Array, HeightRows, HeightSource, Mark, pack_rows
from culm_streaming.blocks.settings import HeightsSettings
from culm_topics.logs.records import LogHeight
from culm_topics.records import LOG_KEY_SIZE, reject_malformed

_SEED = 42
_PIECE_HEIGHTS = 100_000

Receipt = tuple[bytes, Sequence[LogHeight], int, int]
"""The holdings of a peer: (peer id, heights, partition, offset)."""


class PackedHeights(NamedTuple):
    """The rows of one shard from one batch."""

    shard: int
    rows: bytes
    rest: bytes


def first_shard(name: bytes) -> int:
    """Return the offset of a set: its block n belongs to shard (offset + n) modulo the number of shards.

    So the blocks of every set spread evenly, and adjacent blocks are in different shards.
    """
    return xxh64_intdigest(name, _SEED) >> 32


def block_numbers(logs: Array, block_bits: int) -> Array:
    """Return the block of each log key."""
    first = np.ascontiguousarray(logs).view(np.uint8).reshape(-1, LOG_KEY_SIZE)[:, :2].astype(np.uint32)
    numbers: Array = (first[:, 0] << 8 | first[:, 1]) >> (16 - block_bits)
    return numbers


def pack_log_records(
    columns: tuple[pa.Array, pa.Array, pa.Array, pa.Array], settings: HeightsSettings, topic: str
) -> Iterator[PackedHeights]:
    """Pack a batch of `logs` as (keys, values, partitions, offsets); malformed records are refused."""
    keys, values, partition_column, offset_column = columns
    partitions = partition_column.to_numpy(zero_copy_only=False)
    offsets = offset_column.to_numpy(zero_copy_only=False)
    heights = read_heights(keys, values)
    rows = np.empty(len(heights.place), ROW)
    rows["log"], rows["seq_num"], rows["name"] = heights.log, heights.seq_num, heights.schema
    rows["partition"] = partitions[heights.place]
    rows["next_offset"] = offsets[heights.place] + 1
    refused = [
        (source[2], reject_malformed(error, values[row].as_py(), source, key=keys[row].as_py()))
        for row, error in heights.refused
        for source in ((topic, int(partitions[row]), int(offsets[row])),)
    ]
    names = [(int(HeightSource.LOGS), schema) for schema in heights.schemas]
    yield from _dealt(rows, names, _marks(HeightSource.LOGS, partitions, offsets), settings, refused)


def pack_receipts(
    receipts: Iterable[Receipt], marks: list[Mark], settings: HeightsSettings
) -> Iterator[PackedHeights]:
    """Pack receipts; heights of 0 are skipped."""
    names: dict[bytes, int] = {}
    rows: list[tuple[bytes, int, int, int, int]] = []
    for peer_id, heights, partition, offset in receipts:
        name = names.setdefault(peer_id, len(names))
        rows += [
            (public_key + log_id.to_bytes(8, "big"), seq_num, offset + 1, partition, name)
            for public_key, log_id, seq_num in heights
            if seq_num
        ]
    peers = [(int(HeightSource.RECEIPTS), peer_id) for peer_id in names]
    yield from _dealt(np.array(rows, ROW), peers, marks, settings)


def in_pieces(receipts: Iterable[Receipt], min_heights: int = _PIECE_HEIGHTS) -> Iterator[list[Receipt]]:
    """Yield lists of receipts with at least `min_heights` heights, exceeded by less than one receipt.

    The last list may be shorter.

    Yields at least one list, which may be empty.
    """
    piece: list[Receipt] = []
    heights = 0
    for receipt in receipts:
        piece.append(receipt)
        heights += len(receipt[1])
        if heights >= min_heights:
            yield piece
            piece, heights = [], 0
    yield piece


def _marks(source: HeightSource, partitions: Array, offsets: Array) -> list[Mark]:
    return [
        (int(source), int(partition), int(offsets[partitions == partition].max()) + 1)
        for partition in np.unique(partitions)
    ]


def marks_of(source: HeightSource, partitions: pa.Array, offsets: pa.Array) -> list[Mark]:
    """Return the offsets up to which a batch of a source covers each of its partitions."""
    return _marks(source, partitions.to_numpy(zero_copy_only=False), offsets.to_numpy(zero_copy_only=False))


def _dealt(
    rows: Array,
    names: list[tuple[int, bytes]],
    marks: list[Mark],
    settings: HeightsSettings,
    refused: list[tuple[int, tuple[bytes, bytes]]] | None = None,
) -> Iterator[PackedHeights]:
    """Yield one row per log, by shard; every shard gets the marks, because each reports its progress."""
    shards = settings.shards
    rows = highest(rows)
    starts = np.array([first_shard(name) % shards for _, name in names], np.int64)
    places = starts[rows["name"]] if names else np.zeros(0, np.int64)
    places = (places + block_numbers(rows["log"], settings.block_bits)) % shards
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(1, shards + 1))
    start = 0
    for shard, end in enumerate(ends.tolist()):
        part = rows[order[start:end]]
        start = end
        used, part["name"] = np.unique(part["name"], return_inverse=True)
        shard_refused = [record for offset, record in refused or () if offset % shards == shard]
        packed, rest = pack_rows(
            HeightRows(part, [names[name] for name in used.tolist()], marks, shard_refused)
        )
        yield PackedHeights(shard, packed, rest)


def highest(rows: Array) -> Array:
    """Return for each log the row with the highest number; of several such rows, the one that came first."""
    if len(rows) < 2:
        return rows
    words = np.ascontiguousarray(rows["log"]).view(">u8").reshape(-1, 5)
    # Rows are sorted by a hash of their log, which is much faster than sorting by the log itself.
    mixed = words[:, 0].astype(np.uint64)
    for number, word in enumerate((words[:, 3], words[:, 4], rows["name"]), start=1):
        mixed = (mixed ^ word.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15 + 2 * number)
    order = np.lexsort((~rows["next_offset"], rows["seq_num"], mixed))
    rows, mixed = rows[order], mixed[order]
    same = mixed[1:] == mixed[:-1]
    alike = (rows["log"][1:] == rows["log"][:-1]) & (rows["name"][1:] == rows["name"][:-1])
    if (same & ~alike).any():
        order = np.lexsort((~rows["next_offset"], rows["seq_num"], rows["log"], rows["name"]))
        rows = rows[order]
        alike = (rows["log"][1:] == rows["log"][:-1]) & (rows["name"][1:] == rows["name"][:-1])
    chosen: Array = rows[np.append(~alike, True)]
    return chosen
