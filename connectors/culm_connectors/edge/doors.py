"""Doors: the addresses at which protocols are served, and the access to them.

A door has an address, a transport, an ALPN if the transport uses one, a handler of connections, and an access
check. QUIC doors at one address share a socket, which opens with the first of them that is ready. A
connection to a door that is not ready is closed with `not_ready` (0x103), or with `store_unusable` (0x104) if
its local store is full or damaged; the peer reconnects by itself. While the process drains, connections to
every door are refused with `shutting_down` (0x101).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from culm_connectors.followed_file import FollowedFile
from culm_connectors.local_store.errors import LocalStoreError
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import (
    Address,
    CloseCode,
    ConnectionHandler,
    Identity,
    Refusal,
    Service,
    TransportSettings,
)
from culm_connectors.transport.interface import ChannelHandler
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.connection import serve_libp2p
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.principal import Principal
from culm_connectors.transport.quic.listener import Listener, serve_all
from culm_connectors.transport.tcp.listener import TcpListener, serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.url import address_text

logger = logging.getLogger(__name__)

Judge = Callable[[Principal], Refusal | None]
"""Returns why a principal may not connect, or None if it may.

Called on every handshake, so it must be fast.
"""


@dataclass(frozen=True, slots=True)
class QuicDoor:
    """An application protocol over QUIC. `name` is its ALPN."""

    name: str
    address: Address
    serve: ConnectionHandler
    judge: Judge


@dataclass(frozen=True, slots=True)
class Libp2pDoor:
    """libp2p's QUIC, with an identity of its own."""

    name: str
    address: Address
    serve: ConnectionHandler
    judge: Judge
    identity: Libp2pIdentity
    protocol: bytes
    """Protocol of its streams, by its name in libp2p's negotiation."""


@dataclass(frozen=True, slots=True)
class TcpDoor:
    """Channels over TCP, or over TLS if `tls` is set: identified by a client certificate, or not at all."""

    name: str
    address: Address
    serve: ChannelHandler
    judge: Judge
    tls: TlsFiles | None = None


Door = QuicDoor | Libp2pDoor | TcpDoor


_Listening = Listener | TcpListener


