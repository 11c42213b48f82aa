"""Entries of `entries` that stand above a gap in their log, kept until `logs` or a peer closes it.

Without them, an entry that was missed once would leave its log behind for as long as its author writes: each
later entry stands above the gap while `logs`, which is seconds behind, closes it entry by entry.

Memory is bounded per log and in all. At the bound of a log its oldest entries are dropped, since `logs`
brings those first. At the bound of all, the log that has waited longest loses its entries, since its gap is
the least likely to close.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from culm_connectors.logs.hub import Stored
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey

MAX_ENTRIES_PER_LOG = 1_024
MAX_BYTES_PER_LOG = 4 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
OVERHEAD_BYTES = 512
"""Memory that an entry takes beside its own bytes."""


@dataclass(slots=True)
class _WaitingLog:
    since_s: float
    entries: dict[int, SoundEntry] = field(default_factory=dict)
    """By sequence number, in the order in which they came."""
    size_bytes: int = 0


class EarlyEntries:
    """The early entries of one index, a subscriber of its hub; of one event loop."""

    def __init__(
        self,
        *,
        max_entries_per_log: int = MAX_ENTRIES_PER_LOG,
        max_bytes_per_log: int = MAX_BYTES_PER_LOG,
        max_bytes: int = MAX_BYTES,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        """Entries that were given up because of a bound; `logs` brings them."""
        self.grown = asyncio.Event()
        """Set while logs that have early entries have grown and `take_grown` was not called since."""
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
        """Number of logs that wait for an entry below the ones kept here."""
        return len(self._logs)

    def longest_wait_s(self) -> float:
        """Seconds for which the log that has waited longest waits; 0 without any. From any thread."""
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
        """Note the logs that have grown, whoever brought what they lacked."""
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
        """Take the entries out that follow each other directly above `height`; forget those at or below it.

        A log that still waits afterwards waits for another entry, so its time begins anew.
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
