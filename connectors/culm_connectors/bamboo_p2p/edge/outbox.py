"""What peers brought and Kafka does not have: what is due to which topic, by the rule of publishing.

The gap-free beginning of a log goes to `entries`, in order, with payloads inside where they fit. What stands
beyond a gap goes to `fragments`, and joins the others when the gap is closed, whoever closed it. Payloads
without a place in `entries` go to `payloads`. The newest entry of a log waits a little for its payload.

Everything here is done by the thread that works on the logs, and kept in one transaction with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from culm_connectors.bamboo_p2p.edge.log_kinds import LogKind, LogKinds
from culm_connectors.bamboo_p2p.edge.tables import ENTRY, PAYLOAD, EdgeTables, OutboxRow
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.kafka import ProducerRecord
from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.errors import CulmError
from culm_topics.logs.records import EntryRecord, FragmentRecord, fragment_key
from culm_topics.records import log_key, split_flavoured_log_key

_MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BroughtBy:
    """Who brought something: the peer's id (32 bytes), the number of the connection, and its name."""

    peer: bytes
    session: int
    connection: str = ""


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """An entry of one of p2panda's logs whose payload is no operation."""

    error: CulmError
    held: HeldEntry
    payload: bytes
    source: BroughtBy


@dataclass(slots=True)
class DuePublication:
    """What is due: records for `entries` and `fragments`, and payloads by (hash, log, number, size)."""

    entries: list[ProducerRecord] = field(default_factory=list)
    fragments: list[tuple[bytes, ProducerRecord]] = field(default_factory=list)
    """With the key of the log, which says the partition."""
    payloads: list[tuple[bytes, LogKey, int, int]] = field(default_factory=list)
    published: dict[bytes, int] = field(default_factory=dict)
    done: list[tuple[bytes, int, int]] = field(default_factory=list)
    """The rows of the outbox that are gone once all of it is acknowledged: log, number, what."""
    refused: list[RefusedOperation] = field(default_factory=list)
    size_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(
            self.entries or self.fragments or self.payloads or self.published or self.done or self.refused
        )

    @property
    def is_full(self) -> bool:
        """Whether further records are to wait for the next turn."""
        return self.size_bytes >= _MOST_BYTES or len(self.entries) + len(self.fragments) >= _MOST_ROWS


@dataclass(slots=True)
class _Weight:
    """What a row of the outbox weighs in the books of the connection that brought it, and since when."""

    connection: str
    size_bytes: int
    since_s: float


