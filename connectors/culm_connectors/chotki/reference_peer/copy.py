"""Copies the state of a replica by one session that reads and writes nothing (reference 10.1, 10.3).

The session announces an empty vector and the mode *read*. So the replica sends its whole state, receives
neither D nor V, and keeps no trace of the session.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from culm_connectors.chotki.errors import CopyIncomplete
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import READ, trace_pair
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.rdx.version_vector import entries_beyond
from culm_models.chotki.replica import Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import MemoryStore

_READ_BYTES = 256 * 1024
_SESSION = "copy"
_FIRST_SRC = 1 << 32
_LAST_SRC = (1 << 40) - 1


@dataclass(frozen=True, slots=True)
class ReplicaCopy:
    """The state of a replica at the time of the session.

    `store`: values by key, including its vectors. `t` is its own entry. `unreadable`: fields that were left
    out because their values do not parse, by ID and type. `received_bytes` is counted by the transport.
    """

    store: dict[bytes, bytes]
    t: Id
    traces: str
    unreadable: list[tuple[Id, str]]
    received_bytes: int


async def copy_replica(
    channel: ByteChannel, *, silence_s: float = 60.0, progress: Callable[[int], None] = lambda _: None
) -> ReplicaCopy:
    """Read the whole state of the replica at the other end into memory.

    `progress` receives the number of received bytes. Raises `CopyIncomplete` if the replica ends the session
    too early, sends nothing for `silence_s`, or sends malformed data.
    """
    # A random source that nobody uses. It appears only in this session's handshake.
    src = random.SystemRandom().randint(_FIRST_SRC, _LAST_SRC)
    settings = ChotkiSettings(unreadable_values="quarantine")
    replica = Replica(src, MemoryStore(), settings=settings, seed=src)
    unreadable: list[tuple[Id, str]] = []
    why = "the connection ended"
    output = replica.open_session(_SESSION, _now_ms(), mode=READ)
    session = replica.sessions[_SESSION]
    try:
        while True:
            for _, event in output.events:
                match event:
                    case events.Quarantined(id=id, letter=letter):
                        unreadable.append((id, letter))
                    case events.SessionRefused(code=code, message=message):
                        why = f"{code}: {message}"
                    case events.ByeReceived(reason=reason):
                        why = f"it said {reason!r}"
            if records := output.of(_SESSION):
                await channel.write(b"".join(records))
            if session.closed or (session.is_over and _is_whole(replica)):
                break
            async with asyncio.timeout(silence_s):
                data = await channel.read(_READ_BYTES)
            if not data:
                break
            progress(channel.statistics().received_bytes)
            output = replica.receive(_SESSION, data, _now_ms())
    except TimeoutError:
        why = f"it sent nothing for {silence_s:g} s"
    except TransportError as error:
        why = str(error)
    peer = session.peer
    if peer is None or not _is_whole(replica):
        raise CopyIncomplete(
            f"the replica ended before all of it was read: {why}",
            hint="check that a replica of Chotki listens there, and that it lets this side in",
        )
    await channel.close()
    return ReplicaCopy(
        replica.store.values(),
        peer.t,
        trace_pair(session.trace, peer.trace),
        unreadable,
        channel.statistics().received_bytes,
    )


def _is_whole(replica: Replica) -> bool:
    """Whether everything that the peer's handshake announced has arrived."""
    peer = replica.sessions[_SESSION].peer
    return peer is not None and not entries_beyond(parse_vector(peer.vector), replica.vector())


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
