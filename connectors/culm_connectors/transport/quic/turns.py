"""Fair reading of datagrams: they wait in one queue per taker, and takers are served in short turns.

So a remote that sends more than can be read delays only itself: datagrams above its share are dropped, as a
network that is too slow would do, and the event loop never waits long for one remote.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from culm_connectors.transport.interface import Address

_TURN_DATAGRAMS = 32
_TURN_S = 0.002
_ROUND_S = 0.004
"""After this time control returns to the event loop, even if takers still have datagrams waiting."""
_MAX_WAITING_BYTES = 16 * 1_024 * 1_024
_MAX_WAITING_BYTES_OF_ONE = 2 * 1_024 * 1_024
_SHARE_WHEN_FULL_BYTES = 16 * 1_024
"""Bytes that a taker may have waiting even if all takers together have reached their limit."""
_OVERHEAD_BYTES = 256
"""Memory that a waiting datagram takes in addition to its own bytes."""


class Taker(Protocol):
    """Reader of datagrams: a connection, or the reader of datagrams without a connection."""

    def receive(self, data: bytes, address: Address) -> None:
        """Read one datagram."""
        ...

    def settle(self) -> None:
        """Act on the datagrams of one turn."""
        ...


@dataclass(slots=True)
class _Inbox:
    datagrams: deque[tuple[bytes, Address]] = field(default_factory=deque)
    size: int = 0


class Turns:
    """Hands datagrams to their takers, for each taker in the order of arrival."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Taker, _Inbox] = {}
        self._size = 0
        self._next_round: asyncio.Handle | None = None
        self.dropped = 0
        """Number of datagrams dropped because their taker had too many bytes waiting."""

    def add(self, taker: Taker, data: bytes, address: Address) -> None:
        """Queue a received datagram; `run` has it read."""
        inbox = self._waiting.get(taker)
        if inbox is None:
            inbox = self._waiting[taker] = _Inbox()
        size = len(data) + _OVERHEAD_BYTES
        full = self._size + size > _MAX_WAITING_BYTES
        if inbox.size + size > (_SHARE_WHEN_FULL_BYTES if full else _MAX_WAITING_BYTES_OF_ONE):
            self.dropped += 1
            return
        inbox.datagrams.append((data, address))
        inbox.size += size
        self._size += size

    def run(self) -> None:
        """Read the waiting datagrams: now, or in the next round if one is scheduled already."""
        if self._next_round is None:
            self._round()

    def forget(self, taker: Taker) -> None:
        """Drop the waiting datagrams of a taker that reads no more."""
        inbox = self._waiting.pop(taker, None)
        if inbox is not None:
            self._size -= inbox.size

    def stop(self) -> None:
        """Drop everything. Harmless when repeated."""
        self._waiting.clear()
        if self._next_round is not None:
            self._next_round.cancel()
            self._next_round = None

    def _round(self) -> None:
        self._next_round = None
        ends_s = self._loop.time() + _ROUND_S
        while self._waiting:
            taker = next(iter(self._waiting))
            inbox = self._waiting.pop(taker)
            # In its place at the end already now: the taker may be forgotten while it reads.
            self._waiting[taker] = inbox
            self._turn(taker, inbox)
            if not inbox.datagrams:
                self.forget(taker)
            if self._loop.time() >= ends_s:
                break
        if self._waiting:
            self._next_round = self._loop.call_soon(self._round)

    def _turn(self, taker: Taker, inbox: _Inbox) -> None:
        ends_s = self._loop.time() + _TURN_S
        for _ in range(min(_TURN_DATAGRAMS, len(inbox.datagrams))):
            data, address = inbox.datagrams.popleft()
            inbox.size -= len(data) + _OVERHEAD_BYTES
            self._size -= len(data) + _OVERHEAD_BYTES
            taker.receive(data, address)
            if self._loop.time() >= ends_s:
                break
        taker.settle()
