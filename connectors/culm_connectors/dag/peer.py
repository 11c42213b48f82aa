"""A peer to embed: a folder of DAGs that connects and accepts connections over QUIC (reference 6)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from culm_connectors.dag.connections import AccessOf, DagConnection, DagConnections, allow_all
from culm_connectors.dag.errors import DagSyncError
from culm_connectors.dag.progress import OnProgress, SyncProgress
from culm_connectors.dag.service import DagService
from culm_connectors.dag.settings import ALPN, DagPeerSettings
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.transport import Identity
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Address, Connection
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.reconnect import keep_trying
from culm_models.dag.errors import DagError

_LOOK_S: Final = 0.5
_T = TypeVar("_T")


class DagPeer:
    """One folder and its connections; use `open` to create it. For one event loop."""

    def __init__(
        self, service: DagService, settings: DagPeerSettings, identity: Identity, access: AccessOf
    ) -> None:
        self.identity = identity
        self.settings = settings
        self._service = service
        self._connections = DagConnections(service, access, takes_shards=settings.takes_shards)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, *, identity: Identity | None = None, settings: DagPeerSettings | None = None
    ) -> AsyncIterator[Self]:
        """Open the peer of a folder, which is created if it is missing; its connections end with the context.

        `identity` is this side's key; by default a new one. Spools belong to the other side's key, so a peer
        that wants to resume stopped transfers keeps its identity. Raises `DagFolderError`.
        """
        settings = settings or DagPeerSettings()
        opened = DagFolder(folder, settings.folder, create=True)
        try:
            async with cls.over(opened, identity=identity, settings=settings) as peer:
                yield peer
        finally:
            opened.close()

    @classmethod
    @asynccontextmanager
    async def over(
        cls,
        folder: DagFolder,
        *,
        identity: Identity | None = None,
        settings: DagPeerSettings | None = None,
        access: AccessOf = allow_all,
    ) -> AsyncIterator[Self]:
        """Serve an open folder, which only `work` may use meanwhile; the caller closes it."""
        identity = identity or Identity.from_private_key(os.urandom(32))
        async with DagService(folder) as service:
            yield cls(service, settings or DagPeerSettings(), identity, access)

    async def work(self, step: Callable[[DagFolder], _T]) -> _T:
        """Run a step on the folder in its thread; its changes are committed together and offered to peers."""
        return await self._service.work(step)

    # Connections.

    @asynccontextmanager
    async def listen(self, address: Address, spaces: Iterable[bytes] = ()) -> AsyncIterator[Address]:
        """Serve peers while the context lasts; yields the address with the port that was bound.

        `spaces` are named to peers that connect; spaces that the peers name are served in any case. Raises
        `AddressError`.
        """
        named = tuple(spaces)

        async def on_connection(connection: Connection) -> None:
            remote = await self._connections.accept(connection, named)
            if remote is not None:
                await self._connections.run(remote)

        async with serve(
            address, self.identity, self.settings.transport, on_connection, alpn=ALPN
        ) as listener:
            yield listener.address

    async def sync(
        self,
        address: Address,
        spaces: Iterable[bytes],
        *,
        expected_peer: bytes | None = None,
        show: Iterable[tuple[bytes, bytes]] = (),
        on_progress: OnProgress | None = None,
    ) -> SyncProgress:
        """Connect to a peer, and exchange spaces until both ends have everything.

        `show`: UCANs of the own key to show first, each with its space (R14). Raises `TransportError` if the
        peer cannot be reached or the connection is lost, `DagSyncError` if it makes no progress or breaks a
        rule. What came is kept, and the next call resumes from there.
        """
        named = tuple(dict.fromkeys(spaces))
        async with self._connected(address, named, expected_peer, show, on_progress) as (remote, speaking):
            await self._until_done(remote, named, speaking)
        return remote.progress

    async def follow(
        self,
        address: Address,
        spaces: Iterable[bytes],
        *,
        expected_peer: bytes | None = None,
        show: Iterable[tuple[bytes, bytes]] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        """Connect to a peer and stay connected: new data at either end goes to the other, until cancelled.

        Raises the errors of `sync` when the connection ends.
        """
        named = tuple(dict.fromkeys(spaces))
        async with self._connected(address, named, expected_peer, show, on_progress) as (remote, speaking):
            await asyncio.wait((speaking,))
            raise remote.why_ended()

    async def keep_following(
        self,
        address: Address,
        spaces: Iterable[bytes],
        *,
        expected_peer: bytes | None = None,
        show: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Follow a peer, and connect again whenever the connection ends, until cancelled.

        Raises `DagSyncError` if the peer breaks a rule.
        """
        named, shown = tuple(dict.fromkeys(spaces)), tuple(show)

        async def attempt() -> bool:
            async with self._connected(address, named, expected_peer, shown, None) as (remote, speaking):
                await asyncio.wait((speaking,))
                if isinstance(remote.error, DagError):
                    raise remote.why_ended()
                has_moved = remote.moved.is_set()
                if isinstance(remote.error, TransportError) and not has_moved:
                    raise remote.error
                return has_moved

        await keep_trying(attempt, name=f"{address[0]} port {address[1]}")

    @asynccontextmanager
    async def _connected(
        self,
        address: Address,
        named: tuple[bytes, ...],
        expected_peer: bytes | None,
        show: Iterable[tuple[bytes, bytes]],
        on_progress: OnProgress | None,
    ) -> AsyncIterator[tuple[DagConnection, asyncio.Task[None]]]:
        opened: list[DagConnection] = []

        async def open_stream(connection: Connection) -> None:
            stream = await connection.open_stream(bidirectional=True)
            assert stream.receive is not None, "it is bidirectional"
            remote = self._connections.begin(connection, stream.receive, named)
            remote.on_progress = on_progress
            for space, token in show:
                remote.exchange.show(space, token)
            await stream.write(remote.exchange.next_frame())
            opened.append(remote)

        await connect(
            address, self.identity, expected_peer, self.settings.transport, alpn=ALPN, speak_first=open_stream
        )
        remote = opened[0]
        speaking = asyncio.create_task(self._connections.run(remote))
        try:
            yield remote, speaking
        finally:
            speaking.cancel()
            with suppress(asyncio.CancelledError):
                await speaking

    async def _until_done(
        self, remote: DagConnection, spaces: tuple[bytes, ...], speaking: asyncio.Task[None]
    ) -> None:
        exchange = remote.exchange

        while not await self.work(lambda _: all(exchange.is_done(space) for space in spaces)):
            remote.moved.clear()
            moving = asyncio.create_task(remote.moved.wait())
            done, _ = await asyncio.wait(
                (moving, speaking), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
            )
            moving.cancel()
            if speaking in done:
                raise remote.why_ended()
            if time.monotonic() - remote.moved_at_s > self.settings.progress_timeout_s:
                raise DagSyncError("the other end makes no progress")
