"""The way into the replicated logs of this edge, for entries from peers of any protocol and from topics.

The hub promises three steps for each entry, in this order:

1. *durable*: Kafka has acknowledged the entry on `entries`, or the entry was read from a topic;
2. *indexed*: it is in the index, in one transaction with the offsets that cover it;
3. *notified*: every subscribed protocol receives the checked entry, decoded once, and may send it on.

So nobody learns of an entry that a crash could lose, and nobody receives an entry before it can be read.
A protocol's driver knows the hub, never another driver.

Entries are produced before they count as stored. All else that goes to topics (proofs of forks, refusals,
receipts) is produced in batches a few times a second. The queues for it are bounded, and receipts merge while
they wait.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_connectors.kafka import ProducerRecord
from culm_connectors.kafka.backlog import Backlog, BatchSender
from culm_connectors.logs.index import Commit, IndexGap, IndexWriter
from culm_connectors.logs.index.commit import Offsets
from culm_connectors.logs.index.layout import Pair
from culm_connectors.logs.warm_start.claims import HeightClaims
from culm_models.bamboo import decode_entry
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord, ReceiptRecord
from culm_topics.records import log_key, rejection

logger = logging.getLogger(__name__)

_NO_SESSION = 0
_RECEIPT_ROWS = 1_000
_MAX_RECEIPTS = 500_000
_MAX_RECEIPTS_A_PEER = 125_000
_MAX_WAITING = 10_000
_MAX_WAITING_BYTES = 8 * 1024 * 1024
MAX_FAULTY_LOGS = 65_536


@dataclass(frozen=True, slots=True)
class Arrival:
    """A checked entry from a remote, to be stored; arrivals are stored in their order."""

    checked: SoundEntry
    remote: bytes
    session_id: int


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry from a remote that was refused, or bytes that do not decode as an entry."""

    code: str
    detail: str
    remote: bytes
    entry: bytes | None = None
    payload: bytes | None = None


