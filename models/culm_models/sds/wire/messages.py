"""What a participant of an SDS channel says (specification "Payloads"), whatever the bytes look like.

Values are checked where bytes come in (`codec`); here they are plain facts.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Profile: TypeAlias = Literal["spec", "js", "nim"]
"""How a channel is written on the wire; every participant of one channel uses the same (see `profiles`)."""

MessageKind: TypeAlias = Literal["content", "sync", "ephemeral"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Another message of the channel by its id, how to fetch it, and who wrote it, as far as known.

    `sender_id` is what lets the writer of that message answer a repair request first (SDS-R).
    """

    message_id: str
    retrieval_hint: bytes | None = None
    sender_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel.

    `lamport_timestamp`: in the unit of the channel's profile; absent in ephemeral messages.
    `causal_history`: oldest first, as the sender's log ends. `bloom_filter`: the field's bytes as they are
    on the wire, in profile nim the nested container. `repair_request`: messages the sender lacks.
    """

    sender_id: str
    message_id: str
    channel_id: str
    lamport_timestamp: int | None = None
    causal_history: tuple[HistoryEntry, ...] = ()
    bloom_filter: bytes | None = None
    content: bytes | None = None
    repair_request: tuple[HistoryEntry, ...] = ()

    @property
    def kind(self) -> MessageKind:
        """Content, sync (a Lamport timestamp without content) or ephemeral (no Lamport timestamp)."""
        if self.lamport_timestamp is None:
            return "ephemeral"
        return "content" if self.content else "sync"
