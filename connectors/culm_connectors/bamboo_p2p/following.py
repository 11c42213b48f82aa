"""Asks connected peers for the followed logs, and adapts as peers connect, leave, stall, pause and resume."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from culm_connectors.bamboo_p2p.interest import (
    FollowedLog,
    first_missing,
    notifies_missing,
    offers,
    proposals,
)
from culm_connectors.bamboo_p2p.policy.enforcement import PolicyEnforcement
from culm_connectors.bamboo_p2p.policy.sources import Sighting, SourcePlan, SourceRole
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.edge.fair_turns import FairWorker
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.errors import CallRefused, RangeViolated
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import CancelCode, Eagerness

_LOGGER = logging.getLogger(__name__)
_REVIEW_S: Final = 0.5

Ask = Callable[[FolderStore], list[RequestedRange]]


class Following:
    """The followed logs of a peer, and the connections that it asks for them. `run` works until cancelled."""

    def __init__(
        self,
        store: FolderStore,
        worker: FairWorker,
        enforcement: PolicyEnforcement,
        remotes: Mapping[str, RemotePeer],
        timeout_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._worker = worker
        self._enforcement = enforcement
        self._remotes = remotes
        self._timeout_s = timeout_s
        self._clock_s = clock_s
        self._interests: list[FollowedLog] = []
        self._plans: dict[FollowedLog, SourcePlan] = {}
        self._offered: set[tuple[str, FollowedLog]] = set()
        self._asking: dict[str, list[FollowedLog]] = {}
        self._queues: dict[str, asyncio.Queue[tuple[FollowedLog, Ask]]] = {}
        self._due = asyncio.Event()
        self._has_choice = False
        """Whether a log has more than one source, so that their progress has to be watched."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, interest: FollowedLog) -> None:
        """Follow a log."""
        self._interests.append(interest)
        self._enforcement.followed.add(interest.log)
        self._due.set()

    def look_again(self) -> None:
        """Review the sources soon: a peer connected or left, or the rules changed."""
        self._due.set()

    async def run(self) -> None:
        """Review after each change, and regularly while a log has several sources, until cancelled."""
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REVIEW_S if self._has_choice else None):
                        await self._due.wait()
                self._due.clear()
                await self.review()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def review(self) -> None:
        """Decide what to ask the connected peers for, and queue it for each of them."""
        called = {name: remote for name, remote in self._remotes.items() if remote.is_proactive}
        for name in set(self._queues) - set(called):
            self._tasks.pop(name).cancel()
            del self._queues[name]
            self._asking.pop(name, None)
        self._offered = {(name, interest) for name, interest in self._offered if name in called}
        if not called:
            self._plans.clear()
            return
        asked = await self._worker.call(lambda: self._decide(called))
        for name, interest, ask in asked:
            self._queue(called[name]).put_nowait((interest, ask))

    # In the worker.

    def _decide(self, called: Mapping[str, RemotePeer]) -> list[tuple[str, FollowedLog, Ask]]:
        asked: list[tuple[str, FollowedLog, Ask]] = []
        sources = self._sources(called)
        for interest in set(self._plans) - set(sources):
            del self._plans[interest]
        wanted = {(name, allowed) for allowed_of in sources.values() for name, allowed in allowed_of.items()}
        self._offered &= wanted
        self._has_choice = any(len(allowed_of) > 1 for allowed_of in sources.values())
        for interest, allowed_of in sources.items():
            is_told = interest.eagerness is Eagerness.NOTIFY
            for name, allowed in allowed_of.items():
                if (name, allowed) not in self._offered:
                    self._offered.add((name, allowed))
                    asked.append((name, allowed, _ask_once(allowed, is_told=is_told)))
            pulls = {
                name: allowed
                for name, allowed in allowed_of.items()
                if allowed.direction is not Direction.PUSH and not is_told
            }
            plan = self._plans.setdefault(interest, SourcePlan(self._timeout_s))
            if plan.sender in pulls and len(pulls) == 1:
                continue
            seen = {name: self._sighting(called[name], allowed) for name, allowed in pulls.items()}
            for change in plan.decide(seen, self._clock_s()):
                if change.is_failover:
                    _LOGGER.info(
                        "%s sends nothing more of log %d: another one is asked",
                        change.source,
                        interest.log[1],
                    )
                connection = called[change.source].session.connection
                _end(connection, _pulls(connection, interest))
                asked.append((change.source, pulls[change.source], _ask(pulls[change.source], change.role)))
        for name, interest, _ in asked:
            self._asking.setdefault(name, []).append(interest)
        return asked

    def _sources(self, called: Mapping[str, RemotePeer]) -> dict[FollowedLog, dict[str, FollowedLog]]:
        """Return, by interest and connection name, the allowed part of the interest."""
        sources: dict[FollowedLog, dict[str, FollowedLog]] = {}
        for name, remote in called.items():
            interests: Iterable[FollowedLog] = (
                *self._interests,
                *self._enforcement.interests(remote.principal),
            )
            for interest in interests:
                allowed = self._enforcement.allowed(remote.principal, interest)
                if allowed is not None:
                    sources.setdefault(interest, {})[name] = allowed
                    self._enforcement.followed.add(interest.log)
        return sources

    def _sighting(self, remote: RemotePeer, interest: FollowedLog) -> Sighting:
        pulls = _pulls(remote.session.connection, interest)
        # A peer that is held back here is not stalled, so its time counts as progress.
        held_back = (self._clock_s(),) if remote.is_held_back else ()
        received: tuple[float, ...] = held_back + tuple(
            value
            for request in pulls
            if request.own.eagerness is not Eagerness.NOTIFY
            for value in (request.id, request.incoming.piece, request.incoming.offset)
        )
        return Sighting(
            received,
            is_asked=bool(pulls) or interest in self._asking.get(remote.name, ()),
            notifies_missing=any(notifies_missing(request, interest, self._store) for request in pulls),
        )

    # Each peer has a queue, and is asked for one thing after the other.

    def _queue(self, remote: RemotePeer) -> asyncio.Queue[tuple[FollowedLog, Ask]]:
        queue = self._queues.get(remote.name)
        if queue is None:
            queue = self._queues[remote.name] = asyncio.Queue()
            self._tasks[remote.name] = asyncio.create_task(self._ask_in_turn(remote, queue))
        return queue

    async def _ask_in_turn(self, remote: RemotePeer, queue: asyncio.Queue[tuple[FollowedLog, Ask]]) -> None:
        while True:
            interest, ask = await queue.get()
            await ask_for(remote, await self._worker.call(partial(ask, self._store)))
            with contextlib.suppress(KeyError, ValueError):
                self._asking[remote.name].remove(interest)


