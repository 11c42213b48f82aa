"""Payloads that topics bring apart from their entries, in chunks (`payloads`), in any order with these.

A chunk goes to every entry that lacks its payload. One that no entry here asks for is kept for a while: its
entry may be on its way. The oldest of these are dropped where they take too much; then `payloads` is read
from its start again when the connector starts the next time.
"""

from __future__ import annotations

from culm_connectors.bamboo_p2p.edge.from_topics.expected_payloads import ExpectedPayloads
from culm_connectors.bamboo_p2p.edge.tables import EdgeTables
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.store import HeldEntry
from culm_topics.records import log_key, split_flavoured_log_key


class AwaitedPayloads:
    """The entries of one folder that lack payloads, and the payloads that lack entries."""

    def __init__(
        self, store: FolderStore, tables: EdgeTables, expected: ExpectedPayloads, *, max_bytes: int
    ) -> None:
        self.has_dropped = False
        """Whether chunks were dropped that an entry may ask for yet."""
        self._store = store
        self._tables = tables
        self._expected = expected
        self._max_bytes = max_bytes
        self._unclaimed_bytes = tables.unclaimed_bytes()

    def entry(self, log: LogKey, held: HeldEntry) -> bool:
        """An entry came without its payload; whether that had come before, and is held now."""
        seq_num, payload_hash = held.entry.seq_num, held.entry.payload_hash
        if self._store.is_dropped(log, seq_num):
            return False
        if not held.entry.payload_size:
            if not self._store.has_payload(log, seq_num):
                self._store.put_unverified(log, seq_num, 0, b"")
                self._store.verify_payload(log, seq_num)
            return False
        if self._store.has_payload(log, seq_num):
            return False
        self._tables.await_payload(payload_hash, log_key(*log, self._store.flavour), seq_num)
        chunks = self._tables.claim(payload_hash)
        self._unclaimed_bytes -= sum(len(data) for _, data in chunks)
        is_whole = False
        for offset, data in chunks:
            is_whole = self._put(log, held, offset, data)
        if not is_whole:
            self._expected.expect(log, seq_num)
        return is_whole

    def chunk(self, payload_hash: bytes, offset: int, data: bytes) -> list[tuple[LogKey, int]]:
        """A chunk came: the entries whose payloads are held by it."""
        whole: list[tuple[LogKey, int]] = []
        awaiting = self._tables.awaiting(payload_hash)
        for key, seq_num in awaiting:
            _, log = split_flavoured_log_key(key)
            held = self._store.entry(log, seq_num)
            is_here = self._store.has_payload(log, seq_num) or self._store.is_dropped(log, seq_num)
            if held is None or is_here:
                continue
            if self._put(log, held, offset, data):
                whole.append((log, seq_num))
        if not awaiting:
            self._tables.put_unclaimed(payload_hash, offset, data)
            self._unclaimed_bytes += len(data)
            while self._unclaimed_bytes > self._max_bytes:
                self._unclaimed_bytes -= self._tables.drop_oldest_unclaimed()
                self.has_dropped = True
        return whole

    def _put(self, log: LogKey, held: HeldEntry, offset: int, data: bytes) -> bool:
        """Whether the payload is whole by this, and held."""
        seq_num, size = held.entry.seq_num, held.entry.payload_size
        if offset + len(data) > size:
            return False
        self._store.put_unverified(log, seq_num, offset, data)
        if not self._store.unverified(log, seq_num).covers(0, size):
            return False
        is_held = self._store.verify_payload(log, seq_num)
        if is_held:
            self._expected.came(log, seq_num)
        return is_held
