"""What hostile peers say in SDS channels, as frames of the edge protocol: for tests of the job and of edges.

Each generator is one attack. Edge tests say the frames over QUIC; tests of the job put what a connector makes
of them into a shard (`Shard.take`).
"""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.sds.frames.messages import TOKEN_BYTES, Join, Leave, SdsMessage, Send
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import HistoryEntry, Message


def big_filter_joins(
    count: int, *, prefix: str = "big", capacity: int = 1_000_000, error_rate: float = 1e-6
) -> Iterator[Join]:
    """Hosted joins of so many channels, each of which asks for a filter of some MiB."""
    settings: dict[str, int | float | str | bool] = {
        "bloom_capacity": capacity,
        "bloom_error_rate": error_rate,
    }
    for number in range(count):
        yield Join(f"{prefix}-{number}", "spec", f"guest-{number}", hosted=True, settings=settings)


def take_over(channel_id: str, victim: str) -> Iterator[Join | Send | Leave]:
    """Join as somebody else's hosted participant from the beginning, speak as it, and end it."""
    yield Join(channel_id, "spec", victim, hosted=True, cursor=b"")
    yield Send(channel_id, bytes(TOKEN_BYTES - 1) + b"\x01", b"I am not who I say")
    yield Leave(channel_id, final=True)


def forged_messages(channel_id: str, victim: str, count: int, *, lamport: int) -> Iterator[SdsMessage]:
    """Content, syncs and ephemeral messages under another's sender id, by a full participant.

    The first one is named before by a message of the forger's own, so that it is missed and asked for.
    """

    def wire(message_id: str, sender_id: str, content: bytes | None, at: int | None, *named: str) -> bytes:
        history = tuple(HistoryEntry(name) for name in named)
        return encode(
            Message(sender_id, message_id, channel_id, at, causal_history=history, content=content), "spec"
        )

    yield SdsMessage(channel_id, wire("bait", "forger", b"see forged-0", lamport, "forged-0"))
    for number in range(count):
        content = b"forged %d" % number
        yield SdsMessage(channel_id, wire(f"forged-{number}", victim, content, lamport + number))
        yield SdsMessage(channel_id, wire(f"forged-sync-{number}", victim, None, lamport + number))
        yield SdsMessage(channel_id, wire(f"forged-now-{number}", victim, content, None))


def another_profile_first(channel_id: str, *, lamport: int) -> Iterator[Join | SdsMessage]:
    """Join in another profile than the others use, and speak before they do."""
    yield Join(channel_id, "js", "early-bird")
    message = Message("early-bird", "first", channel_id, lamport, content=b"mine")
    yield SdsMessage(channel_id, encode(message, "js"))
