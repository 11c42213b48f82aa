"""A connection as its owner sees it, and the hooks that the owner adds to all connections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from culm_connectors.bamboo_p2p.session import BambooSession
from culm_connectors.edge.fair_turns import FairWorker, caller_address
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection, Changes
from culm_models.bamboo_p2p.errors import NoCredit, Unanswered
from culm_models.bamboo_p2p.events import BambooP2pEvent, SetupRead
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.wire.messages import CancelCode


class ConnectionEffects(NamedTuple):
    """The effects of a step on one connection: events, and whether there is something to send."""

    events: list[BambooP2pEvent]
    control_is_due: bool
    data_is_due: bool


class RemotePeer:
    """One connection, created by `BambooPeer`. `is_proactive`: this side opened it.

    `principal` is the proven identity of the other end, `name` is unique to the connection.
    """

    def __init__(
        self, name: str, session: BambooSession, worker: FairWorker, *, is_proactive: bool, principal: str
    ) -> None:
        self.name = name
        self.principal = principal
        self.address = caller_address()
        """The network address from which it connected; empty if this side connected."""
        self.session = session
        self.is_proactive = is_proactive
        self.is_set_up = False
        """Whether the other end's setup has arrived."""
        self.is_held_back = False
        """Whether it cannot send because capacity is missing here; then it does not count as stalled."""
        self.ended = asyncio.Event()
        self._worker = worker
        self._changed = asyncio.Event()
        self._credit: int | None = None

    async def open_requests(self) -> int:
        """Return the number of requests of this connection that are not freed."""
        return await self._worker.call(lambda: len(self.session.connection.requests))

    async def propose(self, wanted: RequestedRange) -> int | None:
        """Propose a range once the other end's credit allows. Returns the request's id.

        Returns None if the connection has ended. Raises `CallRefused`, `RangeViolated`.
        """
        request = await self.request(wanted)
        return None if request is None else request.id

    async def request(self, wanted: RequestedRange) -> Request | None:
        """Propose a range like `propose`. Returns the request, for use in `BambooPeer.work` only."""

        def step() -> Request:
            connection = self.session.connection
            request_id = connection.propose(wanted)
            return next(
                request for request in connection.requests_for(wanted.log) if request.id == request_id
            )

        while not self.ended.is_set():
            self._changed.clear()
            try:
                return await self._worker.call(step)
            except (NoCredit, Unanswered):
                await self._changed.wait()
        return None

    async def cancel(self, request_id: int, code: CancelCode = CancelCode.DONE) -> None:
        """End a request. Raises `CallRefused`."""
        await self._worker.call(lambda: self.session.connection.cancel(request_id, code))

    def close(self) -> None:
        """End the connection cleanly."""
        self.session.stop()

    def effects_of(
        self, connection: BambooConnection, events: list[BambooP2pEvent]
    ) -> ConnectionEffects | None:
        """Return the effects of a step on the connection, or None. For the thread that works on the logs."""
        effects = ConnectionEffects(events, bool(connection.control_waiting), connection.data_is_due)
        # A waiting proposal waits for credit or for an answer.
        former, self._credit = self._credit, connection.credit
        return effects if any(effects) or former != self._credit else None

    def apply_effects(self, effects: ConnectionEffects) -> None:
        """Wake the session and waiting proposals after a step."""
        self.session.wake(control=effects.control_is_due, data=effects.data_is_due)
        self.is_set_up = self.is_set_up or any(isinstance(event, SetupRead) for event in effects.events)
        self._changed.set()

    def gone(self) -> None:
        """Mark the connection as ended."""
        self.ended.set()
        self._changed.set()


class PeerHooks:
    """Hooks of the owner of a peer, with which the edge connects peers to Kafka. This base does nothing."""

    def watching(self) -> AbstractContextManager[None]:
        """Make the context of one step of work on the store, in the thread that works on the logs."""
        return nullcontext()

    def begun(self, remote: RemotePeer) -> None:
        """Handle a new connection, before anything is sent on it."""

    def settled(
        self, changes_of: Sequence[tuple[str, Changes]], events_of: Mapping[str, Sequence[BambooP2pEvent]]
    ) -> None:
        """Handle each connection's changes and events after a step, in the thread that works on the logs.

        Changes made to the store here are in the same transaction as the step.
        """

    def may_drop(self, log: LogKey, seq_num: int) -> bool:
        """Whether retention may drop a payload. Runs in that thread."""
        return True

    def dropped(self, payloads: Sequence[tuple[LogKey, int]]) -> None:
        """Handle payloads that retention has dropped; their entries stay. Runs in that thread."""

    async def wait_for_capacity(self, remote: RemotePeer) -> None:
        """Return once further data of a connection may be read."""

    def ended(self, remote: RemotePeer) -> None:
        """Handle the end of a connection, after its last data. Runs in that thread."""
