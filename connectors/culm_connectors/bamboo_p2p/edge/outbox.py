"""The outbox: entries and payloads from peers that Kafka has not acknowledged, and their topics.

The gap-free beginning of a log goes to `entries`, in order, with payloads inside if they are small enough.
Entries beyond a gap go to `fragments`, and to `entries` once the gap is closed, whoever closed it. Payloads
that are not in `entries` go to `payloads`. The newest entry of a log waits a little for its payload.

All of it runs in the thread that works on the logs, and is stored in one transaction with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from culm_connectors.bamboo_p2p.edge.log_kinds import LogKind, LogKinds
from culm_connectors.bamboo_p2p.edge.tables import ENTRY, PAYLOAD, BambooEdgeTables, OutboxRow
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.kafka import ProducerRecord, record_size
from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.errors import CulmError
from culm_topics.logs.records import EntryRecord, FragmentRecord, fragment_key
from culm_topics.records import log_key

_MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DataOrigin:
    """The origin of an entry or payload: the peer's id (32 bytes), the connection's number and its name."""

    peer: bytes
    session: int
    connection: str = ""


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """An entry of a p2panda log whose payload is not an operation."""

    error: CulmError
    held: HeldEntry
    payload: bytes
    origin: DataOrigin


@dataclass(slots=True)
class DuePublication:
    """Records due to `entries` and `fragments`, and payloads as (hash, log, sequence number, bytes)."""

    entries: list[ProducerRecord] = field(default_factory=list)
    fragments: list[tuple[bytes, ProducerRecord]] = field(default_factory=list)
    """Records with the key of their log, which determines the partition."""
    payloads: list[tuple[bytes, LogKey, int, int]] = field(default_factory=list)
    published: dict[LogKey, int] = field(default_factory=dict)
    done: list[tuple[LogKey, int, int]] = field(default_factory=list)
    """Rows of the outbox to delete once Kafka has acknowledged all of it: log, sequence number, kind."""
    refused: list[RefusedOperation] = field(default_factory=list)
    size_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(
            self.entries or self.fragments or self.payloads or self.published or self.done or self.refused
        )

    @property
    def is_full(self) -> bool:
        """Whether further records have to wait for the next publication."""
        return self.size_bytes >= _MOST_BYTES or len(self.entries) + len(self.fragments) >= _MOST_ROWS


@dataclass(slots=True)
class _Weight:
    """Bytes that a row of the outbox counts to the connection that sent it, and since when (monotonic)."""

    connection: str
    size_bytes: int
    since_s: float


class KafkaOutbox:
    """The outbox of one folder. `own` is the origin recorded for entries without a known origin."""

    def __init__(
        self,
        store: FolderStore,
        tables: BambooEdgeTables,
        kinds: LogKinds,
        own: DataOrigin,
        connector_id: bytes,
        *,
        inline_bytes: int,
        payload_wait_s: float,
    ) -> None:
        self._store = store
        self._tables = tables
        self._kinds = kinds
        self._own = own
        self._connector_id = connector_id
        self._inline_bytes = inline_bytes
        self._payload_wait_s = payload_wait_s
        self._published = tables.published()
        self._noted: dict[tuple[LogKey, int], RangeSet] = {}
        self._weights: dict[tuple[LogKey, int, int], _Weight] = {}
        self._stopped: dict[LogKey, int] = {}
        """By p2panda log: the entry whose payload is not an operation, at which publishing stops."""
        self._waits: dict[LogKey, tuple[int, str, float]] = {}
        """By log: the newest entry, which waits for its payload; its connection; until when."""
        # At the start every log is checked: for waiting rows, and entries that may follow the published ones.
        self._due: dict[LogKey, None] = dict.fromkeys(store.logs)
        self.waiting_bytes: dict[str, int] = {}
        """By connection: bytes that it sent and that Kafka has not acknowledged."""

    @property
    def waiting_rows(self) -> int:
        """Number of entries and payloads received since the start that Kafka has not acknowledged."""
        return len(self._weights)

    @property
    def is_due(self) -> bool:
        """Whether there may be something to publish."""
        return bool(self._due)

    def published(self, log: LogKey) -> int:
        """Return the sequence number up to which a log is on `entries` without a gap."""
        return self._published.get(log, 0)

    def may_drop_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether Kafka has a held payload and the edge itself does not need it any longer."""
        if self._tables.is_waiting(log, seq_num):
            return False
        if self._store.flavour is YAMF:
            return True
        # The first payload determines the kind of the log, and p2panda's entries are published with payloads.
        is_published = self._kinds.of(log) is not LogKind.OPERATIONS or seq_num <= self.published(log)
        return seq_num > 1 and is_published

    # Incoming changes.

    def received(self, log: LogKey, seq_num: int, origin: DataOrigin) -> tuple[bool, bool]:
        """Note data of an entry from a peer. Returns whether the entry and whether its payload is new."""
        stored = self._store.entry(log, seq_num)
        if stored is None:
            return False, False
        size = stored.entry.payload_size
        has_payload = self._store.has_payload(log, seq_num)
        is_new = self._note(log, seq_num, ENTRY)
        is_new_payload = bool(size) and has_payload and self._note(log, seq_num, PAYLOAD)
        if is_new:
            if (waiting := self._waits.get(log)) is not None and waiting[0] < seq_num:
                del self._waits[log]
            if seq_num > self.published(log):
                self._put(log, OutboxRow(seq_num, ENTRY, origin.peer, origin.session), stored, origin)
            if size and not has_payload:
                self._tables.await_payload(stored.entry.payload_hash, log, seq_num)
                if size <= self._inline_bytes:
                    until_s = time.monotonic() + self._payload_wait_s
                    self._waits[log] = seq_num, origin.connection, until_s
        if is_new_payload:
            self._tables.await_no_more(stored.entry.payload_hash, log, seq_num)
            self._put(log, OutboxRow(seq_num, PAYLOAD, origin.peer, origin.session), stored, origin)
        if is_new or is_new_payload:
            self._due[log] = None
        return is_new, is_new_payload

    def _note(self, log: LogKey, seq_num: int, what: int) -> bool:
        noted = self._noted.setdefault((log, what), RangeSet())
        if seq_num in noted:
            return False
        noted.add(seq_num, seq_num + 1)
        return True

    def _put(self, log: LogKey, row: OutboxRow, stored: HeldEntry, origin: DataOrigin) -> None:
        self._tables.put_row(log, row)
        size = len(stored.entry_bytes) if row.what == ENTRY else stored.entry.payload_size
        # Large payloads do not count: their parts are on disk already.
        size = 0 if row.what == PAYLOAD and size > self._inline_bytes else size
        self._weights[log, row.seq_num, row.what] = _Weight(origin.connection, size, time.monotonic())
        waiting = self.waiting_bytes
        waiting[origin.connection] = waiting.get(origin.connection, 0) + size

    def seen(self, log: LogKey, seq_num: int, *, is_gap_free: bool) -> None:
        """Note that `entries` or `logs` has this held entry; with `is_gap_free`, all before it, too."""
        self._note(log, seq_num, ENTRY)
        published = self.published(log)
        if seq_num == published + 1 or (is_gap_free and seq_num > published):
            self._keep_published(log, seq_num)

    def seen_fragment(self, log: LogKey, seq_num: int) -> None:
        """Note that `fragments` has this held entry."""
        self._note(log, seq_num, ENTRY)
        if seq_num == self.published(log) + 1:
            self._due[log] = None

    def seen_payload(self, log: LogKey, seq_num: int) -> None:
        """Note that a topic has this payload."""
        self._note(log, seq_num, PAYLOAD)
        if seq_num == 1:
            self._due[log] = None  # it may determine the kind of the log

    # Ending the wait for payloads.

    def release(self, connection: str) -> None:
        """Stop waiting for payloads from a connection, which will not send them any more."""
        for log, (_, name, _) in tuple(self._waits.items()):
            if name == connection:
                del self._waits[log]
                self._due[log] = None

    def release_overdue(self) -> None:
        """Make entries due that have waited for their payloads for too long."""
        now_s = time.monotonic()
        for log, (_, _, until_s) in tuple(self._waits.items()):
            if until_s <= now_s:
                del self._waits[log]
                self._due[log] = None

    def forget(self, connection: str) -> None:
        """Forget the counts of a connection that has ended, and stop waiting for its payloads."""
        self.release(connection)
        self.waiting_bytes.pop(connection, None)

    # Publishing.

    def take(self) -> DuePublication:
        """Return a bounded part of what is due now. It stays in the outbox until it is `acknowledged`."""
        due = DuePublication()
        cut: list[LogKey] = []
        while self._due and not due.is_full:
            log = next(iter(self._due))
            del self._due[log]
            if not self._collect(log, due):
                cut.append(log)
        self._due.update(dict.fromkeys(cut))
        return due

    def _collect(self, log: LogKey, due: DuePublication) -> bool:
        """Add the due records of a log. Returns whether these are all of them."""
        kind = self._kinds.of(log)
        rows = self._tables.rows(log, _MOST_ROWS)
        origins = {row.seq_num: DataOrigin(row.peer, row.session) for row in rows}
        last = rows[-1].seq_num if len(rows) == _MOST_ROWS else MAX_SEQ_NUM
        published, inline = self.published(log), RangeSet()
        while kind is not LogKind.UNKNOWN and published < last and not due.is_full:
            record = self._entry_record(log, published + 1, kind, origins, inline, due)
            if record is None:
                break
            published += 1
            due.entries.append(record)
            due.size_bytes += record_size(record)
        if published > self.published(log):
            due.published[log] = published
        is_cut = due.is_full or len(rows) == _MOST_ROWS
        for row in rows:
            if self._collect_row(log, row, published, inline, due):
                due.done.append((log, row.seq_num, row.what))
        return not is_cut

    def _collect_row(
        self, log: LogKey, row: OutboxRow, published: int, inline: RangeSet, due: DuePublication
    ) -> bool:
        """Add what a row needs to `due`. Returns whether the row is done once `due` is acknowledged."""
        stored = self._store.entry(log, row.seq_num)
        if stored is None:
            return True
        if row.what == ENTRY:
            if row.seq_num > published:
                if self._is_to_join(log, row.seq_num, published):
                    return False
                key = self._key(log)
                record = FragmentRecord(stored.entry_bytes, stored.hash)
                produced = ProducerRecord(key=fragment_key(key, row.seq_num), value=record.encode())
                due.fragments.append((key, produced))
                due.size_bytes += record_size(produced)
            return True
        size = stored.entry.payload_size
        if row.seq_num in inline or not self._store.has_payload(log, row.seq_num):
            return True
        if row.seq_num > published and self._is_to_join(log, row.seq_num, published):
            return False
        # So that the edge recognises the chunks when it reads them from the topic.
        self._tables.await_payload(stored.entry.payload_hash, log, row.seq_num)
        due.payloads.append((stored.entry.payload_hash, log, row.seq_num, size))
        due.size_bytes += min(size, _MOST_BYTES)
        return True

    def _is_to_join(self, log: LogKey, seq_num: int, published: int) -> bool:
        """Whether an entry will go to `entries`: all before it are held, and nothing else stops it."""
        if self._store.end_of_held_entries(log, published + 1) <= seq_num:
            return False
        match self._kinds.of(log):
            case LogKind.UNKNOWN:
                return log in self._waits
            case LogKind.BARE:
                return True
        last = seq_num - 1 if self._waits_for_payload(log, seq_num) else seq_num
        is_sound = seq_num < self._stopped.get(log, MAX_SEQ_NUM + 1)
        return is_sound and self._store.payloads(log).covers(published + 1, last + 1)

    def _waits_for_payload(self, log: LogKey, seq_num: int) -> bool:
        waiting = self._waits.get(log)
        if waiting is None or waiting[0] != seq_num:
            return False
        if self._store.has_payload(log, seq_num):
            del self._waits[log]
            return False
        return True

    def _entry_record(
        self,
        log: LogKey,
        seq_num: int,
        kind: LogKind,
        origins: dict[int, DataOrigin],
        inline: RangeSet,
        due: DuePublication,
    ) -> ProducerRecord | None:
        """Return the next record of `entries`.

        Returns None if the entry is not held or waits for its payload, or if a p2panda log stops there.
        """
        stored = self._store.entry(log, seq_num)
        if stored is None or self._waits_for_payload(log, seq_num) or self._stopped.get(log) == seq_num:
            return None
        size, payload, schema_id = stored.entry.payload_size, b"", ""
        origin = origins.get(seq_num, self._own)
        if kind is LogKind.OPERATIONS and not self._store.has_payload(log, seq_num):
            return None
        if self._store.has_payload(log, seq_num) and (
            size <= self._inline_bytes or kind is LogKind.OPERATIONS
        ):
            payload = self._store.read_payload(log, seq_num, 0, size)
        if kind is LogKind.OPERATIONS:
            try:
                schema_id = self._kinds.schema_id(payload)
            except CulmError as error:
                # By the rules of p2panda the log stops here. Later entries go to `fragments` only.
                self._stopped[log] = seq_num
                due.refused.append(RefusedOperation(error, stored, payload, origin))
                return None
        if payload:
            inline.add(seq_num, seq_num + 1)
        record = EntryRecord(
            stored.entry_bytes, payload, schema_id, origin.peer, origin.session, self._connector_id
        )
        return ProducerRecord(key=self._key(log), value=record.encode())

    def acknowledged(self, due: DuePublication) -> list[float]:
        """Remove what Kafka has acknowledged. Returns how long each row has waited, in seconds."""
        for log, seq_num in due.published.items():
            if seq_num > self.published(log):
                self._keep_published(log, seq_num)
        by_log: dict[LogKey, list[tuple[int, int]]] = {}
        for log, number, what in due.done:
            by_log.setdefault(log, []).append((number, what))
        now_s = time.monotonic()
        waited: list[float] = []
        for log, pairs in by_log.items():
            self._tables.delete_rows(log, pairs)
            waited += [now_s - weight.since_s for weight in self._unweigh(log, pairs)]
        return waited

    def _unweigh(self, log: LogKey, pairs: Iterable[tuple[int, int]]) -> Iterable[_Weight]:
        for number, what in pairs:
            weight = self._weights.pop((log, number, what), None)
            if weight is None:
                continue
            if weight.connection in self.waiting_bytes:
                self.waiting_bytes[weight.connection] -= weight.size_bytes
            yield weight

    def _keep_published(self, log: LogKey, seq_num: int) -> None:
        self._published[log] = seq_num
        self._tables.keep_published(log, seq_num)
        # The entry after it may be published now.
        if self._store.entry(log, seq_num + 1) is not None:
            self._due[log] = None

    def _key(self, log: LogKey) -> bytes:
        return log_key(*log, self._store.flavour)
