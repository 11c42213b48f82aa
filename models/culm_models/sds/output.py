"""What a step of a channel gives its driver: messages to broadcast, events to report, messages to fetch."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from culm_models.frozen import unfrozen
from culm_models.sds.events import Event
from culm_models.sds.wire.messages import HistoryEntry

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