class ReportedFaults:
    """The lowest position in each log at which its author contradicts itself and that was reported.

    A fork is reported once, however often it is received again. Only the `MAX_FAULTY_LOGS` logs that were
    looked up most recently are remembered; faults of other logs are reported again.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[bytes, int] = OrderedDict()

    def is_first(self, log_key: bytes, seq_num: int) -> bool:
        """Return whether to report a fault at this position; faults behind a reported one follow from it."""
        first = self._first.get(log_key)
        self._first[log_key] = seq_num if first is None else min(first, seq_num)
        self._first.move_to_end(log_key)
        if len(self._first) > MAX_FAULTY_LOGS:
            self._first.popitem(last=False)
        return first is None or seq_num < first


class LogPublisher:
    """Writes to `entries`, `rejected` and `receipts`."""

    def __init__(self, sender: BatchSender, kafka: KafkaSettings, connector_id: bytes) -> None:
        self.repeated_faults = 0
        self._sender = sender
        self._connector_id = connector_id
        self._entries_topic = kafka.topic("entries")
        self._rejected = Backlog(_MAX_WAITING, 2 * _MAX_WAITING_BYTES)
        self._forks = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        self._receipts: dict[bytes, dict[LogKey, int]] = {}
        self._receipt_count = 0
        self._faults = ReportedFaults()
        sender.add(self._entries_topic, self._forks.take)
        sender.add(kafka.topic("rejected"), self._rejected.take)
        sender.add(kafka.topic("receipts"), self._take_receipts)

    async def entries(self, arrivals: Sequence[Arrival]) -> None:
        """Produce entries from peers; returns when Kafka has acknowledged them. Raises `ProduceFailed`."""
        records = [
            self._entry_record(
                arrival.checked.entry_bytes,
                arrival.checked.payload_bytes,
                arrival.checked.schema_id,
                log_key(*arrival.checked.log),
                arrival.remote,
                arrival.session_id,
            )
            for arrival in arrivals
        ]
        await self._sender.producer.send(self._entries_topic, records)

    async def entries_again(
        self, key: bytes, pairs: Sequence[Pair], schema_id: str, brought_by: bytes
    ) -> None:
        """Produce entries that the index holds once more; returns when Kafka has acknowledged them.

        `key` is that of the records of their log. Raises `ProduceFailed`.
        """
        records = [
            self._entry_record(entry, payload, schema_id, key, brought_by, _NO_SESSION)
            for entry, payload in pairs
        ]
        await self._sender.producer.send(self._entries_topic, records)

    def _entry_record(
        self, entry: bytes, payload: bytes, schema_id: str, key: bytes, remote: bytes, session_id: int
    ) -> ProducerRecord:
        value = EntryRecord(entry, payload, schema_id, remote, session_id, self._connector_id)
        return ProducerRecord(key=key, value=value.encode())

    # Refusals.

    def refused(self, refusal: RefusedEntry) -> None:
        """Report an entry from a remote that was refused, with the reason."""
        position = _position_of(refusal.entry)
        self._reject(
            refusal.code, refusal.detail, refusal.entry, refusal.payload, position, brought_by=refusal.remote
        )

    def contradicted(self, refusal: RefusedEntry, fork: Callable[[], tuple[str, int]] | None = None) -> None:
        """Report an entry that contradicts its log, or that exceeds a quota.

        Only the first such position of a log is reported; `repeated_faults` counts the others. `fork` returns
        the entry's schema and session if the entry is of another branch; it is then produced for the job to
        decide.
        """
        position = key, seq_num = _position_of(refusal.entry)
        if seq_num is not None and not self._faults.is_first(key, seq_num):
            self.repeated_faults += 1
            return
        self._reject(
            refusal.code,
            refusal.detail,
            refusal.entry,
            refusal.payload,
            position,
            brought_by=refusal.remote,
        )
        if fork is not None and refusal.entry is not None and refusal.payload is not None:
            schema_id, session_id = fork()
            record = self._entry_record(
                refusal.entry, refusal.payload, schema_id, key, refusal.remote, session_id
            )
            if not self._forks.add(record):
                self._sender.dropped["forks"] += 1

    def withheld(self, code: str, detail: str, entry: bytes) -> None:
        """Report that a log is not sent from this held entry on; once per position in the log."""
        position = key, seq_num = _position_of(entry)
        if seq_num is not None and self._faults.is_first(key, seq_num):
            logger.warning("log %s is not sent on from entry %d: %s (%s)", key.hex(), seq_num, detail, code)
            self._reject(code, detail, entry, None, position, brought_by=None)

    def refused_record(
        self, error: CulmError, source: tuple[str, int, int], value: bytes | None, brought_by: bytes | None
    ) -> None:
        """Report a malformed record, or a record whose entry is malformed or invalid."""
        self._reject(
            error.code, str(error), value, None, _position_of(value), brought_by=brought_by, source=source
        )

    def gap(self, checked: SoundEntry, detail: str) -> None:
        """Report an entry of `logs` that is above a gap."""
        position = log_key(*checked.log), checked.entry.seq_num
        self._reject(
            IndexGap.code, detail, checked.entry_bytes, checked.payload_bytes, position, brought_by=None
        )

    def _reject(
        self,
        code: str,
        detail: str,
        entry: bytes | None,
        payload: bytes | None,
        position: tuple[bytes, int | None],
        *,
        brought_by: bytes | None,
        source: tuple[str, int, int] | None = None,
    ) -> None:
        size = len(entry or b"") + len(payload or b"")
        key, seq_num = position
        # If too many bytes wait, only the reasons are kept: half of the capacity is reserved for reasons.
        if self._rejected.size_bytes + size > _MAX_WAITING_BYTES:
            entry = payload = None
        record = rejection(
            code,
            detail,
            entry=entry,
            operation=payload,
            brought_by=brought_by,
            source=source,
            seq_num=seq_num,
        )
        if not self._rejected.add(ProducerRecord(key=key, value=record.encode())):
            self._sender.dropped["rejected"] += 1

    # Receipts.

    def receipts(self, remote: bytes, rows: Iterable[tuple[bytes, int, int]]) -> None:
        """Note log heights that a peer holds; they merge with heights that wait to be produced."""
        heights = self._receipts.setdefault(remote, {})
        for public_key, log_id, seq_num in rows:
            log = (public_key, log_id)
            before = heights.get(log)
            if before is None:
                if self._receipt_count >= _MAX_RECEIPTS or len(heights) >= _MAX_RECEIPTS_A_PEER:
                    self._sender.dropped["receipts"] += 1
                    continue
                self._receipt_count += 1
            if before is None or seq_num > before:
                heights[log] = seq_num

    def _take_receipts(self) -> list[ProducerRecord]:
        records = [
            ProducerRecord(key=remote, value=ReceiptRecord(rows).encode())
            for remote, heights in self._receipts.items()
            for rows in _cut([(*log, seq_num) for log, seq_num in heights.items()])
        ]
        self._receipts.clear()
        self._receipt_count = 0
        return records


def _position_of(entry: bytes | None) -> tuple[bytes, int | None]:
    """Return the log key and sequence number of an entry; (b"", None) if it does not decode."""
    if entry is None:
        return b"", None
    try:
        decoded = decode_entry(entry)
    except CulmError:
        return b"", None
    return log_key(decoded.public_key, decoded.log_id), decoded.seq_num


def _cut(rows: list[tuple[bytes, int, int]]) -> Iterable[tuple[tuple[bytes, int, int], ...]]:
    for start in range(0, len(rows), _RECEIPT_ROWS):
        yield tuple(rows[start : start + _RECEIPT_ROWS])


@dataclass(frozen=True, slots=True)
class Stored:
    """Entries that one transaction has put into the index."""

    entries: tuple[SoundEntry, ...]
    fresh: Sequence[SoundEntry]
    """The entries among them that remotes did not already count as held because of `blocks`."""
    replacing: tuple[SoundEntry, ...] = ()
    """The first authoritative entry of each log that was cut back: what followed there before is void."""


class Subscriber(Protocol):
    """Receives stored entries on the event loop, in the order of the transactions; must not block."""

    def on_stored(self, stored: Stored) -> None:
        """Handle entries that are durable and in the index."""
        ...


class Durable(Protocol):
    """Makes entries from peers durable."""

    async def entries(self, arrivals: Sequence[Arrival]) -> None:
        """Return when all of the entries are durable. Raises `ProduceFailed`."""
        ...


class LogHub:
    """The hub of one index. `claims` are the entries that remotes count as held before they are."""

    def __init__(self, durable: Durable, index: IndexWriter, claims: HeightClaims) -> None:
        self._durable = durable
        self._index = index
        self._claims = claims
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Notify a subscriber of entries stored from now on; subscribing again has no effect."""
        if subscriber not in self._subscribers:
            self._subscribers.append(subscriber)

    async def store(self, arrivals: Sequence[Arrival], sender: object = None) -> Sequence[SoundEntry]:
        """Store entries from peers, in this order; returns those that the index could not store.

        Those are on `entries` all the same, and the job decides about them. If the `sender` is a subscriber,
        it is not notified: the return value tells it enough. Raises `ProduceFailed`, `IndexDamaged`.
        """
        await self._durable.entries(arrivals)
        commit = await self._index.write(
            [arrival.checked for arrival in arrivals], brought_by=[arrival.remote for arrival in arrivals]
        )
        self._notify(commit, sender)
        return [*commit.conflicts, *commit.gaps]

    async def take(self, entries: Sequence[SoundEntry], offsets: Offsets, *, truth: bool = False) -> Commit:
        """Store entries from topics, with the offsets that cover them; `truth` may cut back another branch.

        Raises `IndexDamaged`.
        """
        commit = await self._index.write(entries, offsets, truth=truth)
        self._notify(commit)
        return commit

    def _notify(self, commit: Commit, sender: object = None) -> None:
        replacing: list[SoundEntry] = []
        for log, _ in commit.truncated:
            replacing += [checked for checked in commit.stored if checked.log == log][:1]
        stored = Stored(commit.stored, self._claims.arrived(commit.stored), tuple(replacing))
        for subscriber in self._subscribers:
            if subscriber is not sender:
                subscriber.on_stored(stored)
