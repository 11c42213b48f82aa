"""The reference peer: its own logs in its own store, synchronised over QUIC with any peer or connector.

It is what `culm p2panda peer` runs, and a class for programs and load generators: open one in a folder,
publish, connect, and wait until it holds what it should.

    async with ReferencePeer(folder) as peer:
        await peer.publish([Draft("create", schema_id, {"name": "Culm"})])
        summary = await peer.sync(("127.0.0.1", 4455))
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from culm_connectors.edge.access import EVERYTHING
from culm_connectors.edge.keyfile import load_key
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.hub import Arrival
from culm_connectors.logs.index import IndexWriter, LmdbLogStore
from culm_connectors.p2panda.connections.leave import leave
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.reference_peer.authoring import Author, Draft
from culm_connectors.p2panda.reference_peer.sync_progress import QUIET_S, SyncFailed, SyncSummary, SyncWatch
from culm_connectors.p2panda.settings import ALPN, DriverSettings, SessionSettings, peer_settings
from culm_connectors.transport import Address, CloseCode, Identity, TransportSettings
from culm_connectors.transport.quic import Listener, connect, serve
from culm_connectors.transport.reconnect import keep_connected
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from culm_models.p2panda.events import Announced, PeerEvent
from culm_models.p2panda.operations.identifiers import normalise
from culm_models.p2panda.operations.operation import CheckedOperation, check_many, peek
from culm_models.p2panda.peer import Peer

STORE_FOLDER = "store"

EventListener = Callable[[PeerEvent], None]
StoredListener = Callable[[Sequence[SoundEntry]], None]


def peer_key(folder: Path) -> KeyPair:
    """The key of a peer's folder. Raises `KeyFileError`."""
    return load_key(folder, hint=f"make a key with `culm p2panda peer init --dir {shlex.quote(str(folder))}`")


