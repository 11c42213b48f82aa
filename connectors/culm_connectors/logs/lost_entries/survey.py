"""Finds logs that cannot continue, because their next entry is lost.

An entry that is missing on `logs` is lost in one of two cases. Either it is no longer on `entries`, so nobody
can read it there. Or it still is, but the job has read past it without writing it: the job waits for an
earlier entry, which it does not have because it began with an empty checkpoint. Entries that the job has not
read yet are never lost, however far behind it is.

The order of reading makes this sound: first the job's position and the index as they are now, then `logs` and
`entries` up to their ends. A change in between costs at most a duplicate, which the job drops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from culm_connectors.kafka import Progress, TopicReaders
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.warm_start.claims import table_of
from culm_connectors.logs.warm_start.heights import EMPTY, LOG_SIZE, HeightTable, log_column
from culm_models.bamboo.entry import read_place
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord, LogRecord
from culm_topics.readers.batch import Partition, source_of
from culm_topics.records import split_flavoured_log_key


@dataclass(frozen=True, slots=True)
class LostPart:
    """Lost part of a log. The index can produce entries `first` to `last`; no entry if `last` < `first`."""

    key: bytes
    """Key of the records of this log."""
    height: int
    """Height of the log on `logs`."""
    first: int
    last: int
    missing: int | None
    """Number of the first entry that neither topics nor index have; None if the log will be complete."""

    @property
    def log(self) -> LogKey:
        """Public key and log id."""
        return split_flavoured_log_key(self.key)[1]

    @property
    def count(self) -> int:
        """Number of entries that the index can produce."""
        return max(self.last - self.first + 1, 0)


@dataclass(slots=True)
class _Log:
    """A log that may continue: its height on `logs`, in the index (`held`), and its position on `entries`."""

    height: int
    held: int
    next_at: tuple[Partition, int] | None = None
    """Partition and offset of the latest record of the entry `height` + 1."""
    above: int | None = None
    """Lowest sequence number on `entries` above `height` + 1."""
    above_held: int | None = None
    """Lowest sequence number on `entries` above `held`."""

    def add(self, seq_num: int, partition: Partition, offset: int) -> None:
        if seq_num == self.height + 1:
            self.next_at = partition, offset
        elif seq_num > self.height:
            self.above = seq_num if self.above is None else min(self.above, seq_num)
        if seq_num > self.held:
            self.above_held = seq_num if self.above_held is None else min(self.above_held, seq_num)

    def lost(self, key: bytes, read: Mapping[Partition, int]) -> LostPart | None:
        first = self.height + 1
        if self.next_at is not None:
            partition, offset = self.next_at
            if self.held < first or offset >= read.get(partition, 0):
                return None
            # It was read and not written, so the job misses an earlier entry. It is unknown which.
            first = 1
        elif self.held < first and self.above is None:
            return None
        missing = None
        if self.held < first:
            missing = first
        elif self.above_held is not None and self.above_held > self.held + 1:
            missing = self.held + 1
        return LostPart(key, self.height, first, self.held, missing)


async def find_lost(
    index: LmdbLogStore,
    topics: TopicReaders,
    read: Mapping[Partition, int],
    *,
    only: Collection[LogKey] | None = None,
    others: bool = False,
    progress: Progress = lambda *_: None,
) -> list[LostPart]:
    """Find the logs of this index that cannot continue, in the order of their keys.

    `read` is the position of the job `logs` on `entries`, as far as it is known. `only` selects logs.
    `others` adds logs that the index does not hold, whose entries cannot be produced. Takes 56 bytes of
    memory for each log, and some 200 for each log ahead of `logs`; with `others`, also for each log that the
    index does not hold. Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`.
    """
    index_heights = await asyncio.to_thread(_index_heights, index, only)
    seen, strange = await _heights_on_logs(index_heights, topics, others=others, progress=progress)
    ahead = np.flatnonzero(index_heights.heights > seen)
    keys = HeightTable(index_heights.logs[ahead], index_heights.heights[ahead]).log_keys()
    counts = zip(seen[ahead].tolist(), index_heights.heights[ahead].tolist(), strict=True)
    logs = {key: _Log(height, top) for key, (height, top) in zip(keys, counts, strict=True)}
    if not logs and not others:
        return []
    async with topics.open("entries") as reader:
        # A position beyond the end is one in an earlier creation of the topic.
        known = {
            partition: offset for partition, offset in read.items() if offset <= reader.ends.get(partition, 0)
        }
        total = reader.remaining()
        async for batch in reader.read_to_end():
            for message in batch.messages:
                _note(message, logs, index_heights, seen, strange if others else None)
            progress("reading entries", total - reader.remaining(), total)
    lost_parts = (log.lost(key, known) for key, log in sorted(logs.items()))
    return [part for part in lost_parts if part is not None]


def _index_heights(index: LmdbLogStore, only: Collection[LogKey] | None) -> HeightTable:
    if only is None:
        return reduce(
            HeightTable.merged, (table_of(index, schema_id) for schema_id in index.schema_ids()), EMPTY
        )
    return HeightTable.from_heights((*log, index.height(*log)) for log in only)


async def _heights_on_logs(
    index_heights: HeightTable, topics: TopicReaders, *, others: bool, progress: Progress
) -> tuple[NDArray[np.uint64], dict[bytes, int]]:
    """Returns the height on `logs` of each log of the table; with `others`, also of logs not in the table."""
    seen = np.zeros(len(index_heights), np.uint64)
    strange: dict[bytes, int] = {}
    async with topics.whole_logs() as reader:
        total = reader.remaining()
        async for batch in reader.read_to_end():
            keys = [message.key() or b"" for message in batch.messages]
            table_rows = _rows_of(index_heights, keys)
            for message, key, table_row in zip(batch.messages, keys, table_rows, strict=True):
                if table_row is None and not others:
                    continue
                try:
                    seq_num = LogRecord.decode(message.value()).seq_num
                except RecordError:
                    continue
                if table_row is not None:
                    seen[table_row] = max(int(seen[table_row]), seq_num)
                else:
                    strange[key] = max(strange.get(key, 0), seq_num)
            progress("reading logs", total - reader.remaining(), total)
    return seen, strange


def _rows_of(table: HeightTable, keys: list[bytes]) -> Iterator[int | None]:
    """Returns the row of each log in the table, None for a log that is not in it."""
    if not len(table):
        return iter([None] * len(keys))
    column = log_column(key if len(key) == LOG_SIZE else bytes(LOG_SIZE) for key in keys)
    table_rows = np.minimum(np.searchsorted(table.logs, column), len(table) - 1)
    same = table.logs[table_rows] == column
    known = zip(table_rows.tolist(), same.tolist(), map(len, keys), strict=True)
    return (table_row if is_same and size == LOG_SIZE else None for table_row, is_same, size in known)


def _note(
    message: Message,
    logs: dict[bytes, _Log],
    index_heights: HeightTable,
    seen: NDArray[np.uint64],
    strange: Mapping[bytes, int] | None,
) -> None:
    key = message.key() or b""
    log = logs.get(key)
    if log is None and strange is None:
        return
    try:
        _, named = split_flavoured_log_key(key)
        seen_at = read_place(EntryRecord.decode(message.value()).entry)
    except RecordError:
        return
    if seen_at is None or seen_at[:2] != named:
        return
    seq_num = seen_at[2]
    if log is None and strange is not None:
        (table_row,) = _rows_of(index_heights, [key])
        height = strange.get(key, 0) if table_row is None else int(seen[table_row])
        if seq_num <= height:
            return
        log = logs[key] = _Log(height, 0 if table_row is None else int(index_heights.heights[table_row]))
    assert log is not None, "of the index, or added just now"
    topic, partition, offset = source_of(message)
    log.add(seq_num, (topic, partition), offset)
