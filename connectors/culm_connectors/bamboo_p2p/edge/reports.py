"""Reports about peers: refused data on `rejected`, and the data that peers hold on `holdings`.

A peer holds what it has sent, until it reports a payload as unavailable (byte 6). Reports that wait for Kafka
are merged or bounded.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from culm_connectors.bamboo_p2p.edge.outbox import RefusedOperation
from culm_connectors.edge.feed import RefusedRecord
from culm_connectors.kafka import ProducerRecord
from culm_connectors.kafka.backlog import Backlog, BatchSender
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import ForkError
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.events import ConnectionDropped
from culm_models.bamboo_p2p.store import ForkProof
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import holding_records
from culm_topics.records import log_key, rejection

_MAX_WAITING: Final = 10_000
_MAX_WAITING_BYTES: Final = 8 * 1024 * 1024


_MAX_LOGS: Final = 200_000


class RefusalReports:
    """Writes to `rejected`. `counts` has the refusals of data from peers, by code."""

    def __init__(self, sender: BatchSender, kafka: KafkaSettings, flavour: HashFlavour) -> None:
        self.counts: Counter[str] = Counter()
        self._sender = sender
        self._flavour = flavour
        self._waiting = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        sender.add(kafka.topic("rejected"), self._waiting.take)

    def fork(self, log: LogKey, proof: ForkProof, peer: bytes) -> None:
        """Report a fork: a peer sent an entry that contradicts another one of its log. Both are the proof."""
        first, second = proof
        seq_num = decode_entry(second, self._flavour).seq_num
        self.counts[ForkError.code] += 1
        detail = f"entry {seq_num} is of another branch than what is held"
        self._add(ForkError.code, detail, log, peer=peer, entry=second, first=first, seq_num=seq_num)

    def violation(self, dropped: ConnectionDropped, peer: bytes) -> None:
        """Report a violation that ended a connection, with the data if the other end sent bogus evidence."""
        self.counts[dropped.code] += 1
        entries = dropped.evidence
        self._add(
            dropped.code,
            dropped.reason,
            dropped.log,
            peer=peer,
            entry=entries[-1] if entries else None,
            first=entries[0] if len(entries) > 1 else None,
        )

    def operation(self, refused: RefusedOperation) -> None:
        """Report an entry of a p2panda log whose payload is not an operation."""
        entry = refused.held.entry
        self.counts[refused.error.code] += 1
        self._add(
            refused.error.code,
            str(refused.error),
            (entry.public_key, entry.log_id),
            peer=refused.origin.peer,
            entry=refused.held.entry_bytes,
            payload=refused.payload,
            seq_num=entry.seq_num,
        )

    def record(self, refused: RefusedRecord) -> None:
        """Report a malformed record of a topic, or a record whose entry is malformed."""
        error = refused.error
        self._add(error.code, str(error), None, peer=None, entry=refused.value, source=refused.source)

    def _add(
        self,
        code: str,
        detail: str,
        log: LogKey | None,
        *,
        peer: bytes | None,
        entry: bytes | None = None,
        payload: bytes | None = None,
        first: bytes | None = None,
        seq_num: int | None = None,
        source: tuple[str, int, int] | None = None,
    ) -> None:
        record = rejection(
            code,
            detail,
            entry=entry,
            operation=payload,
            brought_by=peer,
            source=source,
            seq_num=seq_num,
            first=first,
        )
        key = b"" if log is None else log_key(*log, self._flavour)
        if not self._waiting.add(ProducerRecord(key=key, value=record.encode())):
            self._sender.dropped["rejected"] += 1


class HoldingReports:
    """New facts by peer and log: held entries, held payloads and unavailable payloads."""

    def __init__(self, flavour: HashFlavour) -> None:
        self.dropped = 0
        """Reports that were dropped because too many logs were waiting while Kafka was slow."""
        self._flavour = flavour
        self._new: dict[tuple[bytes, LogKey], tuple[RangeSet, RangeSet, RangeSet]] = {}

    def add(self, peer: bytes, log: LogKey, seq_num: int, *, entry: bool, payload: bool) -> None:
        """Note that a peer holds an entry or its payload."""
        ranges = self._of(peer, log)
        if ranges is None:
            return
        entries, payloads, missing = ranges
        if entry:
            entries.add(seq_num, seq_num + 1)
        if payload:
            payloads.add(seq_num, seq_num + 1)
            missing.remove(seq_num, seq_num + 1)

    def add_missing_payload(self, peer: bytes, log: LogKey, seq_num: int) -> None:
        """Note that a peer does not hold a payload, or no longer does."""
        ranges = self._of(peer, log)
        if ranges is not None:
            _, payloads, missing = ranges
            payloads.remove(seq_num, seq_num + 1)
            missing.add(seq_num, seq_num + 1)

    def _of(self, peer: bytes, log: LogKey) -> tuple[RangeSet, RangeSet, RangeSet] | None:
        ranges = self._new.get((peer, log))
        if ranges is None:
            if len(self._new) >= _MAX_LOGS:
                self.dropped += 1
                return None
            ranges = self._new[peer, log] = RangeSet(), RangeSet(), RangeSet()
        return ranges

    def take(self) -> list[ProducerRecord]:
        """Return the records of all new facts, and forget them."""
        taken, self._new = self._new, {}
        return [
            ProducerRecord(key=peer, value=record.encode())
            for (peer, log), ranges in taken.items()
            for record in holding_records(log_key(*log, self._flavour), *ranges)
        ]