class ReferencePeer:
    """A peer of its own; an asynchronous context manager, for one event loop.

    `schemas` are announced; `*` stands for what it holds and what its remotes announce. None stands for what
    it holds when it is opened, and for `*` if that is nothing. With `live_mode` a session stays open after
    catching up. `listeners` receive every event of the protocol, `stored_listeners` all entries once they are
    in the store.
    """

    def __init__(
        self,
        folder: Path,
        *,
        key_pair: KeyPair | None = None,
        schemas: Iterable[str] | None = (EVERYTHING,),
        live_mode: bool = True,
        compat: Literal["spec", "aquadoggo"] = "spec",
        transport: TransportSettings | None = None,
        driver: DriverSettings | None = None,
        sessions: SessionSettings | None = None,
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.key_pair = key_pair or peer_key(folder)
        self.peer_id = self.key_pair.public_key
        self.listeners: list[EventListener] = []
        self.stored_listeners: list[StoredListener] = []
        self._identity = Identity.from_private_key(self.key_pair.private_key)
        self._transport = transport or TransportSettings(datagram_bytes="auto")
        self._driver_settings = driver or DriverSettings()
        self._peer_settings = peer_settings(
            sessions or SessionSettings(), self._driver_settings, live_mode=live_mode, compat=compat
        )
        self._durable = durable
        self._announces_held = schemas is None
        configured = set(schemas or ())
        self._takes_all = EVERYTHING in configured
        self._announced = set(normalise(configured - {EVERYTHING}))
        self._stack = contextlib.AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> ReferencePeer:
        async with contextlib.AsyncExitStack() as stack:
            self.store = await asyncio.to_thread(
                LmdbLogStore, peek, self.folder / STORE_FOLDER, durable=self._durable, check=True
            )
            stack.callback(self.store.close)
            # Who works with a peer learns that its disk is full; nobody waits behind it, as at an edge.
            self.index = IndexWriter(self.store, retry_interval_s=None)
            stack.callback(self.index.close)
            pool = CheckPool(None, check_many)
            stack.callback(pool.close)
            self._pool = pool
            peer = Peer(self.peer_id, self.store, self._peer_settings, random_seed=time.time_ns())
            self.driver = Driver(
                peer,
                reader=self.index,
                sink=self.store_arrivals,
                observer=self,
                pool=pool,
                settings=self._driver_settings,
            )
            self._group = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(self._cancel_tasks)
            self._start(self.driver.run())
            if self._takes_all or self._announces_held:
                self._announced |= set(self.store.schema_ids())
            self._takes_all |= self._announces_held and not self._announced
            await asyncio.to_thread(self.store.ranges.load, self._announced)
            self.driver.announce(normalise(self._announced))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            # Perhaps a task of ours failed and so cancelled the caller: the group raises its error.
            await self._stack.__aexit__(kind, error, trace)
        else:
            await self._stack.aclose()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _cancel_tasks(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    # Writing.

    async def publish(
        self, drafts: Iterable[Draft], *, author: KeyPair | None = None
    ) -> list[CheckedOperation]:
        """Sign operations, store them, and send them to live sessions; `author` is this peer by default.

        Raises `AuthoringError`, what encoding a wrong operation raises, and what other peers would refuse an
        entry with: nothing is signed then.
        """
        signed = Author(author or self.key_pair, self.store, self.driver.peer.ingest).sign(drafts)
        await self._keep(signed)
        return signed

    async def add(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[CulmError | None]:
        """Store entries that others signed; for each the error that refused it, or None.

        They pass the checks that entries of remotes pass.
        """
        fresh: list[SoundEntry] = []
        errors: list[CulmError | None] = []
        for checked in await self._pool.submit(pairs):
            try:
                if isinstance(checked, CulmError):
                    raise checked
                if self.driver.peer.ingest.stage(checked):
                    fresh.append(checked)
                errors.append(None)
            except CulmError as error:
                errors.append(error.with_traceback(None))
        await self._keep(fresh)
        return errors

    async def _keep(self, entries: Sequence[SoundEntry]) -> None:
        await self.driver.store(entries)
        self._interest(checked.schema_id for checked in entries)

    # Connections.

    @contextlib.asynccontextmanager
    async def serve(self, address: Address = ("127.0.0.1", 0)) -> AsyncIterator[Listener]:
        """Accept connections while the context lasts; every proven key may come in."""
        async with serve(address, self._identity, self._transport, self.driver.serve, alpn=ALPN) as listener:
            yield listener

    def dial(self, address: Address, expected_peer_id: bytes | None = None) -> asyncio.Task[None]:
        """Keep a connection, dialling again when it ends; cancel the task to stop."""
        return self._start(
            keep_connected(
                self.driver,
                address,
                self._identity,
                self._transport,
                alpn=ALPN,
                expected_peer_id=expected_peer_id,
            )
        )

    async def sync(
        self,
        address: Address,
        *,
        expected_peer_id: bytes | None = None,
        progress: Callable[[SyncSummary], None] = lambda _: None,
        quiet_s: float = QUIET_S,
    ) -> SyncSummary:
        """Catch up with one remote, both ways, then leave.

        `quiet_s`: how long the remote has to begin serving schemas of ours that it does not serve.

        Raises `ConnectError` when there is none to talk to, `SyncFailed` when the connection ends before the
        remote has taken everything, or when sessions fail again and again.
        """
        started_s = time.monotonic()
        connection = await connect(address, self._identity, expected_peer_id, self._transport, alpn=ALPN)
        watch = SyncWatch(connection.peer_id, self, progress, quiet_s)
        self.listeners.append(watch.on_event)
        serving = self._start(self.driver.serve(connection))
        try:
            finished = asyncio.ensure_future(watch.finished())
            await asyncio.wait({serving, finished}, return_when=asyncio.FIRST_COMPLETED)
            finished.cancel()
            link = self.driver.links.open.get(connection.peer_id)
            if not finished.done() or finished.cancelled() or link is None:
                raise SyncFailed(f"the connection ended before the end: {connection.close_reason}")
            finished.result()
            await self.driver.drained()
            reason = await leave(self.driver.peer, link)
            if reason is not None and not (reason.application and reason.code == CloseCode.NORMAL):
                raise SyncFailed(f"the connection ended before the remote had taken everything: {reason}")
            await self.driver.drained()
            watch.update(link)
            watch.summary.duration_s = time.monotonic() - started_s
            progress(watch.summary)
        finally:
            self.listeners.remove(watch.on_event)
            await connection.close(CloseCode.NORMAL)
            await asyncio.wait({serving})
        return watch.summary

    # What it holds.

    @property
    def announced(self) -> frozenset[str]:
        """The schemas that this peer announces."""
        return frozenset(self._announced)

    def heights(self, schema_ids: Iterable[str] | None = None) -> dict[LogKey, int]:
        """The height of every log held."""
        names = self.store.schema_ids() if schema_ids is None else tuple(schema_ids)
        return {(key, log_id): height for key, log_id, height in self.store.log_heights(names)}

    def holds(self, heights: Mapping[LogKey, int]) -> bool:
        """Whether every log is held at least up to this height."""
        return all(self.store.height(*log) >= height for log, height in heights.items())

    async def wait_until_holding(self, heights: Mapping[LogKey, int], timeout_s: float) -> None:
        """Wait until every log is held up to this height.

        Raises `TimeoutError`.
        """
        async with asyncio.timeout(timeout_s):
            while not self.holds(heights):
                self._changed.clear()
                await self._changed.wait()

    # What the driver asks of its sink and observer.

    async def store_arrivals(self, arrivals: Sequence[Arrival], sender: object) -> Sequence[SoundEntry]:
        """Store the entries that remotes sent; returns those that could not be stored."""
        commit = await self.index.write(arrival.checked for arrival in arrivals)
        self._notify_stored(commit.stored)
        return [*commit.conflicts, *commit.gaps]

    def on_event(self, event: PeerEvent) -> None:
        """Pass an event of the protocol to the listeners."""
        if isinstance(event, Announced):
            self._interest(event.schema_ids)
        for listener in self.listeners:
            listener(event)

    wants_deliveries = False

    def on_gone(self, remote: bytes) -> None:
        """Do nothing: what a remote announced stays announced after it has left."""

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A reference peer keeps no receipts."""

    def _interest(self, schema_ids: Iterable[str]) -> None:
        new = set(schema_ids) - self._announced
        if self._takes_all and new:
            self._announced |= new
            self.driver.announce(normalise(self._announced))

    def _notify_stored(self, entries: Sequence[SoundEntry]) -> None:
        self._changed.set()
        if entries:
            for listener in self.stored_listeners:
                listener(entries)
