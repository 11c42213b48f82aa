"""Reconnects to an address, with a pause that grows with every failed attempt.

The pause grows until an attempt succeeds, and the protocol decides whether it did: a remote that accepts
connections and drops them is not dialled more often than a remote that does not answer. A remote that reports
that its process ends, or starts, has not failed: it is dialled again soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from culm_connectors.transport import (
    Address,
    CloseCode,
    CloseOrigin,
    CloseReason,
    ConnectError,
    Connection,
    ConnectionClosedError,
    Identity,
    TransportError,
    TransportSettings,
)
from culm_connectors.transport.quic import connect

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
RESTART_PAUSE_S = 2.0
"""Longest pause after a remote has reported that its process ends or starts: a restart takes seconds."""
_GROWTH = 2.0
_RESTARTING = (CloseCode.SHUTTING_DOWN, CloseCode.NOT_READY)
# Peers that lost the same server must not all come back at once.
_JITTER = (0.5, 1.0)


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts: from `first_s`, doubled each time up to `max_s`, with jitter."""

    first_s: float = FIRST_PAUSE_S
    max_s: float = MAX_PAUSE_S
    uniform: Callable[[float, float], float] = random.uniform
    failures: int = 0
    """Pauses since the last success."""

    def __post_init__(self) -> None:
        assert 0 < self.first_s <= self.max_s, "a pause has a length, and grows"

    def pause_s(self) -> float:
        """Return the next pause in seconds, and count a failure."""
        # After about a thousand doublings a float would overflow.
        full_s = self.first_s * _GROWTH ** min(self.failures, 64)
        self.failures += 1
        return min(self.max_s, full_s) * self.uniform(*_JITTER)

    def succeeded(self) -> None:
        """Reset the pause after a success."""
        self.failures = 0


async def keep_trying(
    attempt: Callable[[], Awaitable[bool]],
    backoff: Backoff | None = None,
    *,
    name: str,
    until: asyncio.Event | None = None,
) -> None:
    """Make one attempt after the other until cancelled, or until the event is set between two attempts.

    An attempt returns whether it succeeded. If it raises `TransportError`, it has failed, and the error is
    logged with the name of the remote.
    """
    backoff, until = backoff or Backoff(), until or asyncio.Event()
    while not until.is_set():
        limit_s = backoff.max_s
        try:
            if await attempt():
                backoff.succeeded()
        except TransportError as error:
            logger.info("%s: %s", name, error)
            if isinstance(error, ConnectError | ConnectionClosedError) and is_restarting(error.reason):
                limit_s = RESTART_PAUSE_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(limit_s, backoff.pause_s())):
                await until.wait()


def is_restarting(reason: CloseReason | None) -> bool:
    """Return whether a remote has ended or refused a connection because its process ends or starts."""
    return (
        reason is not None
        and reason.application
        and reason.origin == CloseOrigin.REMOTE
        and reason.code in _RESTARTING
    )


class Speaker(Protocol):
    """The part of a protocol's driver that outgoing connections need."""

    async def speak(self, connection: Connection) -> bool:
        """Run the protocol on a connection until it ends. Returns whether that succeeded."""
        ...

    async def until_gone(self, remote: bytes) -> bool | None:
        """Wait until the connection to a remote ends. Returns its success; None without a connection."""
        ...


async def keep_connected(
    speaker: Speaker,
    address: Address,
    identity: Identity,
    settings: TransportSettings,
    *,
    alpn: str,
    expected_peer_id: bytes | None = None,
    until: asyncio.Event | None = None,
) -> None:
    """Keep a QUIC connection to a peer until cancelled, or until it ends after the event is set."""
    call = partial(connect, address, identity, expected_peer_id, settings, alpn=alpn)
    name = f"{address[0]}:{address[1]}"
    await keep_calling(speaker, call, name=name, expected_peer_id=expected_peer_id, until=until)


async def keep_calling(
    speaker: Speaker,
    call: Callable[[], Awaitable[Connection]],
    *,
    name: str,
    expected_peer_id: bytes | None = None,
    until: asyncio.Event | None = None,
) -> None:
    """Keep a connection to a peer that `call` dials; `name` is the peer's name in the log."""
    remote = expected_peer_id

    async def attempt() -> bool:
        nonlocal remote
        # If the peer has dialled us meanwhile, one connection is enough.
        if remote is not None and (went_well := await speaker.until_gone(remote)) is not None:
            return went_well
        connection = await call()
        remote = connection.peer_id
        try:
            went_well = await speaker.speak(connection)
            if not went_well and (reason := connection.close_reason) is not None and is_restarting(reason):
                raise ConnectionClosedError(reason)
            return went_well
        finally:
            await connection.close(CloseCode.SHUTTING_DOWN)

    await keep_trying(attempt, name=name, until=until)
