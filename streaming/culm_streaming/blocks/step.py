"""One shard, one micro-batch: rows and state in, records and state out. A plain function of its arguments.

A height that is not above the stored one changes nothing, so repeats are harmless although fingerprints are
sums. An unchanged block is not written. The same rows on the same state give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import cbor2
import numpy as np

from culm_models.lifts import Lanes, Lift
from culm_models.lifts.vectors import combine
from culm_streaming.blocks.block import BlockState, Record, load_block, save_block
from culm_streaming.blocks.growth import (
    HEIGHT,
    OwnedHeights,
    grown,
    lane_changes,
    lanes_of,
    merge,
    owned,
    split,
)
from culm_streaming.blocks.packing import block_numbers, highest
from culm_streaming.blocks.rows import Array, HeightRows, HeightSource
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import SHARD, BlockId
from culm_streaming.errors import StateLayoutError
from culm_streaming.stateful.job_state import JobState, check_format
from culm_topics.logs.records import BlockProgress, BlockSummary, Offsets, ProgressKey

_FORMAT = 1
_MASK = 2**64 - 1


@dataclass(slots=True)
class BlocksOutput:
    """Records to write, by their source, in order; and the refused ones."""

    records: dict[HeightSource, list[Record]] = field(default_factory=dict)
    refused: list[tuple[bytes, bytes]] = field(default_factory=list)


def step(store: JobState, shard: int, rows: HeightRows, settings: HeightsSettings) -> BlocksOutput:
    """Update the blocks of one shard with `rows`; returns the records to write."""
    before = store.load(SHARD)
    applied = _applied(before, settings)
    output = BlocksOutput({source: [] for source in HeightSource}, list(rows.refused))
    if len(rows.rows):
        _grow(store, rows, output, settings)
    for source, partition, next_offset in rows.marks:
        known = applied.setdefault(HeightSource(source), {})
        known[partition] = max(next_offset, known.get(partition, 0))
    key = ProgressKey(settings.block_bits, shard).encode()
    for source in sorted({HeightSource(mark[0]) for mark in rows.marks}):
        come = tuple(sorted(applied[source].items()))
        output.records[source].append((key, BlockProgress(settings.shards, come).encode()))
    after = _encode_applied(applied, settings)
    if after != before:
        store.save(SHARD, (), after)
    return output


def _applied(blob: bytes | None, settings: HeightsSettings) -> dict[HeightSource, dict[int, int]]:
    """Return the shard's progress in each source. Raises `StateLayoutError` for another layout."""
    if blob is None:
        return {}
    form, block_bits, shards, applied = cbor2.loads(blob)
    check_format("a shard of block state", form, _FORMAT)
    if (block_bits, shards) != (settings.block_bits, settings.shards):
        raise StateLayoutError(
            f"this checkpoint was made with blocks of {block_bits} bits in {shards} shards (partitions of "
            f"`blocks`), not {settings.block_bits} and {settings.shards}: take another checkpoint"
        )
    return {HeightSource(source): dict(come) for source, come in applied.items()}


def _encode_applied(applied: dict[HeightSource, dict[int, int]], settings: HeightsSettings) -> bytes:
    plain = {int(source): dict(sorted(come.items())) for source, come in sorted(applied.items())}
    return cbor2.dumps((_FORMAT, settings.block_bits, settings.shards, plain))


def _grow(store: JobState, rows: HeightRows, output: BlocksOutput, settings: HeightsSettings) -> None:
    sorted_rows, owner, block_ids = _by_place(rows, settings)
    blocks = [load_block(store, block_id) for block_id in block_ids]
    chunked = owned([block.chunked for block in blocks])
    recent = owned([block.recent for block in blocks])
    heights = np.empty(len(sorted_rows), HEIGHT)
    heights["log"], heights["seq_num"] = sorted_rows["log"], sorted_rows["seq_num"]
    wanted = OwnedHeights(owner, heights)
    mask, stored = grown(wanted, chunked, recent)
    if not mask.any():
        return
    sorted_rows, stored, changed = sorted_rows[mask], stored[mask], wanted.only(mask)
    lanes = {lift: lane_changes(lift, changed, stored, len(blocks)) for lift in settings.kept}
    recents = split(merge(recent, changed), len(blocks))
    owners, starts = np.unique(changed.owner, return_index=True)
    added = np.add.reduceat(changed.heights["seq_num"].astype(np.uint64) - stored, starts)
    new_logs = np.add.reduceat((stored == 0).astype(np.int64), starts)
    ends = [*starts[1:].tolist(), len(changed)]
    for number, start, end, entries, logs in zip(
        owners.tolist(), starts.tolist(), ends, added.tolist(), new_logs.tolist(), strict=True
    ):
        block = blocks[number]
        former = block.summary
        summary = BlockSummary(
            version=_version_with(former.version, sorted_rows[start:end]),
            log_count=former.log_count + logs,
            entry_count=(former.entry_count + entries) & _MASK,
            fingerprints=_fingerprints(
                block, recents[number], {lift: lanes[lift][number] for lift in settings.kept}
            ),
        )
        records = save_block(store, block, summary, recents[number], settings)
        output.records[HeightSource(block.place[0])] += records


def _by_place(rows: HeightRows, settings: HeightsSettings) -> tuple[Array, Array, list[BlockId]]:
    """Return (rows sorted by owner and log, the owner of each, the place of each owner); one row per log."""
    highest_rows = highest(rows.rows)
    # Names in the order of their bytes, so that the output does not depend on the order of arrival.
    order = sorted(range(len(rows.names)), key=lambda number: rows.names[number])
    rank = np.empty(max(len(order), 1), np.int64)
    rank[order] = np.arange(len(order))
    joined = rank[highest_rows["name"]] << 16 | block_numbers(highest_rows["log"], settings.block_bits)
    sorting = np.lexsort((highest_rows["log"], joined))
    distinct, owner = np.unique(joined[sorting], return_inverse=True)
    block_ids = [(*rows.names[order[number >> 16]], number & 0xFFFF) for number in distinct.tolist()]
    return highest_rows[sorting], owner, block_ids


def _version_with(version: Offsets, rows: Array) -> Offsets:
    """Return the version with the records that contained these rows."""
    offsets = dict(version)
    for partition in np.unique(rows["partition"]):
        last = int(rows["next_offset"][rows["partition"] == partition].max())
        offsets[int(partition)] = max(last, offsets.get(int(partition), 0))
    return tuple(sorted(offsets.items()))


def _fingerprints(
    block: BlockState, recent: Array, changes: dict[Lift, Array]
) -> tuple[tuple[str, bytes], ...]:
    """Return the block's changed fingerprint by lift; lifts all heights only if it is a new lift."""
    known = dict(block.summary.fingerprints)
    values: list[tuple[str, bytes]] = []
    for lift, change in changes.items():
        if not block.summary.log_count:
            lanes = tuple(change.tolist())
        elif lift.name in known:
            lanes = _changed(lift, lift.read_value(known[lift.name]), change.tolist())
        else:
            rows = merge(owned([block.chunked]), owned([recent])).heights
            lanes = combine(lift, lanes_of(lift, rows["log"], rows["seq_num"]))
        values.append((lift.name, lift.value(lanes)))
    return tuple(values)


def _changed(lift: Lift, lanes: Lanes, change: Sequence[int]) -> Lanes:
    return lift.total((lanes, tuple(change)))
