"""What a participant of an SDS channel says (specification "Payloads"), whatever the bytes look like.

Ids of our own follow from what is said: they are unique for equal contents, and the same again when an input
is replayed. Values are checked where bytes come in (`codec`); here they are plain facts.
"""

from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Final, Literal, TypeAlias

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


_DIGEST_BYTES: Final = 8


def content_message_id(channel_id: str, sender_id: str, nonce: bytes, content: bytes) -> str:
    """SHA-256 in lower-case hex over channel, sender, nonce and content, each behind its length (8 bytes)."""
    parts = (channel_id.encode(), sender_id.encode(), nonce, content)
    return sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts])).hexdigest()


def message_digest(sender_id: str, content: bytes) -> bytes:
    """8 bytes that tell two messages apart that have the same id: of who said what.

    The Lamport timestamp is not in it: @waku/sds gives a message that it sends again a new one.
    """
    digest = blake2b(content, digest_size=_DIGEST_BYTES)
    digest.update(sender_id.encode())
    return digest.digest()
