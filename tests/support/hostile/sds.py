"""What hostile peers say in SDS channels, and remotes that wear an edge out within what is allowed.

Each generator is one attack. Edge tests say the frames over QUIC; tests of the job put what a connector makes
of them into a shard (`Shard.take`). Each remote is a coroutine or a context manager over real connections, so
that any address can be attacked: a driver's over memory, a connector's over Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from culm_connectors.transport import Address
from culm_models.sds.frames.messages import TOKEN_BYTES, Join, Leave, SdsMessage, Send
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import HistoryEntry, Message
from tests.support.sds.edge import Remote, remote


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


_FRAMES_AT_ONCE = 100


async def join_and_leave(
    attacker: Remote, pairs: int, *, channel_id: str = "room", hosted: bool = False, final: bool = False
) -> None:
    """Join a channel and leave it again, `pairs` times, without a wait for any answer.

    Returns when the connection has taken the frames or has ended; a paced edge takes them in its own time.
    """
    pair = (
        Join(channel_id, "spec", "attacker", hosted=hosted),
        Leave(channel_id, final),
    )
    for start in range(0, pairs, _FRAMES_AT_ONCE):
        if attacker.connection.close_reason is not None:
            return
        await attacker.say(*pair * min(_FRAMES_AT_ONCE, pairs - start))


@contextlib.asynccontextmanager
async def deaf_readers(
    address: Address, count: int, *, first: int = 100, channel_id: str = "room", hosted: bool = False
) -> AsyncIterator[list[Remote]]:
    """Members, with keys of their own from number `first` on, that ask for all the past and read nothing."""
    async with contextlib.AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(remote(address, first + number, listens=False))
            for number in range(count)
        ]
        for number, member in enumerate(members):
            await member.say(Join(channel_id, "spec", f"deaf {number}", hosted=hosted, cursor=b""))
        yield members
