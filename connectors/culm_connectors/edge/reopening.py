"""Closes one protocol whose local store has failed, and opens it again, while the others go on.

A store that cannot be written is opened again when its disk has space. One that is damaged is opened again at
once, which sets it aside to be refilled from topics (`local_store.refilled_folder`, `local_store.opening`).
Meanwhile callers are refused with `not_ready` (0x103), and readiness says why.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, Doors
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, Opening
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.kafka import TopicReader
from culm_connectors.local_store.errors import LocalStoreError, StoreDamaged, StoreFull
from culm_connectors.local_store.store_guard import has_space
from culm_models.errors import CulmError

logger = logging.getLogger(__name__)

RETRY_INTERVAL_S: Final = 5.0
"""Pause before each attempt to open a store again that could not be written."""


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
        """Why the store is closed."""
        return [self._reason]

    def measured(self) -> ProtocolMetrics:
        """The numbers as they were when it was closed."""
        return self._latest

    def metrics(self) -> Iterator[Metric]:
        """Nothing."""
        return iter(())

    def judge_again(self, former: AccessList) -> None:
        """Do nothing: nobody is connected."""

    async def finish(self, reason: str) -> None:
        """Do nothing: nobody is connected."""


class ReopenedProtocol:
    """One protocol of a connector; an asynchronous context manager that opens it, if the settings want it.

    `protocols` is the connector's table, whose entry is kept up.
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

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _open(self) -> None:
        if (opening := self._opening(self._context)) is not None:
            self._protocols[self.name] = await self._stack.enter_async_context(opening)

    async def run(self, doors: Doors, ready: Callable[[EdgeProtocol], Awaitable[None]]) -> None:
        """Run it until cancelled, again after each failure of its store. Raises whatever else ends it."""
        while (protocol := self._protocols.get(self.name)) is not None:

            async def is_ready(protocol: EdgeProtocol = protocol) -> None:
                await ready(protocol)

            try:
                await protocol.run(is_ready)
            except Exception as error:
                failure = _failure_of(error)
                if failure is None:
                    raise
            else:
                return
            await self._close(protocol, doors, failure)
            await self._reopen(failure)

    async def _close(self, protocol: EdgeProtocol, doors: Doors, failure: LocalStoreError) -> None:
        reason = f"{self.name}: {failure} ({failure.code})"
        logger.error("%s is closed until its store is usable: %s (%s)", self.name, failure, failure.code)
        self._protocols[self.name] = ClosedProtocol(reason, protocol.measured())
        doors.close(protocol.doors, reason)
        try:
            await self._stack.__aexit__(type(failure), failure, failure.__traceback__)
        except (CulmError, OSError, sqlite3.Error) as error:
            logger.warning("closing the store of %s: %s", self.name, error)
        self._stack = AsyncExitStack()

    async def _reopen(self, failure: LocalStoreError) -> None:
        is_full = isinstance(failure, StoreFull)
        while True:
            if is_full:
                await asyncio.sleep(RETRY_INTERVAL_S)
                if not await asyncio.to_thread(has_space, self._context.settings.directory):
                    continue
            try:
                await self._open()
            except (CulmError, OSError, sqlite3.Error, KafkaException) as error:
                logger.error("%s cannot be opened yet: %s", self.name, error)
                is_full = True
            else:
                logger.info("%s is opened again", self.name)
                return


def _failure_of(error: BaseException) -> LocalStoreError | None:
    """The failure of a store among the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_failure_of, error.exceptions)), None)
    # The index of replicated logs has types of its own: several protocols share it, so it ends the connector.
    return error if isinstance(error, LocalStoreError) and type(error) in (StoreFull, StoreDamaged) else None
