"""`chotki.vectors` and `chotki.sessions` as they stand: how far peers are, and which sessions there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from culm_models.chotki.errors import RecordTooLarge
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OFFSET_BITS
from culm_models.chotki.rdx import parse_vector
from culm_topics.chotki.records import HoldingRecord, SessionRecord, split_session_key, split_source_key
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import read_to_end

VECTORS_TOPIC: Final = "chotki.vectors"
SESSIONS_TOPIC: Final = "chotki.sessions"
NEEDS_ACTION: Final = frozenset({RecordTooLarge.code, "chotki.source_restored"})
"""Codes of warnings that last until somebody does something at a replica."""
OVER: Final = "SendNone"
"""The state of a session that is over."""


class Lag(NamedTuple):
    """What a peer lacks of a vector: packets, by the numbers of their sources, and in how many sources."""

    behind: int
    sources: int


@dataclass(frozen=True, slots=True)
class Held:
    """What somebody holds: source to progress, as it was then."""

    vector: Mapping[int, int]
    time_ms: int


@dataclass(slots=True)
class Holdings:
    """`peers` by their sources; `own` is what the deployment told last, None before its first epoch."""

    own: Held | None = None
    peers: dict[int, Held] = field(default_factory=dict)
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(VECTORS_TOPIC))

    def take(self, message: TopicMessage) -> None:
        """The next record of the topic."""
        try:
            held = None
            if message.value:
                record = HoldingRecord.decode(message.value)
                held = Held(parse_vector(record.vector), record.time_ms)
            if message.key == GLOBAL_VECTOR_KEY:
                self.own = held
            elif held is None:
                self.peers.pop(split_source_key(message.key), None)
            else:
                self.peers[split_source_key(message.key)] = held
        except RecordError as error:
            self.passed_over.add(message, error)

    def lag_by_source(self, src: int, vector: Mapping[int, int]) -> dict[int, int]:
        """Of each source that the peer lacks something of, how many packets of this vector it lacks."""
        held = self.peers[src].vector
        # A source begins with its object number 0, and the number of a field is no packet.
        return {
            one: (pro >> OFFSET_BITS) - (held[one] >> OFFSET_BITS if one in held else -1)
            for one, pro in sorted(vector.items())
            if pro > held.get(one, -1)
        }

    def lag(self, src: int, vector: Mapping[int, int]) -> Lag:
        """What the peer lacks of this vector."""
        behind = self.lag_by_source(src, vector)
        return Lag(sum(behind.values()), len(behind))


@dataclass(frozen=True, slots=True)
class PeerSession:
    """A session of an edge, as it told of it last."""

    edge: bytes
    session: int
    record: SessionRecord

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.record.state == OVER


@dataclass(slots=True)
class Sessions:
    """The sessions that the topic still tells of."""

    by_key: dict[bytes, PeerSession] = field(default_factory=dict)
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(SESSIONS_TOPIC))
    warnings: dict[tuple[str, str], PeerSession] = field(default_factory=dict)
    """By code and text: the session in which a warning that needs action came last."""
    _with_code: dict[str, set[bytes]] = field(default_factory=dict)

    @property
    def codes(self) -> dict[str, int]:
        """Of each code, of refusals and warnings alike, how many sessions had a line with it."""
        return {code: len(keys) for code, keys in sorted(self._with_code.items())}

    @property
    def sessions(self) -> list[PeerSession]:
        """By the time at which they were told of."""
        return sorted(self.by_key.values(), key=lambda one: (one.record.time_ms, one.edge, one.session))

    def take(self, message: TopicMessage) -> None:
        """The next record of the topic."""
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


def read_holdings(settings: KafkaSettings) -> Holdings:
    """Who holds what, by the topic's end of now. Raises `TopicMissing`, `KafkaFailure`."""
    holdings = Holdings()
    for message in read_to_end(settings, VECTORS_TOPIC):
        holdings.take(message)
    return holdings


def read_sessions(settings: KafkaSettings) -> Sessions:
    """All sessions, by the topic's end of now. Raises `TopicMissing`, `KafkaFailure`."""
    sessions = Sessions()
    for message in read_to_end(settings, SESSIONS_TOPIC):
        sessions.take(message)
    return sessions
