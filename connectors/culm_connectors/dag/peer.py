"""A peer to embed: a folder of DAGs, called and calling over QUIC (reference 6)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from culm_connectors.dag.errors import DagSyncError
from culm_connectors.dag.progress import OnProgress, SyncProgress
from culm_connectors.dag.remote_peer import RemoteDagPeer
from culm_connectors.dag.session import DagSession
from culm_connectors.dag.settings import ALPN, DagPeerSettings
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.verification import verify_shard
from culm_connectors.edge.fair_turns import FairWorker, calling
from culm_connectors.transport import CloseCode, Identity, connect, serve
from culm_connectors.transport.interface import Address, Connection
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import (
    DagAcknowledged,
    ExchangeEvent,
    HelloReceived,
    NodesReceived,
    ShardSpooled,
    TokenReceived,
)
from culm_models.dag.exchange.settings import ExchangeSettings, SpaceAccess, open_to_all
from culm_models.dag.wire.messages import AckStatus

_VERIFYING: Final = 2
_LOOK_S: Final = 0.5
_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")
AccessOf = Callable[[bytes], SpaceAccess]
"""What a proven key may do in spaces."""


class DagPeer:
    """One folder and its connections; `open` makes one. For one event loop."""

    def __init__(
        self,
        folder: DagFolder,
        settings: DagPeerSettings,
        identity: Identity,
        access: AccessOf = lambda peer: open_to_all,
    ) -> None:
        self.identity = identity
        self.settings = settings
        self._folder = folder
        self._access = access
        self._loop = asyncio.get_running_loop()
        self._worker = FairWorker("dag")
        self._verifiers = ThreadPoolExecutor(_VERIFYING, "dag-verify")
        self._remotes: dict[DagSession, RemoteDagPeer] = {}
        self._verifying: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, *, identity: Identity | None = None, settings: DagPeerSettings | None = None
    ) -> AsyncIterator[Self]:
        """The peer of a folder, which is made where there is none; all its connections end with it.

        `identity` is who this side is; by default somebody new. Spools belong to the other side's key, so who
        wants to go on with stopped transfers keeps its identity. Error: `DagFolderError`.
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
        access: AccessOf = lambda peer: open_to_all,
    ) -> AsyncIterator[Self]:
        """The peer of an open folder, which nobody uses meanwhile but by `work`; the caller closes it."""
        identity = identity or Identity.from_private_key(os.urandom(32))
        peer = cls(folder, settings or DagPeerSettings(), identity, access)
        try:
            yield peer
        finally:
            for task in peer._verifying:
                task.cancel()
            await asyncio.gather(*peer._verifying, return_exceptions=True)
            peer._verifiers.shutdown()
            await peer._worker.stop(folder.commit)

    async def work(self, step: Callable[[DagFolder], _T]) -> _T:
        """Ask or change the folder where nobody else does; all of it is committed."""

        def run() -> _T:
            result = step(self._folder)
            self._folder.commit()
            return result

        return await self._call(run)

    def _call(self, step: Callable[[], _T]) -> Awaitable[_T]:
        def run() -> _T:
            try:
                return step()
            except BaseException:
                self._folder.rollback()
                raise

        return self._worker.call(run)

    async def offer(
        self, space: bytes, nodes: Iterable[Cid] = (), shards: Iterable[tuple[Cid, int]] = ()
    ) -> None:
        """Tell connected peers of what was put into the folder, of nodes what is a head."""
        cids, sized = tuple(nodes), tuple(shards)
        await self._call(lambda: self._offer_to_others(space, cids, sized))

    # Connections.

    @asynccontextmanager
    async def listen(self, address: Address, spaces: Iterable[bytes] = ()) -> AsyncIterator[Address]:
        """Serve whoever calls while the context lasts; the address with the port that was bound.

        `spaces`: what is named to callers; what they name is served without. Errors: `AddressError`.
        """
        named = tuple(spaces)

        async def on_connection(connection: Connection) -> None:
            stream = await connection.accept_stream()
            if stream.send is None:
                connection.abort(CloseCode.PROTOCOL, "a stream in one direction")
                return
            remote = self._begin(connection, named)
            session = DagSession(remote, stream.send, stream, self._call, self._understood)
            await self._speak(connection, RemoteDagPeer(session, connection.peer_id))

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
        """Call a peer, and exchange spaces until both have all of what the other one has.

        `show`: UCANs of the own key to show first, each with its space (R14). Errors: `TransportError` when
        it cannot be called or is lost, `DagSyncError` when it stands still or breaks a rule. What came is
        kept, and the next call goes on from there.
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
        """Call a peer and stay connected: what is new at either end goes to the other, until cancelled.

        Errors as `sync`, when the connection ends.
        """
        named = tuple(dict.fromkeys(spaces))
        async with self._connected(address, named, expected_peer, show, on_progress) as (remote, speaking):
            await asyncio.wait((speaking,))
            raise remote.why_ended()

    @asynccontextmanager
    async def _connected(
        self,
        address: Address,
        named: tuple[bytes, ...],
        expected_peer: bytes | None,
        show: Iterable[tuple[bytes, bytes]],
        on_progress: OnProgress | None,
    ) -> AsyncIterator[tuple[RemoteDagPeer, asyncio.Task[None]]]:
        opened: list[DagSession] = []
        tokens = tuple(show)

        async def open_stream(connection: Connection) -> None:
            exchange = self._begin(connection, named)
            for space, token in tokens:
                exchange.show(space, token)
            stream = await connection.open_stream(bidirectional=True)
            assert stream.receive is not None, "it is bidirectional"
            await stream.write(exchange.next_frame())
            opened.append(DagSession(exchange, stream, stream.receive, self._call, self._understood))

        connection = await connect(
            address, self.identity, expected_peer, self.settings.transport, alpn=ALPN, speak_first=open_stream
        )
        remote = RemoteDagPeer(opened[0], connection.peer_id, on_progress=on_progress)
        speaking = asyncio.create_task(self._speak(connection, remote))
        try:
            yield remote, speaking
        finally:
            speaking.cancel()
            with suppress(asyncio.CancelledError):
                await speaking

    async def _until_done(
        self, remote: RemoteDagPeer, spaces: tuple[bytes, ...], speaking: asyncio.Task[None]
    ) -> None:
        exchange = remote.session.exchange

        def is_done() -> bool:
            return all(exchange.is_done(space) for space in spaces)

        while not await self._call(is_done):
            remote.changed.clear()
            waiting = asyncio.create_task(remote.changed.wait())
            done, _ = await asyncio.wait(
                (waiting, speaking), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()
            if speaking in done:
                raise remote.why_ended()
            if time.monotonic() - remote.moved_at_s > self.settings.progress_timeout_s:
                raise DagSyncError("the other end stands still")

    def _begin(self, connection: Connection, spaces: tuple[bytes, ...]) -> Exchange:
        verdict = self._folder.settings.verdict
        settings = ExchangeSettings(
            verdict.policy,
            verdict.digest,
            spaces=spaces,
            legacy=verdict.legacy,
            hashes=frozenset(verdict.hashes),
            takes_shards=self.settings.takes_shards,
        )
        peer = connection.peer_id
        return Exchange(self._folder, settings, peer, access=self._access(peer))

    async def _speak(self, connection: Connection, remote: RemoteDagPeer) -> None:
        session = remote.session
        self._remotes[session] = remote
        try:
            with calling(connection.remote_address[0], remote.peer.hex()):
                await session.run()
        finally:
            del self._remotes[session]
            await self._call(session.exchange.close)
            if isinstance(session.error, DagError):
                _LOGGER.info("%s: %s: %s", remote.peer.hex(), session.error.code, session.error)
                connection.abort(CloseCode.PROTOCOL, session.error.code)
            await connection.close()

    # What comes, in the thread of the folder.

    def _understood(self, session: DagSession, events: list[ExchangeEvent]) -> None:
        remote = self._remotes.get(session)
        if remote is None:
            return
        settled: list[tuple[bytes, list[tuple[Cid, AckStatus, str | None]]]] = []
        for event in events:
            match event:
                case NodesReceived():
                    settled.append((event.space, self._put(remote, event)))
                case ShardSpooled():
                    self._loop.call_soon_threadsafe(self._verify, remote, event)
                case TokenReceived():
                    self._understood(session, session.exchange.access_changed(event.space))
                case DagAcknowledged():
                    remote.progress.count(event)
                case HelloReceived():
                    if event.policy != self._folder.settings.verdict.policy:
                        _LOGGER.info("%s judges by the policy %s", remote.peer.hex(), event.policy)
        self._folder.commit()
        for space, results in settled:
            session.exchange.settle(space, results)
            kept = [cid for cid, status, _ in results if status is AckStatus.DURABLE]
            self._offer_to_others(space, tuple(kept), (), but=session)
        self._moved(remote)

    def _put(self, remote: RemoteDagPeer, event: NodesReceived) -> list[tuple[Cid, AckStatus, str | None]]:
        blocks = [block for _, block in event.blocks]
        outcomes = self._folder.put_blocks(
            event.space, blocks, received_at=int(time.time()), peer=remote.peer
        )
        return remote.settled([cid for cid, _ in event.blocks], outcomes)

    def _offer_to_others(
        self,
        space: bytes,
        nodes: tuple[Cid, ...],
        shards: tuple[tuple[Cid, int], ...],
        but: DagSession | None = None,
    ) -> None:
        others = [one for one in self._remotes.values() if one.session is not but]
        if not others or not (nodes or shards):
            return
        dag_heads = [cid for cid in self._folder.dag_heads(space) if cid in nodes]
        publish_heads = [cid for cid in self._folder.publish_heads(space) if cid in nodes]
        for other in others:
            other.session.exchange.offer(space, dag_heads, publish_heads, shards)
            other.session.wake()

    def _moved(self, remote: RemoteDagPeer) -> None:
        remote.moved()
        self._loop.call_soon_threadsafe(remote.report)

    # Whole shards, verified by other threads.

    def _verify(self, remote: RemoteDagPeer, event: ShardSpooled) -> None:
        task = self._loop.create_task(self._accept(remote, event))
        self._verifying.add(task)
        task.add_done_callback(self._verifying.discard)

    async def _accept(self, remote: RemoteDagPeer, event: ShardSpooled) -> None:
        verdict = self._folder.settings.verdict
        path = await self._call(lambda: self._folder.whole_spool(remote.peer, event.shard))
        verified, error = None, None
        if path is not None:
            try:
                verified = await self._loop.run_in_executor(
                    self._verifiers, verify_shard, path, event.shard, verdict
                )
            except DagError as refused:
                error = refused
            except OSError:
                # It came from another connection meanwhile, and this spool is gone.
                _LOGGER.debug("the spool of %s is gone", event.shard)

        def settle() -> None:
            status, code = AckStatus.LATER, None
            if error is not None:
                status, code = self._folder.refuse_spool(remote.peer, event.shard, error)
            elif self._folder.has_shard(event.shard):
                status = AckStatus.HAD
            elif verified is not None:
                try:
                    if self._folder.accept_spool(remote.peer, event.shard, verified):
                        status = AckStatus.DURABLE
                        remote.progress.shards += 1
                except DagError as refused:
                    status, code = AckStatus.REFUSED, refused.code
            self._folder.commit()
            remote.progress.list_unkept(event.shard, status, code)
            remote.session.exchange.settle(event.space, [(event.shard, status, code)])
            if status is AckStatus.DURABLE:
                self._offer_to_others(event.space, (), ((event.shard, event.size),), but=remote.session)
            self._moved(remote)

        await self._call(settle)
