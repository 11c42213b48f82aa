"""Applies records of `entries`, `logs`, `fragments` and `payloads` to an edge's folder.

New entries are verified like those of peers, whoever produced them. Records of other flavours are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from culm_connectors.bamboo_p2p.edge.awaited_payloads import AwaitedPayloads
from culm_connectors.bamboo_p2p.edge.log_kinds import LogKinds
from culm_connectors.bamboo_p2p.edge.metrics import BambooMetrics
from culm_connectors.bamboo_p2p.edge.outbox import KafkaOutbox
from culm_connectors.bamboo_p2p.edge.tables import BambooEdgeTables
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.edge.feed import RefusedRecord, apply_each
from culm_connectors.edge.intake import Intake
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.store import HeldEntry
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord, LogRecord, decode_fragment, decode_payload_chunk
from culm_topics.readers.batch import Partition
from culm_topics.records import split_flavoured_log_key

FOLLOWED: Final = ("logs", "entries", "fragments", "payloads")


@dataclass(slots=True)
class _Taken:
    """Number of new entries and payloads in a step."""

    entries: int = 0
    payloads: int = 0


class LogApplier:
    """Applies records to one folder. Implements `Applier`."""

    def __init__(
        self,
        peer: BambooPeer,
        tables: BambooEdgeTables,
        outbox: KafkaOutbox,
        awaited: AwaitedPayloads,
        kinds: LogKinds,
        intake: Intake,
        metrics: BambooMetrics,
        connector_id: bytes,
    ) -> None:
        self._peer = peer
        self._tables = tables
        self._outbox = outbox
        self._awaited = awaited
        self._kinds = kinds
        self._intake = intake
        self._metrics = metrics
        self._connector_id = connector_id
        self._takes: Mapping[str, Callable[[Peer, Message, _Taken], None]] = {
            "entries": self._take_entry,
            "logs": self._take_log_entry,
            "fragments": self._take_fragment,
            "payloads": self._take_chunk,
        }

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return the offsets that are stored in the folder."""
        return await self._peer.work(lambda _: self._tables.topics.kept())

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Verify and store records in one step of the thread that works on the logs.

        Returns the refused records.
        """
        take, taken = self._takes[name], _Taken()

        def step(peer: Peer) -> Sequence[RefusedRecord]:
            refused = apply_each(records, lambda message: take(peer, message, taken))
            if offsets is not None:
                self._tables.topics.keep(offsets)
            return refused

        refused = await self._peer.work(step)
        self._metrics.entries_followed += taken.entries
        self._metrics.payloads_followed += taken.payloads
        if self._outbox.is_due:
            self._intake.wake()
        return refused

    async def lost(self, topic: str) -> None:
        """Forget the offsets of a topic, so that the next start reads all that it has."""
        await self._peer.work(lambda _: self._tables.topics.forget(topic))

    # One method per topic. A `CulmError` gives the reason why a record is refused.

    def _take_entry(self, peer: Peer, message: Message, taken: _Taken) -> None:
        value = message.value()
        if value is not None and value.endswith(self._connector_id):
            return  # produced by this edge: the connector's id is the last item
        flavour, log = split_flavoured_log_key(message.key())
        if flavour is not peer.store.flavour:
            return
        record = EntryRecord.decode(value)
        seq_num = self._put(peer, log, record.entry, record.operation, taken)
        if seq_num is not None:
            self._seen(log, seq_num, record.schema_id, has_payload=bool(record.operation), gap_free=False)

    def _take_log_entry(self, peer: Peer, message: Message, taken: _Taken) -> None:
        flavour, log = split_flavoured_log_key(message.key())
        if flavour is not peer.store.flavour:
            return
        record = LogRecord.decode(message.value())
        seq_num = self._put(peer, log, record.entry, record.operation, taken)
        if seq_num is not None:
            self._seen(log, seq_num, record.schema_id, has_payload=bool(record.operation), gap_free=True)

    def _take_fragment(self, peer: Peer, message: Message, taken: _Taken) -> None:
        if message.value() is None:
            return
        flavour, log, _, record = decode_fragment(message.key(), message.value())
        if flavour is not peer.store.flavour:
            return
        seq_num = self._put(peer, log, record.entry, b"", taken)
        if seq_num is not None:
            self._outbox.seen_fragment(log, seq_num)

    def _take_chunk(self, peer: Peer, message: Message, taken: _Taken) -> None:
        if message.value() is None:
            return
        payload_hash, record = decode_payload_chunk(message.key(), message.value())
        if not peer.store.flavour.has_form(payload_hash):
            return
        whole = self._awaited.chunk(payload_hash, record.offset, record.data)
        for log, seq_num in whole:
            self._outbox.seen_payload(log, seq_num)
        taken.payloads += len(whole)
        if whole:
            peer.notify_connections(Changes(whole))

    def _put(self, peer: Peer, log: LogKey, entry_bytes: bytes, payload: bytes, taken: _Taken) -> int | None:
        """Store an entry, and its payload unless empty. Returns its number; None if the log forks there."""
        store = peer.store
        received = _decode(entry_bytes, store.flavour)
        entry = received.entry
        if (entry.public_key, entry.log_id) != log:
            raise RecordError(f"an entry of log {entry.log_id} under the key of another log")
        before = store.entry(log, entry.seq_num)
        if store.is_dropped(log, entry.seq_num):
            payload = b""  # a payload that retention dropped does not return by a record that is read later
        if before is None or (payload and not store.has_payload(log, entry.seq_num)):
            peer.add([NewEntry(entry_bytes, payload or None)])
            taken.entries += before is None
            taken.payloads += bool(payload)
            if store.entry(log, entry.seq_num) is None:
                return None  # of another branch: the proof is stored
        elif before.hash != received.hash:
            peer.add([NewEntry(entry_bytes)])
            return None
        if not payload and self._awaited.entry(log, received):
            self._outbox.seen_payload(log, entry.seq_num)
            taken.payloads += 1
        return entry.seq_num

    def _seen(self, log: LogKey, seq_num: int, schema_id: str, *, has_payload: bool, gap_free: bool) -> None:
        if seq_num == 1:
            self._kinds.note_schema(log, schema_id)
        self._outbox.seen(log, seq_num, is_gap_free=gap_free)
        if has_payload:
            self._outbox.seen_payload(log, seq_num)


def _decode(entry_bytes: bytes, flavour: HashFlavour) -> HeldEntry:
    """Decode an entry without verifying it. Raises `BambooError`."""
    return HeldEntry(decode_entry(entry_bytes, flavour), entry_bytes, flavour.hash(entry_bytes))
