"""Closes one protocol whose local store has failed, and opens it again, while the others go on.

A store that cannot be written is opened again when its disk has space, even if it could not be opened when
the connector started. A damaged store is opened again at once, which sets it aside or drops it, to be
refilled from topics (`local_store.refilled_folder`, `local_store.opening`). A service that protocols share is
closed with them. Meanwhile connections are refused with `store_unusable` (0x104), and readiness reports the
reason.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, Doors
from culm_connectors.edge.opening.shared_services import UsedService
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, Opening
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import TopicReader
from culm_connectors.local_store.errors import LocalStoreError, StoreDamaged, StoreFull, StoreUnusable
from culm_connectors.local_store.store_guard import has_space, store_failure
from culm_models.errors import CulmError

logger = logging.getLogger(__name__)

RETRY_INTERVAL_S: Final = 5.0
"""Pause before each attempt to open a store again that could not be written, in seconds."""


class ClosedProtocol:
    """Stands for a protocol while its store is closed. Implements `EdgeProtocol`."""

    doors: Sequence[Door] = ()
    topics: Sequence[str] = ()
    readers: Sequence[TopicReader] = ()

    def __init__(self, reason: str, latest: ProtocolMetrics) -> None:
        self._reason = reason
        self._latest = latest

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Do nothing."""

    def why_not_ready(self) -> Sequence[str]:
        """Return why the store is closed."""
        return [self._reason]

    def measured(self) -> ProtocolMetrics:
        """Return the counts as they were when the protocol was closed, without connections."""
        return replace(self._latest, connections=0)

    def metrics(self) -> Iterator[Metric]:
        """Return no metrics."""
        return iter(())

    def status(self) -> ProtocolStatus:
        """Return that nobody is connected."""
        return ProtocolStatus()

    def judge_again(self, former: AccessList) -> None:
        """Do nothing: there are no connections."""

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return nothing: there are no connections."""
        return ()

    async def finish(self, reason: str) -> None:
        """Do nothing: there are no connections."""


class ReopenedProtocol:
    """One protocol of a connector; an asynchronous context manager that opens it, if the settings enable it.

    `protocols` is the connector's table, in which this keeps the protocol's entry current.
    """

    def __init__(
        self,
        name: str,
        opening: Opening,
        context: EdgeContext,
        protocols: MutableMapping[str, EdgeProtocol],
    ) -> None:
        self.name = name
        self._opening = opening
        self._context = context
        self._protocols = protocols
        self._stack = AsyncExitStack()
        self._services: Sequence[UsedService] = ()
        self._failure: LocalStoreError | None = None
        """Error with which it could not be opened at the start."""

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except Exception as error:
            self._failure = self._failure_of(error)
            if self._failure is None:
                raise
            self._stand_in(self._failure, ProtocolMetrics())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            context = replace(self._context, stack=stack, services=[])
            if (opening := self._opening(context)) is not None:
                protocol = await stack.enter_async_context(opening)
                self._stack, self._services = stack.pop_all(), context.services
                self._protocols[self.name] = protocol

    async def run(self, doors: Doors, ready: Callable[[EdgeProtocol], Awaitable[None]]) -> None:
        """Run the protocol until cancelled, again after each failure of its store. Raises any other error."""
        if self._failure is not None:
            await self._reopen(self._failure)
        while (protocol := self._protocols.get(self.name)) is not None:
            try:
                await self._run_once(protocol, ready)
            except Exception as error:
                failure = self._failure_of(error)
                if failure is None:
                    raise
            else:
                return
            await self._close(protocol, doors, failure)
            await self._reopen(failure)

    async def _run_once(
        self, protocol: EdgeProtocol, ready: Callable[[EdgeProtocol], Awaitable[None]]
    ) -> None:
        async def is_ready() -> None:
            await ready(protocol)

        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(used.failed()) for used in self._services]
            await protocol.run(is_ready)
            for task in watching:
                task.cancel()

    def _stand_in(self, failure: LocalStoreError, latest: ProtocolMetrics) -> None:
        """Replace the protocol by one that reports why it is closed."""
        logger.error("%s is closed until its store is usable: %s (%s)", self.name, failure, failure.code)
        reason = f"{self.name}: {failure} ({failure.code})"
        self._protocols[self.name] = ClosedProtocol(reason, latest)

    async def _close(self, protocol: EdgeProtocol, doors: Doors, failure: LocalStoreError) -> None:
        self._stand_in(failure, protocol.measured())
        # Peers learn what has happened, but no paths.
        doors.close(protocol.doors, f"the local store of {self.name} cannot be used ({failure.code})")
        try:
            await self._stack.__aexit__(type(failure), failure, failure.__traceback__)
        except (CulmError, OSError, sqlite3.Error) as error:
            logger.warning("closing the store of %s: %s", self.name, error)
        self._stack = AsyncExitStack()

    async def _reopen(self, failure: LocalStoreError) -> None:
        self._context = self._context.renewed()
        is_damaged = isinstance(failure, StoreDamaged)
        while True:
            if not is_damaged:
                await asyncio.sleep(RETRY_INTERVAL_S)
                if not await asyncio.to_thread(has_space, self._context.settings.directory):
                    continue
            try:
                await self._open()
            except (CulmError, OSError, sqlite3.Error, KafkaException) as error:
                logger.error("%s cannot be opened yet: %s", self.name, error)
                is_damaged = False
            else:
                logger.info("%s is opened again", self.name)
                return

    def _failure_of(self, error: BaseException) -> LocalStoreError | None:
        """Return the failure of a store among the errors of a group."""
        if isinstance(error, BaseExceptionGroup):
            return next(filter(None, map(self._failure_of, error.exceptions)), None)
        if isinstance(error, StoreDamaged | StoreFull | StoreUnusable):
            return error
        # Files without a guard: an error there is not taken for damage.
        failure = store_failure(self._context.settings.directory, error)
        return failure if isinstance(failure, StoreFull) else None
