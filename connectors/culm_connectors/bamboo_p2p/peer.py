"""A peer to embed: a folder of logs, connections in both directions, and events."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

from culm_connectors.bamboo_p2p import author
from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.dial import dial, listening
from culm_connectors.bamboo_p2p.errors import FolderInUse
from culm_connectors.bamboo_p2p.following import Following, ask_for
from culm_connectors.bamboo_p2p.interest import FollowedLog, proposals
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
from culm_connectors.bamboo_p2p.policy.enforcement import PolicyEnforcement
from culm_connectors.bamboo_p2p.policy.retention import Retention
from culm_connectors.bamboo_p2p.remote_peer import PeerHooks, RemotePeer
from culm_connectors.bamboo_p2p.session import BambooSession, Trace, no_trace, now_ms
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.signatures import verify_in_threads
from culm_connectors.bamboo_p2p.step_effects import Listener, StepEffects
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.spool_capacity import SpoolCapacity
from culm_connectors.edge.fair_turns import FairWorker
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.transport import Identity
from culm_connectors.transport.reconnect import keep_trying
from culm_connectors.url import Url
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import KeyPair

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


class BambooPeer:
    """A folder of logs and its connections, created by `open`. For one event loop."""

    def __init__(
        self,
        store: FolderStore,
        settings: BambooPeerSettings,
        identity: Identity,
        hooks: PeerHooks | None = None,
        policy: FolderPolicy | None = None,
    ) -> None:
        # A payload larger than its sender's share of the spool could never be completed.
        default_policy = settings.connection.policy
        otherwise = replace(default_policy, max_size=min(default_policy.max_size, store.shares.peer_bytes))
        self.identity = identity
        self.settings = settings
        self.listeners: list[Listener] = []
        self.remotes: dict[str, RemotePeer] = {}
        self._store = store
        self._hooks = hooks or PeerHooks()
        connection = replace(settings.connection, policy=otherwise)
        self._peer = Peer(store, connection, verify_signatures=verify_in_threads)
        self._retention = Retention(policy, store, self._hooks.may_drop)
        self.enforcement = PolicyEnforcement(policy, store, otherwise)
        self._spool = SpoolCapacity(
            store, timeout_s=settings.spool_timeout_s, expires_s=settings.spool_expires_s
        )
        effects = StepEffects(
            self._peer,
            store,
            self._spool,
            self.enforcement,
            self._hooks,
            self.remotes,
            self.listeners,
        )
        self._worker = FairWorker(
            "bamboo",
            after=effects.settle,
            watching=self._hooks.watching,
            busy_share=settings.busy_share,
            busy_burst_s=settings.busy_burst_s,
        )
        self._following = Following(
            store, self._worker, self.enforcement, self.remotes, settings.progress_timeout_s
        )
        self._numbers = count(1)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        *,
        flavour: HashFlavour | None = None,
        identity: Identity | None = None,
        settings: BambooPeerSettings | None = None,
        policy: FolderPolicy | None = None,
    ) -> AsyncIterator[Self]:
        """Open the peer of a folder. Its connections end with the context.

        With a flavour, a missing folder is created. `identity` is presented over QUIC; the default is a new
        random one. With `policy` None every peer may read and write everything. Raises `FolderError`,
        `FolderInUse`.
        """
        settings = settings or BambooPeerSettings()
        store = FolderStore(
            folder,
            flavour,
            max_spool_bytes=settings.max_spool_bytes,
            max_spool_bytes_per_peer=settings.max_spool_bytes_per_peer,
        )
        try:
            async with cls.over(store, identity=identity, settings=settings, policy=policy) as peer:
                yield peer
        finally:
            store.close()

    @classmethod
    @asynccontextmanager
    async def over(
        cls,
        store: FolderStore,
        *,
        identity: Identity | None = None,
        settings: BambooPeerSettings | None = None,
        hooks: PeerHooks | None = None,
        policy: FolderPolicy | None = None,
    ) -> AsyncIterator[Self]:
        """Create the peer of an open store. It is the store's only user; the caller closes the store.

        Raises `FolderInUse`.
        """
        settings = settings or BambooPeerSettings()
        lock = FolderLock(
            store.folder,
            lambda: FolderInUse(
                f"another process holds connections over {store.folder}",
                hint="publish, import and drop work beside it; end it to sync or serve",
            ),
            file_name="connections.lock",
        )
        try:
            peer = cls(store, settings, identity or Identity.from_private_key(os.urandom(32)), hooks, policy)
            refreshing = asyncio.create_task(peer._keep_refreshed())
            following = asyncio.create_task(peer._following.run())
            for task in (refreshing, following):
                task.add_done_callback(_log_failure)
            try:
                yield peer
            finally:
                refreshing.cancel()
                following.cancel()
                await asyncio.gather(refreshing, following, return_exceptions=True)
                await peer._worker.stop(store.commit)
        finally:
            lock.release()

    # Logs.

    async def read(self, question: Callable[[FolderStore], _T]) -> _T:
        """Return the answer of the store, which nothing in this process changes meanwhile."""
        return await self._worker.call(lambda: question(self._store))

    async def work(self, step: Callable[[Peer], _T]) -> _T:
        """Run a step that changes the store, alone and in one transaction; then notify the connections."""
        return await self._worker.call(lambda: step(self._peer))

    async def publish(
        self, key_pair: KeyPair, log_id: int, payload: bytes, *, end_of_log: bool = False
    ) -> HeldEntry:
        """Sign the next entry of an own log and send it to the peers that follow the log.

        Raises `LogEnded`, `LogIncomplete`.
        """

        def step() -> HeldEntry:
            with self._store.exclusively():
                signed = author.publish(self._store, key_pair, log_id, payload, end_of_log=end_of_log)
            log = (signed.entry.public_key, signed.entry.log_id)
            self._peer.notify_connections(Changes([(log, signed.entry.seq_num)]))
            return signed

        return await self._worker.call(step)

    async def add(self, entries: list[NewEntry]) -> None:
        """Verify and store entries from another source. Raises `BambooError`."""
        await self._worker.call(lambda: self._peer.add(entries))

    async def follow(self, interest: FollowedLog) -> None:
        """Ask all peers that this side calls, now and later, for a log's missing and new entries.

        One peer sends them, and the others announce what they have. A sender that stalls is replaced.
        """
        self._following.add(interest)

    async def ask(self, remote: RemotePeer, interest: FollowedLog) -> list[Request]:
        """Ask one peer for what is missing of a log, regardless of other sources. Returns the requests."""

        def step() -> list[RequestedRange]:
            allowed = self.enforcement.allowed(remote.principal, interest)
            self.enforcement.followed.add(interest.log)
            return [] if allowed is None else proposals(allowed, self._store)

        return await ask_for(remote, await self._worker.call(step))

    async def pause(self, name: str, *, is_paused: bool = True) -> None:
        """Pause the exchange of a log (`log_name`) or with a principal. `is_paused` False resumes it."""

        def step() -> None:
            self._store.pause(name, is_paused=is_paused)
            self._enforce()

        await self._worker.call(step)
        self._following.look_again()

    async def use_policy(self, policy: FolderPolicy | None) -> None:
        """Apply another policy, also to the requests in progress."""

        def step() -> None:
            self._retention.use(policy)
            self.enforcement.use(policy)
            self._enforce()

        await self._worker.call(step)
        self._following.look_again()

    # Connections.

    @asynccontextmanager
    async def listen(self, url: Url) -> AsyncIterator[Url]:
        """Accept peers while the context lasts. Yields the address with the bound port.

        Raises `AddressError`, `IdentityError`.
        """

        async with listening(url, self._store.flavour, self.identity, self.settings, self.serve) as bound:
            yield bound

    async def serve(self, channels: TwoChannels) -> None:
        """Serve a peer that has connected until the connection ends."""
        await self._speak(self._begin(channels, is_proactive=False), channels)

    @asynccontextmanager
    async def connect(self, url: Url, *, trace: Trace = no_trace) -> AsyncIterator[RemotePeer]:
        """Connect to a peer. The connection ends with the context. Raises `TransportError`."""
        channels = await dial(url, self._store.flavour, self.identity, self.settings)
        remote = self._begin(channels, is_proactive=True, trace=trace)
        speaking = asyncio.create_task(self._speak(remote, channels))
        try:
            yield remote
        finally:
            speaking.cancel()
            with suppress(asyncio.CancelledError):
                await speaking

    async def keep_connected(self, url: Url, until: asyncio.Event | None = None) -> None:
        """Keep a connection to a peer and reconnect when it ends, until cancelled or the event is set."""

        async def attempt() -> bool:
            channels = await dial(url, self._store.flavour, self.identity, self.settings)
            remote = self._begin(channels, is_proactive=True)
            await self._speak(remote, channels)
            return remote.is_set_up and remote.session.connection.dropped is None

        await keep_trying(attempt, name=str(url), until=until)

    def _begin(self, channels: TwoChannels, *, is_proactive: bool, trace: Trace = no_trace) -> RemotePeer:
        name = f"{channels.remote} #{next(self._numbers)}"
        answers = self.enforcement.answers_for(channels.remote)
        connection = self._peer.connect(name, is_proactive=is_proactive, now_ms=now_ms(), answers=answers)
        session = BambooSession(
            connection,
            channels,
            self._worker,
            self.settings,
            partial(self._wait_for_capacity, name),
            partial(self._store.shares.received_from, channels.remote),
            trace,
        )
        remote = RemotePeer(name, session, self._worker, is_proactive=is_proactive, principal=channels.remote)
        self.remotes[name] = remote
        self._hooks.begun(remote)
        return remote

    async def _speak(self, remote: RemotePeer, channels: TwoChannels) -> None:
        self._following.look_again()
        try:
            await remote.session.run()
        finally:
            if remote.session.error is not None:
                _LOGGER.info("%s: %s", remote.name, remote.session.error)
            del self.remotes[remote.name]
            remote.gone()
            self._following.look_again()
            await self._worker.call(lambda: self._forget(remote))

    def _forget(self, remote: RemotePeer) -> None:
        self._peer.disconnect(remote.name)
        self._hooks.ended(remote)
        others = tuple(self.remotes.values())
        if all(remaining.principal != remote.principal for remaining in others):
            self._peer.notify_connections(self._spool.drop_of(remote.principal))
        if all(remaining.address != remote.address for remaining in others):
            self._peer.notify_connections(self._spool.drop_from(remote.address))

    # Internals.

    async def _wait_for_capacity(self, name: str) -> None:
        """Wait until further data of a remote may be read."""
        remote = self.remotes[name]
        remote.is_held_back = True
        await self._spool.wait_for_capacity(remote.principal)
        await self._hooks.wait_for_capacity(remote)
        await self._worker.until_allowed()
        remote.is_held_back = False

    async def _keep_refreshed(self) -> None:
        """Regularly read what other processes have committed, drop expired data and enforce the policy."""

        def step() -> bool:
            if changes := self._store.refresh():
                self._peer.notify_connections(changes)
            if dropped := self._retention.drop_due():
                self._hooks.dropped(dropped)
                self._peer.notify_connections(Changes(dropped))
            self._peer.notify_connections(self._spool.drop_expired())
            return self._enforce()

        while True:
            await asyncio.sleep(self.settings.refresh_s)
            if await self._worker.call(step):
                self._following.look_again()

    def _enforce(self) -> bool:
        """End requests that the rules no longer allow. Returns whether new requests may be possible."""
        has_new_logs = self.enforcement.has_new_logs()
        if not self.enforcement.has_changed():
            return has_new_logs
        for remote in tuple(self.remotes.values()):
            self.enforcement.enforce(remote.principal, remote.session.connection)
        return True


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the failure of a peer's task at once, since the task is only awaited when the peer is closed."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOGGER.error("the peer looks for nothing new any more: %s", error, exc_info=error)
