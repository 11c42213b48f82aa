"""The results of a channel's step for its driver: events, messages to broadcast and messages to fetch.

Each event has a stable `kind` and names its message.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from culm_models.events import ReportedEvent
from culm_models.frozen import unfrozen
from culm_models.sds.wire.messages import HistoryEntry, MessageKind

OutgoingState: TypeAlias = Literal["unacknowledged", "possibly_acknowledged"]
"""The state of a message that waits for acknowledgement."""

Evidence: TypeAlias = Literal["causal_history", "bloom_filter"]
"""The evidence of an acknowledgement: a causal history, or filters of enough distinct senders."""


@dataclass(frozen=True, slots=True)
class SdsEvent(ReportedEvent):
    """Base class. `participant_id`: the hosted participant concerned; None: the channel as a whole."""

    message_id: str
    participant_id: str | None


@dataclass(frozen=True, slots=True)
class Sent(SdsEvent, kind="sent"):
    """A message of a hosted participant is sent for the first time; unless ephemeral, it is in the log now.

    `position`: its place in the log, counted from the channel's first message; None for ephemeral messages.
    """

    content: bytes
    lamport_timestamp: int | None
    position: int | None
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class Received(SdsEvent, kind="received"):
    """A new message with content arrived; it is delivered now or waits (`Missing`)."""

    sender_id: str
    message_kind: MessageKind
    lamport_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Delivered(SdsEvent, kind="delivered"):
    """A message is passed to the application: once for each id, parents before children.

    `position`: its place in the log, which is not always the end (insert, do not append); None for ephemeral
    messages. `gap`: ids of its causal history that were given up as lost. `retrieval_hint`: how others may
    fetch it, as far as known.
    """

    sender_id: str
    content: bytes
    lamport_timestamp: int | None
    position: int | None
    ephemeral: bool
    gap: tuple[str, ...] = ()
    retrieval_hint: bytes | None = None


@dataclass(frozen=True, slots=True)
class Missing(SdsEvent, kind="missing"):
    """The message, the sync or a store's head (message id "") refers to messages that are not held.

    `entries`: the messages that are not held and are fetched. `attempt` 1: first search; more: repeated
    searches.
    """

    entries: tuple[HistoryEntry, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class Lost(SdsEvent, kind="lost"):
    """A missing message did not arrive in time; nothing waits for it any more. A late copy is accepted.

    `waiting`: the messages that waited for it.
    """

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PossiblyAcknowledged(SdsEvent, kind="possibly_acknowledged"):
    """The filter of another sender contains a message of the participant; `evidence`: all such senders."""

    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acknowledged(SdsEvent, kind="acknowledged"):
    """A message of the participant reached others and is not re-sent any more. `evidence`: those others.

    `attempts`: the number of re-sends before.
    """

    by: Evidence
    evidence: tuple[str, ...]
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class GaveUp(SdsEvent, kind="gave_up"):
    """A message of the participant was re-sent `attempts` times without acknowledgement; it is given up.

    The messages of a participant that leaves are given up in the same way.
    """

    state: OutgoingState
    attempts: int


@dataclass(frozen=True, slots=True)
class SyncSent(SdsEvent, kind="sync_sent"):
    """A sync of the participant is sent."""

    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class SyncReceived(SdsEvent, kind="sync_received"):
    """A sync arrived; it was reviewed and is not kept."""

    sender_id: str
    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class RepairRequested(SdsEvent, kind="repair_requested"):
    """The participant requests a message from the channel (SDS-R), in its own message `carrier_id`."""

    carrier_id: str


@dataclass(frozen=True, slots=True)
class RepairAnswered(SdsEvent, kind="repair_answered"):
    """A message that others requested is broadcast again, byte for byte."""


@dataclass(frozen=True, slots=True)
class ClockAhead(SdsEvent, kind="clock_ahead"):
    """The log ends so far ahead of the clock that others would not accept the next message.

    Either the clock was ahead when those messages were sent, or it is behind now. Sending is refused until
    the clock is within `lamport_allowance_ms` again, or until `Channel.withdraw_ahead`.
    """

    lamport_timestamp: int
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class Withdrawn(SdsEvent, kind="withdrawn"):
    """A message that was sent far ahead of the time has left the log, as if it had never arrived."""

    sender_id: str
    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class Rejected(SdsEvent, kind="rejected"):
    """A received message was refused; the message id is "" if it could not be read."""

    code: str
    reason: str
    sender_id: str | None = None


# These events are created for every message, thousands at a time.
_SENT: Final = unfrozen(Sent)
_RECEIVED: Final = unfrozen(Received)
_DELIVERED: Final = unfrozen(Delivered)


def content_sent(
    message_id: str, participant_id: str, content: bytes, lamport_timestamp: int, position: int
) -> Sent:
    """Make the `Sent` event of a message that is in the log."""
    event: Sent = _SENT(message_id, participant_id, content, lamport_timestamp, position, False)
    event.__class__ = Sent
    return event


def content_received(message_id: str, sender_id: str, lamport_timestamp: int) -> Received:
    """Make the `Received` event of a message for the log."""
    event: Received = _RECEIVED(message_id, None, sender_id, "content", lamport_timestamp)
    event.__class__ = Received
    return event


def content_delivered(
    message_id: str,
    sender_id: str,
    content: bytes,
    lamport_timestamp: int,
    position: int,
    gap: tuple[str, ...],
    retrieval_hint: bytes | None,
) -> Delivered:
    """Make the `Delivered` event of a message that is in the log."""
    event: Delivered = _DELIVERED(
        message_id, None, sender_id, content, lamport_timestamp, position, False, gap, retrieval_hint
    )
    event.__class__ = Delivered
    return event


OutboundKind: TypeAlias = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""The reason of a broadcast: new message, re-send, sync, answer to a repair request, ephemeral message."""


@dataclass(frozen=True, slots=True)
class Outbound:
    """One message to broadcast in the channel.

    `participant_id`: the hosted participant that sends; for a `repair`, the participant that answers.
    """

    kind: OutboundKind
    participant_id: str
    message_id: str
    wire: bytes


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Missing messages to retrieve now: from the store, then from other peers.

    `attempt` counts from 1. Messages that are still missing are fetched again after growing waits until they
    are lost. Pass answers to `Channel.receive`.
    """

    entries: tuple[HistoryEntry, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class ChannelOutput:
    """All results of one step, each list in its order."""

    send: tuple[Outbound, ...] = ()
    events: tuple[SdsEvent, ...] = ()
    fetch: tuple[FetchRequest, ...] = ()


_OUTPUT: Final = unfrozen(ChannelOutput)


@dataclass(slots=True)
class Collected:
    """The results of a step while they are collected."""

    send: list[Outbound] = field(default_factory=list)
    events: list[SdsEvent] = field(default_factory=list)
    fetch: list[FetchRequest] = field(default_factory=list)

    def output(self) -> ChannelOutput:
        """Return the results so far."""
        output: ChannelOutput = _OUTPUT(tuple(self.send), tuple(self.events), tuple(self.fetch))
        output.__class__ = ChannelOutput
        return output
