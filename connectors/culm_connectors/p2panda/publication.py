"""From peers to Kafka: entries before they count as stored, and what else is worth telling.

Entries are produced to `entries` and acknowledged there before they enter the index and go on to live
peers. Announcements, refusals and receipts are told in batches a few times a second; what waits for that is
bounded, and receipts merge while they wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from culm_connectors.index import IndexGap, IndexWriter
from culm_connectors.kafka import BatchProducer, Record
from culm_connectors.p2panda.backlog import Backlog
from culm_connectors.p2panda.quotas import Quotas
from culm_connectors.p2panda.reported_faults import ReportedFaults
from culm_connectors.p2panda.sessions import Arrival, LogKey
from culm_models.bamboo import decode_entry
from culm_models.errors import CulmError
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.events import Announced, Heights, LinkFailed, Rejected
from culm_models.p2panda.operation import peek_schema_id
from culm_topics.kafka import KafkaSettings
from culm_topics.records import EntryRecord, ReceiptRecord, RejectedRecord, log_key

FORK = "bamboo.fork"
_RECEIPT_ROWS = 1_000
_MAX_RECEIPTS = 500_000
_MAX_RECEIPTS_A_PEER = 125_000
_MAX_WAITING = 10_000
_MAX_WAITING_BYTES = 8 * 1024 * 1024
# The whole record of a refusal stays below the largest that Kafka takes.
_MAX_REFUSED_BYTES = 3 * 1024 * 1024
_DETAIL_LENGTH = 200


class Publication:
    """The writing side of a connector; the sink of its driver.

    `told` counts what was produced by topic, `dropped` what did not fit while Kafka was slow.
    """

    def __init__(
        self,
        producer: BatchProducer,
        index: IndexWriter,
        kafka: KafkaSettings,
        connector_id: bytes,
        quotas: Quotas,
    ) -> None:
        self._producer = producer
        self._index = index
        self._quotas = quotas
        self._connector_id = connector_id
        self._topics = {
            name: kafka.topic(name) for name in ("entries", "announcements", "rejected", "receipts")
        }
        self._announcements = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        self._rejected = Backlog(_MAX_WAITING, 2 * _MAX_WAITING_BYTES)
        self._forks = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        self._receipts: dict[bytes, dict[LogKey, int]] = {}
        self._receipt_count = 0
        self._faults = ReportedFaults()
        self.repeated_faults = 0
        self.told: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    async def store(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """Produce, wait for Kafka's acknowledgement, index; returns what the index could not take.

        What it could not take is on `entries` all the same: the truth path judges it.
        Raises ProduceFailed, IndexDamaged.
        """
        records = [self._entry_record(arrival) for arrival in arrivals]
        await self._producer.send(self._topics["entries"], records)
        self.told["entries"] += len(records)
        commit = await self._index.write(
            [arrival.checked for arrival in arrivals], brought_by=[arrival.remote for arrival in arrivals]
        )
        self._quotas.arrived(arrivals)
        lost = {id(checked) for checked in (*commit.conflicts, *commit.gaps)}
        return [arrival for arrival in arrivals if id(arrival.checked) in lost]

    def _entry_record(self, arrival: Arrival) -> Record:
        checked = arrival.checked
        value = EntryRecord(
            checked.entry_bytes,
            checked.operation_bytes,
            checked.schema_id,
            arrival.remote,
            arrival.session_id,
            self._connector_id,
        )
        return Record(log_key(*checked.log), value.encode())

    # What is told in batches.

    def announcement(self, event: Announced) -> None:
        """A peer's newest announcement, in the bytes that it sent."""
        self.announce_again(event.remote, event.raw)

    def announce_again(self, remote: bytes, raw: bytes | None) -> None:
        """Produce an announcement, or remove a peer's from the topic; only the newest of a peer waits."""
        self._add("announcements", self._announcements, Record(remote, raw), remote)

    def rejected(self, event: Rejected) -> None:
        """An entry that was refused, with the reason; a fork is also given to the truth path to judge.

        Where a log contradicts itself, or is over a quota, its first such place is told once:
        `repeated_faults` counts the rest.
        """
        if event.blameless and event.entry is not None:
            entry = decode_entry(event.entry)
            if not self._faults.is_news((entry.public_key, entry.log_id), entry.seq_num):
                self.repeated_faults += 1
                return
        self._reject(event.code, event.message, event.entry, event.operation, brought_by=event.remote)
        if event.code == FORK and event.entry is not None and event.operation is not None:
            self._fork(event, event.entry, event.operation)

    def refused(self, event: LinkFailed) -> None:
        """Bytes that were no message; they are not kept."""
        self._reject(event.code, event.message, None, None, brought_by=event.remote)

    def refused_record(
        self, error: CulmError, source: tuple[str, int, int], value: bytes | None, brought_by: bytes | None
    ) -> None:
        """A record of Kafka's that is none of ours, or holds an entry that is none."""
        self._reject(error.code, str(error), value, None, brought_by=brought_by, source=source)

    def gap(self, checked: CheckedEntry, detail: str) -> None:
        """An entry of `logs` that stands above a gap."""
        self._reject(IndexGap.code, detail, checked.entry_bytes, checked.operation_bytes, brought_by=None)

    def _reject(
        self,
        code: str,
        detail: str,
        entry: bytes | None,
        operation: bytes | None,
        *,
        brought_by: bytes | None,
        source: tuple[str, int, int] | None = None,
    ) -> None:
        size = len(entry or b"") + len(operation or b"")
        key, seq_num = _place(entry)
        # Where too many wait, the reasons are kept and the bytes are not: half of the room is for reasons.
        if size > _MAX_REFUSED_BYTES or self._rejected.size_bytes + size > _MAX_WAITING_BYTES:
            entry = operation = None
        record = RejectedRecord(code, detail[:_DETAIL_LENGTH], entry, operation, brought_by, source, seq_num)
        self._add("rejected", self._rejected, Record(key, record.encode()))

    def _fork(self, event: Rejected, entry: bytes, operation: bytes) -> None:
        value = EntryRecord(
            entry,
            operation,
            peek_schema_id(operation),
            event.remote,
            event.session_id or 0,
            self._connector_id,
        )
        self._add("forks", self._forks, Record(_place(entry)[0], value.encode()))

    def _add(self, name: str, backlog: Backlog, record: Record, key: bytes | None = None) -> None:
        if not backlog.add(record, key):
            self.dropped[name] += 1

    def heights(self, event: Heights) -> None:
        """Log heights that a peer has shown to hold."""
        self.receipts(event.remote, ((row[0], row[1], row[2]) for row in event.log_heights))

    def delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """Log heights that were delivered to a peer."""
        self.receipts(remote, ((key, log_id, seq) for (key, log_id), seq in heights.items()))

    def receipts(self, remote: bytes, rows: Iterable[tuple[bytes, int, int]]) -> None:
        """Note log heights of a peer; they merge with what waits."""
        held = self._receipts.setdefault(remote, {})
        for public_key, log_id, seq_num in rows:
            log = (public_key, log_id)
            before = held.get(log)
            if before is None:
                if self._receipt_count >= _MAX_RECEIPTS or len(held) >= _MAX_RECEIPTS_A_PEER:
                    self.dropped["receipts"] += 1
                    continue
                self._receipt_count += 1
            if before is None or seq_num > before:
                held[log] = seq_num

    async def tell_for_ever(self, interval_s: float = 0.1) -> None:
        """Produce what waits, again and again; run it as a task."""
        while True:
            await self.tell()
            await asyncio.sleep(interval_s)

    async def tell(self) -> None:
        """Produce what waits; what is not its turn yet when this is cancelled goes on waiting."""
        for name, take in (
            ("announcements", self._announcements.take),
            ("entries", self._forks.take),
            ("rejected", self._rejected.take),
            ("receipts", self._take_receipts),
        ):
            records = take()
            await self._producer.send(self._topics[name], records)
            self.told[name] += len(records)

    def _take_receipts(self) -> list[Record]:
        records = [
            Record(remote, ReceiptRecord(rows).encode())
            for remote, held in self._receipts.items()
            for rows in _cut([(*log, seq_num) for log, seq_num in held.items()])
        ]
        self._receipts.clear()
        self._receipt_count = 0
        return records


def _place(entry: bytes | None) -> tuple[bytes, int | None]:
    """The log key and sequence number of an entry, as far as it can be read."""
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
