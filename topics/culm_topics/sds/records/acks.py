"""`sds.acks`: how each channel stands, who is hosted in it, and how far each of their messages is heard.

Compacted: the last record of a key counts. A participant that leaves gets tombstones for its own row and its
messages'; of finished messages the newest 1,000 a participant stay. The job writes a row when a batch changes
it, so a row may be older than its channel's summary, but never newer.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from culm_models.sds.wire.messages import Profile
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    choice_size,
    dump,
    head_size,
    load_array,
    optional_uint_size,
    refuse_item,
    require,
    uint_size,
)
from culm_topics.sds.records.shape import PROFILES, id_size, require_id

AckState = Literal["unacknowledged", "possibly_acknowledged", "acknowledged", "gave_up"]
ACK_STATES: tuple[AckState, ...] = get_args(AckState)
MAX_EVIDENCE = 64
"""Senders that one row names; a message is acknowledged long before."""
_NAME = "sds.acks"


@dataclass(frozen=True, slots=True)
class SdsChannelRecord:
    """A channel's summary: what `culm sds status` shows. Everything counts as of `time_ms`.

    `lamport_timestamp` is in the profile's unit. `log` counts the ordered messages, `waiting` those with
    unmet dependencies, `missing` the ids they wait for, `lost` the ids given up since the channel began,
    `outgoing` the messages of all hosted participants that are not acknowledged. `event_number` is the last
    event's. `next_due_ms` is when the channel's timer has something to do, none when it is idle.
    """

    profile: Profile
    time_ms: int
    lamport_timestamp: int
    log: int
    waiting: int
    missing: int
    lost: int
    outgoing: int
    participants: int
    event_number: int
    next_due_ms: int | None = None

    def encode(self) -> bytes:
        """`[1, profile, time_ms, lamport_timestamp, log, waiting, missing, lost, outgoing, ...]`."""
        return dump(
            FORMAT,
            self.profile,
            self.time_ms,
            self.lamport_timestamp,
            self.log,
            self.waiting,
            self.missing,
            self.lost,
            self.outgoing,
            self.participants,
            self.event_number,
            self.next_due_ms,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SdsChannelRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, profile, *numbers = load_array(value, _NAME, 12)
        size = 2 + choice_size(_NAME, "profile", profile, PROFILES)
        size += sum(uint_size(_NAME, "a number", count) for count in numbers[:-1])
        size += optional_uint_size(_NAME, "next_due_ms", numbers[-1])
        check_size(value, size, _NAME)
        return SdsChannelRecord(profile, *numbers)


@dataclass(frozen=True, slots=True)
class SdsParticipantRecord:
    """A hosted participant of a channel: since when, and its outgoing buffer by state."""

    joined_ms: int
    unacknowledged: int = 0
    possibly_acknowledged: int = 0

    def encode(self) -> bytes:
        """`[1, joined_ms, unacknowledged, possibly_acknowledged]`."""
        return dump(FORMAT, self.joined_ms, self.unacknowledged, self.possibly_acknowledged)

    @staticmethod
    def decode(value: bytes | None) -> "SdsParticipantRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, *numbers = load_array(value, _NAME, 4)
        check_size(value, 2 + sum(uint_size(_NAME, "a number", number) for number in numbers), _NAME)
        return SdsParticipantRecord(*numbers)


@dataclass(frozen=True, slots=True)
class SdsAckRecord:
    """How far a message of a hosted participant is heard.

    `evidence` names the distinct senders whose bloom filter or causal history holds it, sorted by their
    bytes. `attempts` counts the times it was sent again. `next_due_ms` is when the next one is due, none when
    the state is final.
    """

    state: AckState
    evidence: tuple[str, ...] = ()
    attempts: int = 0
    next_due_ms: int | None = None

    def encode(self) -> bytes:
        """`[1, state, [sender_id, ...], attempts, next_due_ms]`."""
        require(len(self.evidence) <= MAX_EVIDENCE, _NAME, f"more than {MAX_EVIDENCE} senders")
        for sender_id in self.evidence:
            require_id(_NAME, "sender_id", sender_id, empty=True)
        return dump(FORMAT, self.state, self.evidence, self.attempts, self.next_due_ms)

    @staticmethod
    def decode(value: bytes | None) -> "SdsAckRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, state, evidence, attempts, next_due_ms = load_array(value, _NAME, 5)
        if type(evidence) is not list or len(evidence) > MAX_EVIDENCE:
            refuse_item(_NAME, "evidence", evidence, f"a list of at most {MAX_EVIDENCE} senders")
        size = (
            2
            + choice_size(_NAME, "state", state, ACK_STATES)
            + head_size(len(evidence))
            + sum(id_size(_NAME, "a sender", sender_id, empty=True) for sender_id in evidence)
            + uint_size(_NAME, "attempts", attempts)
            + optional_uint_size(_NAME, "next_due_ms", next_due_ms)
        )
        check_size(value, size, _NAME)
        return SdsAckRecord(state, tuple(evidence), attempts, next_due_ms)
