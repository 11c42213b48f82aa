"""Entries that arrived before their predecessors: held back within limits, never dropped silently."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from culm_streaming.errors import StateLayoutError
from culm_streaming.logs.log_table import BLOCKS, EARLY, TOTALS, LogTable, decode_block
from culm_streaming.logs.rows import FROM_STATE, HEAD, HEAD_SIZE, SIZE, EntryRows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.stateful.job_state import JobState, check_layout

FORMAT = 1
_HEADER = struct.Struct("<BxxxI")
_TOTALS = struct.Struct("<BxHHxxIQ")
_WAITING_FORMAT = 2
_WAITING = struct.Struct("<IQ")


def encode_early(rows: EntryRows) -> bytes:
    """Return the blob of one log's early arrivals."""
    heads = rows.heads.copy()
    heads["flags"] |= FROM_STATE
    sizes = np.fromiter(map(len, rows.values), SIZE, len(rows))
    return b"".join((_HEADER.pack(FORMAT, len(rows)), heads.tobytes(), sizes.tobytes(), *rows.values))


def decode_early(blob: bytes) -> EntryRows:
    """Return one log's early arrivals, flagged `FROM_STATE`."""
    form, count = _HEADER.unpack_from(blob)
    if form != FORMAT:
        raise StateLayoutError(f"early arrivals have format {form}, this program knows {FORMAT}")
    offset = _HEADER.size
    heads = np.frombuffer(blob, HEAD, count, offset)
    offset += heads.nbytes
    sizes = np.frombuffer(blob, SIZE, count, offset)
    ends = np.cumsum(sizes, dtype=np.int64) + offset + sizes.nbytes
    values = [blob[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    return EntryRows(heads, values)


class EarlyTotals:
    """The number of a shard's early arrivals, and of logs with any; stored with the layout of the state.

    `since_ms` is the time since when at least one log has always been waiting here; 0 if none waits.
    """

    def __init__(self, settings: ChainSettings, store: JobState, now_ms: int) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self.count = 0
        self.size_bytes = 0
        self.logs = 0
        self.since_ms = 0
        blob = store.load(TOTALS)
        if blob is None:
            return
        form, shards, blocks, self.count, self.size_bytes = _TOTALS.unpack_from(blob)
        if form not in (FORMAT, _WAITING_FORMAT):
            raise StateLayoutError(f"a shard's totals have format {form}, this program knows {FORMAT}")
        check_layout((shards, blocks), (settings.shards, settings.blocks))
        if form == _WAITING_FORMAT:
            self.logs, self.since_ms = _WAITING.unpack_from(blob, _TOTALS.size)
        elif self.count:
            # Written by a version that did not count the logs.
            self.add_logs(_count_waiting_logs(store, settings))

    def encode(self) -> bytes:
        """Return the blob from which the next micro-batch starts."""
        form = _WAITING_FORMAT if self.logs else FORMAT
        blob = _TOTALS.pack(form, self._settings.shards, self._settings.blocks, self.count, self.size_bytes)
        return blob + _WAITING.pack(self.logs, self.since_ms) if self.logs else blob

    def add_logs(self, count: int) -> None:
        """Add a number of logs with early arrivals; may be negative."""
        if not self.logs:
            self.since_ms = self._now_ms
        self.logs += count
        assert self.logs >= 0
        if not self.logs:
            self.since_ms = 0

    def add(self, count: int, size_bytes: int) -> None:
        """Add a number and size of arrivals; may be negative."""
        self.count += count
        self.size_bytes += size_bytes
        assert self.count >= 0 and self.size_bytes >= 0

    def has_capacity(self, size_bytes: int) -> bool:
        """Whether the shard may hold one more arrival of this size."""
        settings = self._settings
        return (
            self.count < settings.max_early_per_shard
            and self.size_bytes + size_bytes <= settings.max_early_bytes_per_shard
        )


def _count_waiting_logs(store: JobState, settings: ChainSettings) -> int:
    blobs = (store.load(BLOCKS, number) for number in range(settings.blocks))
    return sum(int(np.count_nonzero(decode_block(blob)[0]["early_count"])) for blob in blobs if blob)


def hold_back(
    store: JobState,
    log_table: LogTable,
    waiting: Mapping[int, Sequence[int]],
    rows: EntryRows,
    *,
    totals: EarlyTotals,
    settings: ChainSettings,
) -> list[int]:
    """Keep the rows of `waiting` (owner to row numbers, lowest sequence number first) in the state.

    Owners whose early arrivals are all gone have an empty list. Returns the rows that exceed the limits: rows
    that are held already stay, then lower sequence numbers take precedence.
    """
    changed: list[int] = []
    for owner, numbers in sorted(waiting.items()):
        count, size = int(log_table.logs["early_count"][owner]), int(log_table.logs["early_bytes"][owner])
        stored_count = sum(1 for number in numbers if rows.heads["flags"][number] & FROM_STATE)
        if stored_count == len(numbers) == count:
            continue
        totals.add(-count, -size)
        changed.append(owner)
    refused: list[int] = []
    for owner in changed:
        numbers = waiting[owner]
        kept: list[int] = []
        size = 0
        # The sort is stable: the order within the held rows, and within the new ones, stays.
        for number in sorted(numbers, key=lambda row: not rows.heads["flags"][row] & FROM_STATE):
            row_size = HEAD_SIZE + len(rows.values[number])
            is_held = bool(rows.heads["flags"][number] & FROM_STATE)
            if not is_held and (
                len(kept) >= settings.max_early_per_log
                or size + row_size > settings.max_early_bytes_per_log
                or not totals.has_capacity(row_size)
            ):
                refused.append(number)
                continue
            kept.append(number)
            size += row_size
            totals.add(1, row_size)
        kept.sort()
        totals.add_logs(bool(kept) - bool(log_table.logs["early_count"][owner]))
        log_table.set_early(owner, len(kept), size)
        key = bytes(log_table.logs["key"][owner].tobytes())
        blob = (
            encode_early(EntryRows(rows.heads[np.array(kept)], [rows.values[n] for n in kept]))
            if kept
            else None
        )
        store.save(EARLY, key, blob)
    return sorted(refused)
