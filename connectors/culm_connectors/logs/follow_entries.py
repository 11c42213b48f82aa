"""Early entries from `entries`: entries of other connectors reach live peers before `logs` has them.

An entry that extends a held log is indexed and sent on at once. An entry above a gap in its log waits until
`logs` or a peer closes the gap; everything else is left to `logs` (`follow_logs`). Without these early
entries, a log that missed one entry would stay behind for as long as its author writes: each later entry is
above the gap while `logs`, which is seconds behind, closes it entry by entry.

Memory for them is bounded per log and in total. At the bound of a log its oldest entries are dropped, since
`logs` delivers those first. At the total bound, the log that has waited longest loses its entries, since its
gap is the least likely to close.

Bare logs, whose payloads are not operations, do not belong in this index: their records are skipped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message
from prometheus_client.core import Metric

from culm_connectors.kafka import TopicReader
from culm_connectors.logs.hub import Stored
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_connectors.metric_families import counters, gauge
from culm_models.bamboo import check_links
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.entry import read_place
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.batch import Batch, source_of

MAX_ENTRIES_PER_LOG = 1_024
MAX_BYTES_PER_LOG = 4 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
OVERHEAD_BYTES = 512
"""Memory that an entry takes in addition to its own bytes."""


@dataclass(slots=True)
class _WaitingLog:
    since_s: float
    entries: dict[int, SoundEntry] = field(default_factory=dict)
    """By sequence number, in order of arrival."""
    size_bytes: int = 0


class EarlyEntries:
    """The early entries of one index; subscribes to the index's hub. For one event loop."""

    def __init__(
        self,
        *,
        max_entries_per_log: int = MAX_ENTRIES_PER_LOG,
        max_bytes_per_log: int = MAX_BYTES_PER_LOG,
        max_bytes: int = MAX_BYTES,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        """Number of entries that were dropped because of a bound; `logs` delivers them later."""
        self.grown = asyncio.Event()
        """Set while logs with early entries have grown since the last call of `take_grown`."""
        self._max_entries_per_log = max_entries_per_log
        self._max_bytes_per_log = max_bytes_per_log
        self._max_bytes = max_bytes
        self._now_s = now_s
        self._logs: dict[LogKey, _WaitingLog] = {}
        """In the order in which they began to wait."""
        self._grown: dict[LogKey, None] = {}
        self._size_bytes = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def waiting_logs(self) -> int:
        """Number of logs that wait for an entry below the entries kept here."""
        return len(self._logs)

    def longest_wait_s(self) -> float:
        """Return the seconds that the longest waiting log has waited; 0 if none waits. From any thread."""
        logs = tuple(self._logs.values())
        return self._now_s() - logs[0].since_s if logs else 0.0

    def keep(self, checked: SoundEntry) -> None:
        """Keep an entry that is more than one above its log's height."""
        log, seq_num = checked.log, checked.entry.seq_num
        waiting = self._logs.get(log)
        if waiting is None:
            waiting = self._logs[log] = _WaitingLog(self._now_s())
        self._remove(waiting, seq_num)
        waiting.entries[seq_num] = checked
        self._add(waiting, 1, checked.size_bytes + OVERHEAD_BYTES)
        while waiting.entries and (
            len(waiting.entries) > self._max_entries_per_log or waiting.size_bytes > self._max_bytes_per_log
        ):
            self._remove(waiting, next(iter(waiting.entries)))
            self.dropped += 1
        if not waiting.entries:
            self._forget(log)
        while self._size_bytes > self._max_bytes:
            oldest = next(iter(self._logs))
            self.dropped += len(self._logs[oldest].entries)
            self._forget(oldest)

    def on_stored(self, stored: Stored) -> None:
        """Note the logs that have grown, regardless of the origin of the new entries."""
        if not self._logs:
            return
        for checked in stored.entries:
            if checked.log in self._logs:
                self._grown[checked.log] = None
        if self._grown:
            self.grown.set()

    def take_grown(self) -> tuple[LogKey, ...]:
        """Return the logs with early entries that have grown since the last call."""
        grown = tuple(log for log in self._grown if log in self._logs)
        self._grown.clear()
        self.grown.clear()
        return grown

    def take_above(self, log: LogKey, height: int) -> list[SoundEntry]:
        """Remove and return the consecutive entries directly above `height`; forget those at or below it.

        If a log still waits afterwards, it waits for another entry, so its waiting time starts again.
        """
        waiting = self._logs.get(log)
        if waiting is None:
            return []
        for seq_num in [seq_num for seq_num in waiting.entries if seq_num <= height]:
            self._remove(waiting, seq_num)
        taken: list[SoundEntry] = []
        while (checked := waiting.entries.get(height + len(taken) + 1)) is not None:
            taken.append(checked)
        for checked in taken:
            self._remove(waiting, checked.entry.seq_num)
        del self._logs[log]
        if waiting.entries:
            waiting.since_s = self._now_s()
            self._logs[log] = waiting
        return taken

    def _remove(self, waiting: _WaitingLog, seq_num: int) -> None:
        checked = waiting.entries.pop(seq_num, None)
        if checked is not None:
            self._add(waiting, -1, -(checked.size_bytes + OVERHEAD_BYTES))

    def _forget(self, log: LogKey) -> None:
        waiting = self._logs.pop(log)
        self._add(waiting, -len(waiting.entries), -waiting.size_bytes)

    def _add(self, waiting: _WaitingLog, count: int, size_bytes: int) -> None:
        waiting.size_bytes += size_bytes
        self._size_bytes += size_bytes
        self._count += count


class EntriesFollower:
    """Reads `entries`. `keeps` returns whether a schema belongs in the index."""

    def __init__(
        self,
        logs: ReplicatedLogs,
        keeps: Callable[[str], bool],
        *,
        max_payload_bytes: int,
        verify_signatures: bool = True,
    ) -> None:
        """`max_payload_bytes`: larger entries are left to the job `logs`, which refuses them."""
        self.taken = 0
        """Number of entries that were new here."""
        self.attached = 0
        """Number of early entries among them, which had waited for others."""
        self.early = EarlyEntries()
        logs.hub.subscribe(self.early)
        self._hub = logs.hub
        self._held = logs.index.store
        self._keeps = keeps
        self._publisher = logs.publisher
        self._pool = logs.pool
        self._connector_id = logs.connector_id
        self._max_payload_bytes = max_payload_bytes
        self._verify_signatures = verify_signatures

    async def follow(self, reader: TopicReader) -> None:
        """Follow `entries` until cancelled. Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`."""
        batch = asyncio.ensure_future(reader.get())
        try:
            while True:
                grown = asyncio.ensure_future(self.early.grown.wait())
                try:
                    await asyncio.wait({batch, grown}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    grown.cancel()
                await self._attach_early()
                if batch.done():
                    await self._take(batch.result())
                    batch = asyncio.ensure_future(reader.get())
        finally:
            batch.cancel()

    def metrics(self) -> Iterator[Metric]:
        """Yield metrics of the entries taken from `entries` and of those that wait above a gap."""
        early, waiting, dropped = self.early, len(self.early), self.early.dropped
        yield gauge("culm_live_waiting_logs", "logs whose next entry has not arrived", early.waiting_logs)
        yield gauge(
            "culm_live_longest_wait_seconds",
            "time for which the oldest log has waited for its next entry",
            early.longest_wait_s(),
        )
        yield gauge("culm_live_early_entries", "entries that wait for an earlier one of their log", waiting)
        yield from counters(
            ("culm_live_entries", "entries read from other connectors, by the topic entries", self.taken),
            (
                "culm_live_attached_entries",
                "entries from other connectors that had waited for an earlier one",
                self.attached,
            ),
            ("culm_live_dropped_entries", "early entries given up: they follow from the topic logs", dropped),
        )

    async def _take(self, batch: Batch) -> None:
        if not batch.messages:
            return
        records = [pair for message in batch.messages if (pair := self._foreign_entry(message)) is not None]
        pairs = [(record.entry, record.operation) for record, _ in records]
        checked = await self._pool.submit(pairs, verify_signature=self._verify_signatures) if pairs else []
        heads: dict[LogKey, list[SoundEntry]] = {}
        entries = []
        for (record, message), result in zip(records, checked, strict=True):
            if isinstance(result, CulmError):
                source = source_of(message)
                self._publisher.refused_record(result, source, record.entry, record.brought_by)
                continue
            ahead = heads.setdefault(result.log, [])
            if self._extends(result, ahead):
                ahead.append(result)
                entries.append(result)
            elif result.entry.seq_num > self._held.height(*result.log) + len(ahead) + 1:
                self.early.keep(result)
        commit = await self._hub.take(entries, batch.offsets)
        self.taken += len(commit.stored)

    async def _attach_early(self) -> None:
        """Index the early entries that extend the logs held by now."""
        entries: list[SoundEntry] = []
        for log in self.early.take_grown():
            ahead: list[SoundEntry] = []
            for checked in self.early.take_above(log, self._held.height(*log)):
                if not self._extends(checked, ahead):
                    break  # of another branch: `logs` decides which branch stays
                ahead.append(checked)
            entries += ahead
        if entries:
            commit = await self._hub.take(entries, {})
            self.taken += len(commit.stored)
            self.attached += len(commit.stored)

    def _foreign_entry(self, message: Message) -> tuple[EntryRecord, Message] | None:
        """Decode a record if its entry needs a check; returns None otherwise.

        The entry must come from another connector, belong to an indexed schema, and not be held yet according
        to its unverified place. A malformed record is reported as refused.
        """
        value = message.value()
        if value is not None and value.endswith(self._connector_id):
            return None  # our own: the connector's id is the last item, random for every run
        try:
            record = EntryRecord.decode(value)
        except CulmError as error:
            self._publisher.refused_record(error, source_of(message), value, None)
            return None
        if not record.schema_id or not self._keeps(record.schema_id):
            return None
        if len(record.operation) > self._max_payload_bytes:
            return None
        position = read_place(record.entry)
        if position is not None and position[2] <= self._held.height(*position[:2]):
            return None
        return record, message

    def _extends(self, checked: SoundEntry, ahead: Sequence[SoundEntry]) -> bool:
        """Return whether an entry extends its held log and the entries `ahead` of it in this batch."""
        public_key, log_id = checked.log
        height = self._held.height(public_key, log_id)

        def hash_at(seq_num: int) -> bytes | None:
            if seq_num <= height:
                return self._held.entry_hash(public_key, log_id, seq_num)
            position = seq_num - height - 1
            return ahead[position].hash if position < len(ahead) else None

        if checked.entry.seq_num != height + len(ahead) + 1:
            return False
        info = self._held.log_info(public_key, log_id)
        ended = height if info is not None and info.end_of_log and not ahead else None
        try:
            check_links(checked.entry, hash_at=hash_at, end_of_log_at=ended)
        except CulmError:
            return False
        return True