class KafkaOutbox:
    """The outbox of one folder. `own` is who is named for what nobody in particular brought."""

    def __init__(
        self,
        store: FolderStore,
        tables: EdgeTables,
        kinds: LogKinds,
        own: BroughtBy,
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
        """Where a log of p2panda's goes on with what is no operation."""
        self._waits: dict[LogKey, tuple[int, str, float]] = {}
        """By log: the newest entry, which waits for its payload; whose connection; until when."""
        # At the start everything is looked at: what waits, and what may join what is published.
        self._due: dict[LogKey, None] = dict.fromkeys(store.logs)
        self.waiting_bytes: dict[str, int] = {}
        """By connection: what it brought that Kafka has not acknowledged."""

    @property
    def waiting_rows(self) -> int:
        """Entries and payloads that peers brought in this run and Kafka has not acknowledged."""
        return len(self._weights)

    @property
    def is_due(self) -> bool:
        """Whether there may be something to publish."""
        return bool(self._due)

    def published(self, log: LogKey) -> int:
        """Up to where a log is on `entries` without a gap."""
        return self._published.get(self._key(log), 0)

    def may_drop_payload(self, log: LogKey, seq_num: int) -> bool:
        """Whether Kafka has a held payload, and nobody misses it but those who ask for it here."""
        if self._tables.is_waiting(self._key(log), seq_num):
            return False
        if self._store.flavour is YAMF:
            return True
        # The first payload tells whose log it is, and p2panda's go to `entries` with their payloads alone.
        is_published = self._kinds.of(log) is not LogKind.OPERATIONS or seq_num <= self.published(log)
        return seq_num > 1 and is_published

    # What comes in.

    def brought(self, log: LogKey, seq_num: int, source: BroughtBy) -> tuple[bool, bool]:
        """Something of an entry has changed, by a peer: whether entry and payload are new here."""
        held = self._store.entry(log, seq_num)
        if held is None:
            return False, False
        size = held.entry.payload_size
        has_payload = self._store.has_payload(log, seq_num)
        is_new = self._note(log, seq_num, ENTRY)
        is_new_payload = bool(size) and has_payload and self._note(log, seq_num, PAYLOAD)
        key = self._key(log)
        if is_new:
            if (waiting := self._waits.get(log)) is not None and waiting[0] < seq_num:
                del self._waits[log]
            if seq_num > self.published(log):
                self._put(log, OutboxRow(seq_num, ENTRY, source.peer, source.session), held, source)
            if size and not has_payload:
                self._tables.await_payload(held.entry.payload_hash, key, seq_num)
                if size <= self._inline_bytes:
                    until_s = time.monotonic() + self._payload_wait_s
                    self._waits[log] = seq_num, source.connection, until_s
        if is_new_payload:
            self._tables.await_no_more(held.entry.payload_hash, key, seq_num)
            self._put(log, OutboxRow(seq_num, PAYLOAD, source.peer, source.session), held, source)
        if is_new or is_new_payload:
            self._due[log] = None
        return is_new, is_new_payload

    def _note(self, log: LogKey, seq_num: int, what: int) -> bool:
        noted = self._noted.setdefault((log, what), RangeSet())
        if seq_num in noted:
            return False
        noted.add(seq_num, seq_num + 1)
        return True

    def _put(self, log: LogKey, row: OutboxRow, held: HeldEntry, source: BroughtBy) -> None:
        self._tables.put_row(self._key(log), row)
        size = len(held.entry_bytes) if row.what == ENTRY else held.entry.payload_size
        # Parts of large payloads are done with once they are on the disk.
        size = 0 if row.what == PAYLOAD and size > self._inline_bytes else size
        self._weights[log, row.seq_num, row.what] = _Weight(source.connection, size, time.monotonic())
        waiting = self.waiting_bytes
        waiting[source.connection] = waiting.get(source.connection, 0) + size

    def seen(self, log: LogKey, seq_num: int, *, is_gap_free: bool) -> None:
        """`entries` has this held entry, or `logs`: `is_gap_free`, so everything before it, too."""
        self._note(log, seq_num, ENTRY)
        published = self.published(log)
        if seq_num == published + 1 or (is_gap_free and seq_num > published):
            self._keep_published(log, seq_num)

    def seen_fragment(self, log: LogKey, seq_num: int) -> None:
        """`fragments` has this held entry."""
        self._note(log, seq_num, ENTRY)
        if seq_num == self.published(log) + 1:
            self._due[log] = None

    def seen_payload(self, log: LogKey, seq_num: int) -> None:
        """A topic has this payload."""
        self._note(log, seq_num, PAYLOAD)
        if seq_num == 1:
            self._due[log] = None  # it may tell the kind of the log

    # What has waited long enough.

    def release(self, connection: str) -> None:
        """A connection brings no payloads any more for what it brought, or said that it will not."""
        for log, (_, name, _) in tuple(self._waits.items()):
            if name == connection:
                del self._waits[log]
                self._due[log] = None

    def release_overdue(self) -> None:
        """What has waited for its payload for too long is due."""
        now_s = time.monotonic()
        for log, (_, _, until_s) in tuple(self._waits.items()):
            if until_s <= now_s:
                del self._waits[log]
                self._due[log] = None

    def forget(self, connection: str) -> None:
        """A connection is over: its books are closed."""
        self.release(connection)
        self.waiting_bytes.pop(connection, None)

    # What goes out.

    def take(self) -> DuePublication:
        """What is due now, up to some bound; it stays in the outbox until it is `acknowledged`."""
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
        """Add what is due of a log; whether that is all of it."""
        key = self._key(log)
        kind = self._kinds.of(log)
        rows = self._tables.rows(key, _MOST_ROWS)
        sources = {row.seq_num: BroughtBy(row.peer, row.session) for row in rows}
        last = rows[-1].seq_num if len(rows) == _MOST_ROWS else MAX_SEQ_NUM
        published, inline = self._published.get(key, 0), RangeSet()
        while kind is not LogKind.UNKNOWN and published < last and not due.is_full:
            record = self._entry_record(log, published + 1, kind, sources, inline, due)
            if record is None:
                break
            published += 1
            due.entries.append(record)
            due.size_bytes += record.size_bytes
        if published > self._published.get(key, 0):
            due.published[key] = published
        is_cut = due.is_full or len(rows) == _MOST_ROWS
        for row in rows:
            if self._collect_row(log, key, row, published, inline, due):
                due.done.append((key, row.seq_num, row.what))
        return not is_cut

    def _collect_row(
        self, log: LogKey, key: bytes, row: OutboxRow, published: int, inline: RangeSet, due: DuePublication
    ) -> bool:
        """Whether a row of the outbox is done with what is due, to which it may add."""
        held = self._store.entry(log, row.seq_num)
        if held is None:
            return True
        if row.what == ENTRY:
            if row.seq_num > published:
                if self._is_to_join(log, row.seq_num, published):
                    return False
                record = FragmentRecord(held.entry_bytes, held.hash)
                produced = ProducerRecord(fragment_key(key, row.seq_num), record.encode())
                due.fragments.append((key, produced))
                due.size_bytes += produced.size_bytes
            return True
        size = held.entry.payload_size
        if row.seq_num in inline or not self._store.has_payload(log, row.seq_num):
            return True
        if row.seq_num > published and self._is_to_join(log, row.seq_num, published):
            return False
        # What of it is read from the topic is known again by this.
        self._tables.await_payload(held.entry.payload_hash, key, row.seq_num)
        due.payloads.append((held.entry.payload_hash, log, row.seq_num, size))
        due.size_bytes += min(size, _MOST_BYTES)
        return True

    def _is_to_join(self, log: LogKey, seq_num: int, published: int) -> bool:
        """Whether an entry is about to go to `entries`: all before it is held, and nothing else stops it."""
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
        sources: dict[int, BroughtBy],
        inline: RangeSet,
        due: DuePublication,
    ) -> ProducerRecord | None:
        """The next record of `entries`; None where that is not held, or waits, or is nothing for p2panda."""
        held = self._store.entry(log, seq_num)
        if held is None or self._waits_for_payload(log, seq_num) or self._stopped.get(log) == seq_num:
            return None
        size, payload, schema_id = held.entry.payload_size, b"", ""
        source = sources.get(seq_num, self._own)
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
                # The rules of p2panda stop the log here; what follows goes nowhere but to `fragments`.
                self._stopped[log] = seq_num
                due.refused.append(RefusedOperation(error, held, payload, source))
                return None
        if payload:
            inline.add(seq_num, seq_num + 1)
        record = EntryRecord(
            held.entry_bytes, payload, schema_id, source.peer, source.session, self._connector_id
        )
        return ProducerRecord(self._key(log), record.encode())

    def acknowledged(self, due: DuePublication) -> list[float]:
        """Kafka has all of this: how long each piece has waited, in seconds."""
        for key, seq_num in due.published.items():
            _, log = split_flavoured_log_key(key)
            if seq_num > self.published(log):
                self._keep_published(log, seq_num)
        by_log: dict[bytes, list[tuple[int, int]]] = {}
        for key, number, what in due.done:
            by_log.setdefault(key, []).append((number, what))
        now_s = time.monotonic()
        waited: list[float] = []
        for key, pairs in by_log.items():
            self._tables.delete_rows(key, iter(pairs))
            _, log = split_flavoured_log_key(key)
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
        key = self._key(log)
        self._published[key] = seq_num
        self._tables.keep_published(key, seq_num)
        # What stands behind it may join.
        if self._store.entry(log, seq_num + 1) is not None:
            self._due[log] = None

    def _key(self, log: LogKey) -> bytes:
        return log_key(*log, self._store.flavour)