async def ask_for(remote: RemotePeer, wanted: Iterable[RequestedRange]) -> list[Request]:
    """Propose ranges to a peer as its credit allows. Returns the requests that were made."""
    requests: list[Request] = []
    for requested_range in wanted:
        try:
            request = await remote.request(requested_range)
        except (CallRefused, RangeViolated) as error:
            _LOGGER.info("%s: %s", remote.name, error)
            continue
        if request is not None:
            requests.append(request)
    return requests


def _ask(interest: FollowedLog, role: SourceRole) -> Ask:
    pull = replace(interest, direction=Direction.PULL)
    if role is SourceRole.SENDS:
        return lambda store: proposals(pull, store)
    if interest.direction is Direction.BOTH or interest.payload_only:
        # The answer to an offer says what the other end has. It cannot do so for payloads alone.
        return lambda _: []
    notified = replace(pull, eagerness=Eagerness.NOTIFY, threshold=None, sparse=False)
    return lambda store: proposals(replace(notified, start=first_missing(interest, store)), store)


def _ask_once(interest: FollowedLog, *, is_told: bool) -> Ask:
    """Return what every source is asked for: to announce its log, or to accept the held data."""
    if is_told:
        return lambda store: proposals(interest, store)
    return lambda _: [] if interest.direction is Direction.PULL else offers(interest)


def _pulls(connection: BambooConnection, interest: FollowedLog) -> list[Request]:
    """Return the own requests for the log of an interest that neither end has cancelled."""
    return [
        request
        for request in connection.requests_for(interest.log)
        if request.mine and not request.cancel_sent and not request.cancel_received
    ]


def _end(connection: BambooConnection, requests: Iterable[Request]) -> None:
    """Cancel the pull requests among these. Their replacements are proposed after this."""
    for request in requests:
        if request.direction is Direction.PULL:
            connection.cancel(request.id, CancelCode.DONE)
