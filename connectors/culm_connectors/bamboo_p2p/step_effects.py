"""Effects of a step on the logs: its commit, charged quotas, and effects on connections and listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from culm_connectors.bamboo_p2p.policy.enforcement import PolicyEnforcement
from culm_connectors.bamboo_p2p.remote_peer import ConnectionEffects, PeerHooks, RemotePeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.spool_capacity import SpoolCapacity
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.peer import Peer

Listener = Callable[[RemotePeer, BambooP2pEvent], None]
"""Receives the events of a connection."""


class StepEffects:
    """Effects of the steps of one peer. `remotes` and `listeners` may change between steps."""

    def __init__(
        self,
        peer: Peer,
        store: FolderStore,
        spool: SpoolCapacity,
        enforcement: PolicyEnforcement,
        hooks: PeerHooks,
        remotes: Mapping[str, RemotePeer],
        listeners: Sequence[Listener],
    ) -> None:
        self._peer = peer
        self._store = store
        self._spool = spool
        self._enforcement = enforcement
        self._hooks = hooks
        self._remotes = remotes
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()

    def settle(self) -> None:
        """Commit a step and report its changes to connections and listeners. Runs in the worker."""
        changes_of = self._peer.settle()
        # The loop adds and removes connections meanwhile. A new one is handled after the next step.
        connections = tuple(self._peer.connections.items())
        events_of = {name: connection.take_events() for name, connection in connections}
        self._hooks.settled(changes_of, events_of)
        self._store.commit()
        self._spool.settled()
        self._charge(events_of)
        effects_of = [
            (remote, effects)
            for name, connection in connections
            if (remote := self._remotes.get(name)) is not None
            and (effects := remote.effects_of(connection, events_of[name])) is not None
        ]
        if effects_of:
            self._loop.call_soon_threadsafe(self._report, effects_of)

    def _charge(self, events_of: Mapping[str, list[BambooP2pEvent]]) -> None:
        """Charge new entries and payloads to the quotas of their senders, and stop senders at their quota."""
        full = {
            remote.principal
            for name, events in events_of.items()
            if events
            and (remote := self._remotes.get(name)) is not None
            and self._enforcement.count(remote.principal, events)
        }
        for remote in tuple(self._remotes.values()) if full else ():
            if remote.principal in full:
                self._enforcement.enforce(remote.principal, remote.session.connection)

    def _report(self, effects_of: Sequence[tuple[RemotePeer, ConnectionEffects]]) -> None:
        for remote, effects in effects_of:
            if remote.ended.is_set():
                continue
            remote.apply_effects(effects)
            for event in effects.events:
                for listener in self._listeners:
                    listener(remote, event)
