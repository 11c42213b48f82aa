"""`sds.acks`: how each channel stands, who is hosted in it, and how far each of their messages is heard.

Compacted: the last record of a key counts. A participant that leaves gets tombstones for its own row and its
messages'; of finished messages the newest 1,000 a participant stay. The job writes a row when a batch changes
it, so a row may be older than its channel's summary, but never newer.
"""

from typing import Annotated, Literal

from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import counted, rule
from culm_topics.sds.records.shape import SenderId, SomeProfile

AckState = Literal["unacknowledged", "possibly_acknowledged", "acknowledged", "gave_up"]
MAX_EVIDENCE = 64
"""Senders that one row names; a message is acknowledged long before."""


@record("sds.acks", "Key: u8 0, u16 length of the channel id, channel id.", rule="sds-channel")
class SdsChannelRecord(Record):
    """A channel's summary: what `culm sds status` shows. Everything counts as of `time_ms`.

    `lamport_timestamp` is in the profile's unit. `log` counts the ordered messages, `waiting` those with
    unmet dependencies, `missing` the ids they wait for, `lost` the ids given up since the channel began,
    `outgoing` the messages of all hosted participants that are not acknowledged. `event_number` is the last
    event's. `next_due_ms` is when the channel's timer has something to do, none when it is idle.
    """

    profile: SomeProfile
    time_ms: Annotated[int, "the channel's clock"]
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    log: Annotated[int, "ordered messages"]
    waiting: Annotated[int, "messages with unmet dependencies"]
    missing: Annotated[int, "ids they wait for"]
    lost: Annotated[int, "ids given up since the channel began"]
    outgoing: Annotated[int, "messages that are not acknowledged"]
    participants: Annotated[int, "that are hosted"]
    event_number: Annotated[int, "of the last event"]
    next_due_ms: Annotated[int | None, "when something is to be done; null: idle"] = None


@record("sds.acks", "Key: u8 1, u16 length, channel id, u16 length, participant id.", rule="sds-participant")
class SdsParticipantRecord(Record):
    """A hosted participant of a channel: since when, and its outgoing buffer by state."""

    joined_ms: int
    unacknowledged: int = 0
    possibly_acknowledged: int = 0


@record(
    "sds.acks", "Key: u8 2, u16 length, channel id, u16 length, participant id, message id.", rule="sds-ack"
)
class SdsAckRecord(Record):
    """How far a message of a hosted participant is heard.

    `evidence` names the distinct senders whose bloom filter or causal history holds it, sorted by their
    bytes. `attempts` counts the times it was sent again. `next_due_ms` is when the next one is due, none when
    the state is final.
    """

    state: Annotated[AckState, rule("ack-state")]
    evidence: Annotated[tuple[SenderId, ...], counted(MAX_EVIDENCE), "distinct senders that hold it"] = ()
    attempts: Annotated[int, "times it was sent again"] = 0
    next_due_ms: Annotated[int | None, "null: the state is final"] = None
