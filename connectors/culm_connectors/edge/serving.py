"""Open connections and how they end: they are counted, closed with a reason, and do not affect each other.

A `ServedLink` is a protocol's state of one connection. `ServedLinks` has those of one driver, serves each
until it ends, and ends them: one of them, or all when the process stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Connection

logger = logging.getLogger(__name__)
_limited = LimitedLog(logger)


Ending = Callable[[], None]
"""Ends one open connection in such a way that the remote connects again; harmless if it has been ended."""


@dataclass(frozen=True, slots=True)
class ConnectedPeer:
    """A peer that is connected now, by the name of its principal, and its address if that is known."""

    name: str
    address: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class ProtocolStatus:
    """Parts of a protocol's status that are neither metrics nor doors."""

    peers: Sequence[ConnectedPeer] = ()
    urls: Mapping[str, str] = field(default_factory=dict)
    """URLs that are served besides the doors, by name."""


class LinkEnded(Exception):
    """Ends the tasks of one connection; `close_code` and the text are sent to the remote."""

    def __init__(self, code: CloseCode, reason: str = "") -> None:
        super().__init__(reason)
        self.close_code = code


def first_ending(errors: BaseExceptionGroup[LinkEnded]) -> LinkEnded:
    """Return why the tasks of a connection have ended: the reason of the first of them."""
    first = errors.exceptions[0]
    return first_ending(first) if isinstance(first, BaseExceptionGroup) else first


class ServedLink:
    """One connection to one remote. A protocol adds its queues and limits."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.remote = connection.peer_id
        self.name = self.remote.hex()[:16]
        self.host = connection.remote_address[0]
        """Address from which the connection came; it may change its address later."""
        self.is_current = False
        """Whether it is served; False after another one has taken its place, or after it was given up."""
        self.letting_go = False
        """Whether this side has ended it, so that nothing more is sent."""


LinkT = TypeVar("LinkT", bound=ServedLink)


class ServedLinks(Generic[LinkT]):
    """The connections of one driver, by a key that at most one connection has."""

    def __init__(
        self, metrics: ProtocolMetrics, key: Callable[[LinkT], Hashable], on_gone: Callable[[LinkT], None]
    ) -> None:
        """`on_gone` is called when a connection has left, before another one takes its place."""
        self.open: dict[Hashable, LinkT] = {}
        self._metrics = metrics
        self._key = key
        self._on_gone = on_gone
        self._left = asyncio.Event()

    def refuse(self, connection: Connection, code: CloseCode, reason: str) -> None:
        """Turn a connection away before any data is sent."""
        connection.abort(code, reason)
        self._metrics.refused[code.name.lower()] += 1

    def begin(self, link: LinkT) -> None:
        """Add a connection; an earlier one with the same key ends."""
        if (former := self.open.get(self._key(link))) is not None:
            self._leave(former)
            self._count_closed(former, CloseCode.SUPERSEDED)
            former.connection.abort(CloseCode.SUPERSEDED, "there is a newer connection between us")
        self.open[self._key(link)] = link
        link.is_current = True
        self._metrics.connections += 1
        self._metrics.connections_total += 1

    async def serve(self, link: LinkT, speak: Callable[[LinkT], Awaitable[LinkEnded]]) -> None:
        """Serve a connection that was added until it ends; never raises for what the remote does."""
        try:
            ended = await speak(link)
        except TransportError as error:
            logger.debug("connection of %s: %s", link.name, error)
            ended = LinkEnded(CloseCode.NORMAL)
        except Exception:
            # A defect of ours must cost this connection only.
            logger.exception("serving %s failed", link.name)
            ended = LinkEnded(CloseCode.INTERNAL, "internal error")
        finally:
            self._leave(link)
        if ended.close_code is not CloseCode.NORMAL:
            self._count_closed(link, ended.close_code)
            _limited.warning("closing the connection of %s: %s", link.name, ended)
        await link.connection.close(ended.close_code, str(ended))

    def end(self, link: LinkT, code: CloseCode, reason: str) -> None:
        """End a connection at once, unless this side already has."""
        if not link.letting_go:
            link.letting_go = True
            self._count_closed(link, code)
            _limited.log(logging.INFO, "closing the connection of %s: %s", link.name, reason)
            link.connection.abort(code, reason)

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one of the open connections, because the process ends."""
        return [partial(self.end, link, CloseCode.SHUTTING_DOWN, reason) for link in self.open.values()]

    async def finish(self, reason: str) -> None:
        """End every connection, and wait until all have left."""
        while self.open:
            for end in self.endings(reason):
                end()
            self._left.clear()
            await self._left.wait()

    def peers(self) -> Sequence[ConnectedPeer]:
        """Return the connected peers; from any thread."""
        return [
            ConnectedPeer(link.remote.hex(), link.connection.remote_address)
            for link in tuple(self.open.values())
        ]

    def _leave(self, link: LinkT) -> None:
        if link.is_current:
            link.is_current = False
            del self.open[self._key(link)]
            self._metrics.connections -= 1
            self._left.set()
            self._on_gone(link)

    def _count_closed(self, link: LinkT, code: CloseCode) -> None:
        """Count a connection that this side is about to end; one that has ended already was counted then."""
        if link.connection.close_reason is None:
            self._metrics.closed[code.name.lower()] += 1
