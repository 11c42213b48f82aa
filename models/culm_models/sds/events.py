"""What a step of a channel gives its driver: events to report, messages to broadcast and messages to fetch.

Each event has a stable `kind` and names its message.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from culm_models.events import ReportedEvent
from culm_models.frozen import unfrozen
from culm_models.sds.wire.messages import HistoryEntry, MessageKind

OutgoingState: TypeAlias = Literal["unacknowledged", "possibly_acknowledged"]
"""What is known of a message that waits to be acknowledged."""

Evidence: TypeAlias = Literal["causal_history", "bloom_filter"]
"""What acknowledged it: a causal history that names it, or the filters of enough distinct senders."""


@dataclass(frozen=True, slots=True)
class Event(ReportedEvent):
    """The base. `participant_id`: the hosted participant concerned; None: the channel as a whole."""

    message_id: str
    participant_id: str | None


@dataclass(frozen=True, slots=True)
class Sent(Event, kind="sent"):
    """A message of a hosted participant goes out for the first time; unless ephemeral it is in the log now.

    `position`: its place in the log, counted from the channel's first message; None for ephemeral ones.
    """

    content: bytes
    lamport_timestamp: int | None
    position: int | None
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class Received(Event, kind="received"):
    """A message with content has arrived that was not known; it is delivered now or waits (`Missing`)."""

    sender_id: str
    message_kind: MessageKind
    lamport_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Delivered(Event, kind="delivered"):
    """A message is handed to the application: once for each id, parents before children.

    `position`: where it stands in the log, which is not always the end (insert, do not append); None for
    ephemeral ones. `gap`: ids of its causal history that were given up as lost. `retrieval_hint`: how
    others may fetch it, as far as known.
    """

    sender_id: str
    content: bytes
    lamport_timestamp: int | None
    position: int | None
    ephemeral: bool
    gap: tuple[str, ...] = ()
    retrieval_hint: bytes | None = None


@dataclass(frozen=True, slots=True)
class Missing(Event, kind="missing"):
    """The message, or the sync, or the head named by a store (message id ""), refers to messages not held.

    `entries`: those that are not held; they are fetched. `attempt` 1: found now; more: asked for again.
    """

    entries: tuple[HistoryEntry, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class Lost(Event, kind="lost"):
    """A missing message has not come for so long that nothing waits for it any more; a late copy is taken.

    `waiting`: the messages that waited for it.
    """

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PossiblyAcknowledged(Event, kind="possibly_acknowledged"):
    """The filter of one more sender holds a message of the participant: `evidence` are those senders."""

    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Acknowledged(Event, kind="acknowledged"):
    """A message of the participant reached others: it is not re-sent any more. `evidence`: by whom.

    `attempts`: how often it was sent again before.
    """

    by: Evidence
    evidence: tuple[str, ...]
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class GaveUp(Event, kind="gave_up"):
    """A message of the participant was sent `attempts` times and not acknowledged; it is not sent again.

    Also what becomes of the messages of a participant that leaves.
    """

    state: OutgoingState
    attempts: int


@dataclass(frozen=True, slots=True)
class SyncSent(Event, kind="sync_sent"):
    """A sync of the participant goes out."""

    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class SyncReceived(Event, kind="sync_received"):
    """A sync has arrived; it was reviewed and is not kept."""

    sender_id: str
    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class RepairRequested(Event, kind="repair_requested"):
    """The participant asks the channel for a message (SDS-R), by the message `carrier_id` of its own."""

    carrier_id: str


@dataclass(frozen=True, slots=True)
class RepairAnswered(Event, kind="repair_answered"):
    """A message that others asked for is broadcast again, byte by byte as it was."""


@dataclass(frozen=True, slots=True)
class ClockAhead(Event, kind="clock_ahead"):
    """The log ends so far ahead of the clock that others would not take what follows it.

    Either the clock was ahead when those messages were sent, or it is behind now. Sending is refused until
    the clock is within `lamport_allowance_ms` again, or until `Channel.withdraw_ahead`.
    """

    lamport_timestamp: int
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class Withdrawn(Event, kind="withdrawn"):
    """A message that was sent far ahead of the time is not in the log any more, as if it had never come."""

    sender_id: str
    lamport_timestamp: int


@dataclass(frozen=True, slots=True)
class Rejected(Event, kind="rejected"):
    """Something received was refused; the message id is "" where it could not be read."""

    code: str
    reason: str
    sender_id: str | None = None


# The events of every message: made by the thousand.
_SENT: Final = unfrozen(Sent)
_RECEIVED: Final = unfrozen(Received)
_DELIVERED: Final = unfrozen(Delivered)


def content_sent(
    message_id: str, participant_id: str, content: bytes, lamport_timestamp: int, position: int
) -> Sent:
    """`Sent` of a message that is in the log."""
    event: Sent = _SENT(message_id, participant_id, content, lamport_timestamp, position, False)
    event.__class__ = Sent
    return event


def content_received(message_id: str, sender_id: str, lamport_timestamp: int) -> Received:
    """`Received` of a message for the log."""
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
    """`Delivered` of a message that is in the log."""
    event: Delivered = _DELIVERED(
        message_id, None, sender_id, content, lamport_timestamp, position, False, gap, retrieval_hint
    )
    event.__class__ = Delivered
    return event


OutboundKind: TypeAlias = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""Why it is broadcast: first time, re-sent, a sync, the answer to a repair request, or an ephemeral one."""


@dataclass(frozen=True, slots=True)
class Outbound:
    """One message to broadcast in the channel.

    `participant_id`: the hosted participant that speaks; of a `repair`, the writer of the message.
    """

    kind: OutboundKind
    participant_id: str
    message_id: str
    wire: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Messages that are missing and to be retrieved now: from the store, then from other peers.

    `attempt` counts from 1; what is still missing comes again, ever later, until it is lost. Answers go
    into `Channel.receive`.
    """

    entries: tuple[HistoryEntry, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class ChannelOutput:
    """Everything that one step caused, each list in its order."""

    send: tuple[Outbound, ...] = ()
    events: tuple[Event, ...] = ()
    fetch: tuple[Fetch, ...] = ()


_OUTPUT: Final = unfrozen(ChannelOutput)


@dataclass(slots=True)
class Collected:
    """An `ChannelOutput` while it comes about."""

    send: list[Outbound] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    fetch: list[Fetch] = field(default_factory=list)

    def output(self) -> ChannelOutput:
        """All of it, as it is now."""
        output: ChannelOutput = _OUTPUT(tuple(self.send), tuple(self.events), tuple(self.fetch))
        output.__class__ = ChannelOutput
        return output
