"""The present contents of `chotki.vectors` and `chotki.sessions`: the progress of peers, and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from culm_models.chotki.errors import RecordTooLarge
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OFFSET_BITS
from culm_models.chotki.rdx import parse_vector
from culm_topics.chotki.records import SessionRecord, VectorRecord, split_session_key, split_source_key
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import read_to_end

VECTORS_TOPIC: Final = "chotki.vectors"
SESSIONS_TOPIC: Final = "chotki.sessions"
NEEDS_ACTION: Final = frozenset({RecordTooLarge.code, "chotki.source_restored"})
"""Codes of warnings that last until an operator acts at a replica."""
OVER: Final = "SendNone"
"""The state of a session that has ended."""


class Lag(NamedTuple):
    """The part of a vector that a peer is missing: number of packets, and number of sources."""

    behind: int
    sources: int


@dataclass(frozen=True, slots=True)
class ReportedVector:
    """The progress that a replica holds, by source, at a time."""

    vector: Mapping[int, int]
    time_ms: int


@dataclass(slots=True)
class VectorTable:
    """`peers` by their sources; `own` is the deployment's last report, None before its first epoch."""

    own: ReportedVector | None = None
    peers: dict[int, ReportedVector] = field(default_factory=dict)
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(VECTORS_TOPIC))

    def take(self, message: TopicMessage) -> None:
        """Apply the next record of the topic."""
        try:
            holding = None
            if message.value:
                record = VectorRecord.decode(message.value)
                holding = ReportedVector(parse_vector(record.vector), record.time_ms)
            if message.key == GLOBAL_VECTOR_KEY:
                self.own = holding
            elif holding is None:
                self.peers.pop(split_source_key(message.key), None)
            else:
                self.peers[split_source_key(message.key)] = holding
        except RecordError as error:
            self.passed_over.add(message, error)

    def lag_by_source(self, src: int, vector: Mapping[int, int]) -> dict[int, int]:
        """Return the number of packets of this vector that the peer is missing, by source."""
        peer_vector = self.peers[src].vector
        # A source begins with its object number 0, and the number of a field is not a packet.
        return {
            source: (pro >> OFFSET_BITS)
            - (peer_vector[source] >> OFFSET_BITS if source in peer_vector else -1)
            for source, pro in sorted(vector.items())
            if pro > peer_vector.get(source, -1)
        }

    def lag(self, src: int, vector: Mapping[int, int]) -> Lag:
        """Return the peer's lag behind this vector."""
        behind = self.lag_by_source(src, vector)
        return Lag(sum(behind.values()), len(behind))


@dataclass(frozen=True, slots=True)
class PeerSession:
    """The last report of an edge about a session."""

    edge: bytes
    session: int
    record: SessionRecord

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state == OVER


@dataclass(slots=True)
class Sessions:
    """The sessions in the topic."""

    by_key: dict[bytes, PeerSession] = field(default_factory=dict)
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(SESSIONS_TOPIC))
    warnings: dict[tuple[str, str], PeerSession] = field(default_factory=dict)
    """The last session with a warning that needs action, by code and text."""
    _with_code: dict[str, set[bytes]] = field(default_factory=dict)

    @property
    def codes(self) -> dict[str, int]:
        """Number of sessions that had a line with each code, of refusals and warnings alike."""
        return {code: len(keys) for code, keys in sorted(self._with_code.items())}

    @property
    def sessions(self) -> list[PeerSession]:
        """The sessions by the time of their last report."""
        return sorted(
            self.by_key.values(), key=lambda session: (session.record.time_ms, session.edge, session.session)
        )

    def take(self, message: TopicMessage) -> None:
        """Apply the next record of the topic."""
        try:
            edge, session = split_session_key(message.key)
            record = SessionRecord.decode(message.value)
            self.by_key[message.key] = PeerSession(edge, session, record)
            if record.code in NEEDS_ACTION and record.reason != record.code:
                self.warnings[record.code, record.reason] = self.by_key[message.key]
            if record.code:
                self._with_code.setdefault(record.code, set()).add(message.key)
        except RecordError as error:
            self.passed_over.add(message, error)


def read_holdings(settings: KafkaSettings) -> VectorTable:
    """Read what every peer holds, up to the topic's present end. Raises `TopicMissing`, `KafkaFailure`."""
    holdings = VectorTable()
    for message in read_to_end(settings, VECTORS_TOPIC):
        holdings.take(message)
    return holdings


def read_sessions(settings: KafkaSettings) -> Sessions:
    """Read all sessions, up to the topic's present end. Raises `TopicMissing`, `KafkaFailure`."""
    sessions = Sessions()
    for message in read_to_end(settings, SESSIONS_TOPIC):
        sessions.take(message)
    return sessions
