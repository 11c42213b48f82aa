"""Payloads on the topic `payloads`: in chunks, apart from their entries and in any order with them.

A chunk goes to every entry that is missing its payload. An unclaimed chunk, which no entry needs yet, is kept
for a while, because its entry may arrive later. The oldest unclaimed chunks are dropped if they take too much
space.

While a payload is expected, peers that ask for it are not notified that it is unavailable, which would be
final for them. A log whose payloads do not arrive costs that wait once: no payload of it is expected again
before one arrives.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from culm_connectors.bamboo_p2p.edge.tables import BambooEdgeTables
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.store import HeldEntry

WAIT_S: Final = 2.0
_EXPECTED_MAX: Final = 10_000
_LOGS_MAX: Final = 10_000


class ExpectedPayloads:
    """Expected payloads, by log and sequence number. For the thread that works on the logs."""

    def __init__(self, wait_s: float = WAIT_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock_s = clock_s
        self._until_s: OrderedDict[tuple[LogKey, int], float] = OrderedDict()
        self._in_vain: OrderedDict[LogKey, None] = OrderedDict()
        """Logs of which an expected payload did not arrive."""

    def __contains__(self, payload: tuple[LogKey, int]) -> bool:
        return payload in self._until_s

    def expect(self, log: LogKey, seq_num: int) -> None:
        """Expect the payload of an entry that arrived without it."""
        if log not in self._in_vain and len(self._until_s) < _EXPECTED_MAX:
            self._until_s.setdefault((log, seq_num), self._clock_s() + self._wait_s)

    def came(self, log: LogKey, seq_num: int) -> None:
        """Expect a payload no longer, because it is held now."""
        self._until_s.pop((log, seq_num), None)
        self._in_vain.pop(log, None)

    def take_overdue(self) -> list[tuple[LogKey, int]]:
        """Return the payloads that are no longer expected and may be reported to peers as unavailable."""
        now_s = self._clock_s()
        overdue: list[tuple[LogKey, int]] = []
        while self._until_s:
            payload, until_s = next(iter(self._until_s.items()))
            if until_s > now_s:
                break
            del self._until_s[payload]
            overdue.append(payload)
            self._in_vain[payload[0]] = None
            if len(self._in_vain) > _LOGS_MAX:
                self._in_vain.popitem(last=False)
        return overdue


class AwaitedPayloads:
    """The entries of one folder that are missing payloads, and the payloads that are missing entries."""

    def __init__(
        self, store: FolderStore, tables: BambooEdgeTables, expected: ExpectedPayloads, *, max_bytes: int
    ) -> None:
        self.has_dropped = False
        """Whether chunks were dropped that an entry may still need."""
        self._store = store
        self._tables = tables
        self._expected = expected
        self._max_bytes = max_bytes
        self._unclaimed_bytes = tables.unclaimed_bytes()

    def entry(self, log: LogKey, stored: HeldEntry) -> bool:
        """Handle an entry without its payload. Returns whether earlier chunks complete the payload."""
        seq_num, payload_hash = stored.entry.seq_num, stored.entry.payload_hash
        if self._store.is_dropped(log, seq_num):
            return False
        if not stored.entry.payload_size:
            if not self._store.has_payload(log, seq_num):
                self._store.put_unverified(log, seq_num, 0, b"")
                self._store.verify_payload(log, seq_num)
            return False
        if self._store.has_payload(log, seq_num):
            return False
        self._tables.await_payload(payload_hash, log, seq_num)
        chunks = self._tables.claim(payload_hash)
        self._unclaimed_bytes -= sum(len(data) for _, data in chunks)
        is_whole = False
        for offset, data in chunks:
            is_whole = self._put(log, stored, offset, data)
        if not is_whole:
            self._expected.expect(log, seq_num)
        return is_whole

    def chunk(self, payload_hash: bytes, offset: int, data: bytes) -> list[tuple[LogKey, int]]:
        """Store a chunk. Returns the entries whose payloads are complete by it."""
        whole: list[tuple[LogKey, int]] = []
        awaiting = self._tables.awaiting(payload_hash)
        for log, seq_num in awaiting:
            stored = self._store.entry(log, seq_num)
            is_here = self._store.has_payload(log, seq_num) or self._store.is_dropped(log, seq_num)
            if stored is None or is_here:
                continue
            if self._put(log, stored, offset, data):
                whole.append((log, seq_num))
        if not awaiting:
            self._tables.put_unclaimed(payload_hash, offset, data)
            self._unclaimed_bytes += len(data)
            while self._unclaimed_bytes > self._max_bytes:
                self._unclaimed_bytes -= self._tables.drop_oldest_unclaimed()
                self.has_dropped = True
        return whole

    def _put(self, log: LogKey, stored: HeldEntry, offset: int, data: bytes) -> bool:
        """Store a chunk for an entry. Returns whether the payload is complete by it, and held."""
        seq_num, size = stored.entry.seq_num, stored.entry.payload_size
        if offset + len(data) > size:
            return False
        self._store.put_unverified(log, seq_num, offset, data)
        if not self._store.unverified(log, seq_num).covers(0, size):
            return False
        is_held = self._store.verify_payload(log, seq_num)
        if is_held:
            self._expected.came(log, seq_num)
        return is_held