class Doors:
    """The doors of a process. An asynchronous context manager that closes them and their connections."""

    def __init__(
        self, doors: Sequence[Door], identity: Identity, settings: TransportSettings, tcp: TcpSettings
    ) -> None:
        self._doors = list(doors)
        self._current = {door.name: door for door in doors}
        """Current door of each name: its protocol may have been opened again."""
        self._closed_because: dict[str, str] = {}
        self._identity = identity
        self._settings = settings
        self._tcp = tcp
        self._stack = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()
        self._listeners: dict[tuple[str, Address], _Listening] = {}
        self._bound: dict[str, Address] = {}
        """Address of each door that was opened; its socket may have been closed since."""
        self._ready: set[str] = set()
        self._refusal: Refusal | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def address(self, name: str) -> Address | None:
        """Return the address of a door, by its name; None while it is closed."""
        return self._bound.get(name) if name in self._ready else None

    @property
    def quic_address(self) -> Address | None:
        """Return the address of the first open QUIC door; None if there is none."""
        addresses = (self.address(door.name) for door in self._doors if isinstance(door, QuicDoor))
        return next((address for address in addresses if address is not None), None)

    def where(self) -> dict[str, str]:
        """Return the address of every open door as its transport writes it, by name; from any thread."""
        return {door.name: self._text(door) for door in tuple(self._doors) if door.name in self._ready}

    def _text(self, door: Door) -> str:
        address = self._bound[door.name]
        match door:
            case Libp2pDoor(identity=identity):
                return str(Multiaddr(address, identity.peer_id))
            case _:
                return address_text(*address)

    @property
    def refused(self) -> Counter[tuple[str, str]]:
        """Return counts of refused connections, by the door's name and reason.

        The name is empty if QUIC's handshake had not negotiated a protocol yet.
        """
        refused: Counter[tuple[str, str]] = Counter()
        for door, listener in self._one_door_each():
            if isinstance(listener, Listener):
                refused.update(dict(listener.refused))
                if count := listener.refusals["connections"]:
                    refused["", "connections"] += count
            else:
                refused.update(
                    {(door.name, reason): count for reason, count in tuple(listener.refusals.items())}
                )
        return refused

    @property
    def closed(self) -> Counter[tuple[str, str]]:
        """Return counts of accepted connections that the door ended, by its name and reason."""
        closed: Counter[tuple[str, str]] = Counter()
        for door, listener in self._one_door_each():
            if isinstance(listener, Listener):
                closed.update(dict(listener.closed))
            else:
                closed.update(
                    {(door.name, reason): count for reason, count in tuple(listener.closed.items())}
                )
        return closed

    @property
    def datagrams_refused(self) -> Counter[str]:
        """Return counts of first QUIC datagrams for which no connection was begun, by reason."""
        refused: Counter[str] = Counter()
        for _, listener in self._one_door_each():
            if isinstance(listener, Listener):
                refused.update(listener.refusals)
        del refused["connections"]  # these are refused connections
        return refused

    @property
    def files(self) -> Iterator[FollowedFile]:
        """Return the certificates that open doors serve."""
        for listener in tuple(self._listeners.values()):
            if isinstance(listener, TcpListener):
                yield from listener.files

    def _one_door_each(self) -> Iterator[tuple[Door, _Listening]]:
        """Return every listener with one of its doors."""
        doors = {_place(door): door for door in self._doors}
        for address, listener in tuple(self._listeners.items()):
            yield doors[address], listener

    async def open(self, doors: Sequence[Door]) -> None:
        """Accept connections at these doors from now on. Raises `AddressError`."""
        async with self._opening:
            for door in doors:
                if door.name not in self._current:
                    # Its protocol could not be opened with the others.
                    self._doors.append(door)
                self._current[door.name] = door
                self._closed_because.pop(door.name, None)
                listener = self._listeners.get(_place(door))
                if listener is None:
                    self._listeners[_place(door)] = await self._stack.enter_async_context(
                        self._listener(door)
                    )
                elif isinstance(listener, Listener) and isinstance(door, QuicDoor):
                    listener.services[door.name] = self._service(door)
                self._bound[door.name] = self._listeners[_place(door)].address
                self._ready.add(door.name)
                logger.info("%s is served at %s", door.name, self._text(door))

    def _listener(self, door: Door) -> AbstractAsyncContextManager[_Listening]:
        match door:
            case QuicDoor():
                services = {
                    quic_door.name: self._service(quic_door)
                    for quic_door in self._doors
                    if isinstance(quic_door, QuicDoor) and quic_door.address == door.address
                }
                return serve_all(door.address, self._identity, self._settings, services)
            case Libp2pDoor():
                judge = partial(self._judge_key, door)
                return serve_libp2p(
                    door.address,
                    door.identity,
                    self._settings,
                    partial(self._serve, door.name),
                    protocol=door.protocol,
                    authorise=judge,
                )
            case TcpDoor():
                authorise = partial(self._judge, door)
                serve = partial(self._serve, door.name)
                return serve_tcp(door.address, serve, self._tcp, tls=door.tls, authorise=authorise)

    def _service(self, door: QuicDoor) -> Service:
        return Service(partial(self._serve, door.name), partial(self._judge_key, door))

    async def _serve(self, name: str, caller: Any) -> None:
        """Serve a connection, or a channel if the door is one of channels."""
        try:
            await self._current[name].serve(caller)
        except LocalStoreError as error:
            logger.info("a connection at %s has ended with its store: %s", name, error)

    def _judge_key(self, door: Door, key: bytes, address: Address) -> Refusal | None:
        return self._judge(door, Principal.of_key(key, address))

    def _judge(self, door: Door, principal: Principal) -> Refusal | None:
        if self._refusal is not None:
            return self._refusal
        if door.name not in self._ready:
            if (why := self._closed_because.get(door.name)) is not None:
                return Refusal(why, CloseCode.STORE_UNUSABLE)
            return Refusal("this protocol is not served yet: come again", CloseCode.NOT_READY)
        return self._current[door.name].judge(principal)

    def close(self, doors: Sequence[Door], reason: str) -> None:
        """Accept no connections at these doors until they are opened again, and close their connections."""
        for door in doors:
            self._ready.discard(door.name)
            self._closed_because[door.name] = reason
        self.judge_again()

    def judge_again(self) -> None:
        """Close the connections that the new rules would not accept."""
        refusal, self._refusal = self._refusal, None  # which is about further connections
        try:
            self._close_refused()
        finally:
            self._refusal = refusal

    def _close_refused(self) -> None:
        for listener in self._listeners.values():
            listener.judge_again()

    def refuse(self, reason: str) -> None:
        """Accept no further connections; those that are open remain."""
        self._refusal = Refusal(reason, CloseCode.SHUTTING_DOWN)

    def cut_off(self) -> None:
        """Close all connections that are open after `refuse`."""
        self._close_refused()


def _place(door: Door) -> tuple[str, Address]:
    """Return the key of a door's listener: QUIC doors at one address share one, and ALPN selects the door."""
    return ("quic" if isinstance(door, QuicDoor) else door.name), door.address
