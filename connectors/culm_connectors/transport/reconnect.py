"""Keeps calling an address: again and again, after a pause that grows with every attempt that went wrong.

The pause grows until an attempt goes well, by the word of the protocol that speaks: a remote that takes
connections and drops them is not asked more often than one that does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    Identity,
    TransportError,
    TransportSettings,
    connect,
)

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
_GROWTH = 2.0
# Peers that lost the same server must not all come back at once.
_JITTER = (0.5, 1.0)


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts at one thing: from `first_s`, doubled each time up to `max_s`, with jitter."""

    first_s: float = FIRST_PAUSE_S
    max_s: float = MAX_PAUSE_S
    uniform: Callable[[float, float], float] = random.uniform
    failures: int = 0
    """Pauses since the last success."""

    def __post_init__(self) -> None:
        assert 0 < self.first_s <= self.max_s, "a pause has a length, and grows"

    def pause_s(self) -> float:
        """The next pause."""
        # Beyond some hundred doublings a float is no number any more.
        full_s = self.first_s * _GROWTH ** min(self.failures, 64)
        self.failures += 1
        return min(self.max_s, full_s) * self.uniform(*_JITTER)

    def succeeded(self) -> None:
        """It went well: the next failure is the first one again."""
        self.failures = 0


async def keep_trying(attempt: Callable[[], Awaitable[bool]], backoff: Backoff | None = None) -> None:
    """Make one attempt after the other until cancelled; each says whether it went well."""
    backoff = backoff or Backoff()
    while True:
        if await attempt():
            backoff.succeeded()
        await asyncio.sleep(backoff.pause_s())


class Speaker(Protocol):
    """A protocol's driver, as far as calls concern it."""

    async def speak(self, connection: Connection) -> bool:
        """Speak on a connection until it ends; whether that went well."""
        ...

    async def until_gone(self, remote: bytes) -> bool | None:
        """Wait for the end of the connection to a remote; whether it went well, None without one."""
        ...


async def keep_connected(
    speaker: Speaker,
    address: Address,
    identity: Identity,
    settings: TransportSettings,
    *,
    alpn: str,
    expected_peer_id: bytes | None = None,
) -> None:
    """Hold a connection over QUIC to a peer for as long as this task runs."""
    call = partial(connect, address, identity, expected_peer_id, settings, alpn=alpn)
    name = f"{address[0]}:{address[1]}"
    await keep_calling(speaker, call, name=name, expected_peer_id=expected_peer_id)


async def keep_calling(
    speaker: Speaker,
    call: Callable[[], Awaitable[Connection]],
    *,
    name: str,
    expected_peer_id: bytes | None = None,
) -> None:
    """Hold a connection to a peer that is reached by `call`; `name` is what the log calls it."""
    remote = expected_peer_id

    async def attempt() -> bool:
        nonlocal remote
        # Where the peer has dialled us meanwhile, one connection is enough.
        if remote is not None and (went_well := await speaker.until_gone(remote)) is not None:
            return went_well
        try:
            connection = await call()
        except TransportError as error:
            logger.info("%s: %s", name, error)
            return False
        remote = connection.peer_id
        try:
            return await speaker.speak(connection)
        finally:
            await connection.close(CloseCode.SHUTTING_DOWN)

    await keep_trying(attempt)
