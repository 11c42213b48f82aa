"""One connection as its owner sees it, and what the owner adds to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from culm_connectors.bamboo_p2p.session import BambooSession
from culm_connectors.edge.fair_turns import FairWorker, caller_address
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes, Connection
from culm_models.bamboo_p2p.errors import NoCredit, Unanswered
from culm_models.bamboo_p2p.events import BambooP2pEvent, SetupRead
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.wire.messages import CancelCode


class News(NamedTuple):
    """What a step has changed on one connection: events, and whether something is to be sent."""

    events: list[BambooP2pEvent]
    control_is_due: bool
    data_is_due: bool


class RemotePeer:
    """One connection; made by `BambooPeer`. `is_proactive`: this side called.

    `principal` is who is there as far as that is proven, `name` this one connection.
    """

    def __init__(
        self, name: str, session: BambooSession, worker: FairWorker, *, is_proactive: bool, principal: str
    ) -> None:
        self.name = name
        self.principal = principal
        self.address = caller_address()
        """The neighbourhood that it calls from; empty for one that is called."""
        self.session = session
        self.is_proactive = is_proactive
        self.is_set_up = False
        """Whether the other end has said what it takes."""
        self.is_held_back = False
        """Whether it cannot send because there is no room here: that is not its standing still."""
        self.ended = asyncio.Event()
        self._worker = worker
        self._changed = asyncio.Event()
        self._credit: int | None = None

    async def open_requests(self) -> int:
        """How many requests of this connection are not freed."""
        return await self._worker.call(lambda: len(self.session.connection.requests))

    async def propose(self, wanted: RequestedRange) -> int | None:
        """Ask for a range, once the other end takes a proposal; the request's id, None if it is gone.

        Raises `CallRefused` and `RangeViolated`.
        """
        request = await self.request(wanted)
        return None if request is None else request.id

    async def request(self, wanted: RequestedRange) -> Request | None:
        """As `propose`: the request itself, which is to be looked at in `BambooPeer.work` alone."""

        def step() -> Request:
            connection = self.session.connection
            request_id = connection.propose(wanted)
            return next(one for one in connection.requests_for(wanted.log) if one.id == request_id)

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
        """End the connection in good order."""
        self.session.stop()

    def news(self, connection: Connection, events: list[BambooP2pEvent]) -> News | None:
        """In the thread that works on the logs: what a step has changed, None where that is nothing."""
        news = News(events, bool(connection.control_waiting), connection.data_is_due)
        # Who waits with a proposal waits for credit, or for an answer.
        former, self._credit = self._credit, connection.credit
        return news if any(news) or former != self._credit else None

    def take_news(self, news: News) -> None:
        """Something has changed."""
        self.session.wake(control=news.control_is_due, data=news.data_is_due)
        self.is_set_up = self.is_set_up or any(isinstance(event, SetupRead) for event in news.events)
        self._changed.set()

    def gone(self) -> None:
        """The connection is over."""
        self.ended.set()
        self._changed.set()


class PeerHooks:
    """What the owner of a peer adds to its connections: the edge, Kafka behind them. This adds nothing."""

    def watching(self) -> AbstractContextManager[None]:
        """Make the context of one step of work on the store, in the thread that works on the logs."""
        return nullcontext()

    def begun(self, remote: RemotePeer) -> None:
        """A connection is there, before anything is said on it."""

    def settled(
        self, brought: Sequence[tuple[str, Changes]], told: Mapping[str, Sequence[BambooP2pEvent]]
    ) -> None:
        """In the thread that works on the logs, behind each step: what each connection changed, and told.

        What is done to the store here is in one transaction with it.
        """

    def may_drop(self, log: LogKey, seq_num: int) -> bool:
        """In that thread: whether retention may drop a payload."""
        return True

    def dropped(self, payloads: Sequence[tuple[LogKey, int]]) -> None:
        """In that thread: retention dropped these payloads; their entries stay."""

    async def until_room(self, remote: RemotePeer) -> None:
        """Return once further data of a connection may be read."""

    def ended(self, remote: RemotePeer) -> None:
        """In that thread: a connection is over, and nothing more comes of it."""
