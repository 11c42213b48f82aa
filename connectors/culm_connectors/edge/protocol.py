"""What a protocol gives to a connector, and what it gets.

`protocols` names for each protocol a function that opens it: it gets an `EdgeContext` and returns a context
manager of an `EdgeProtocol`, or None where the settings want none of it. What is opened is what holds files,
threads and clients; what waits for the network is in `run`. What several protocols work over is a room, which
is open for as long as one of them is (`EdgeContext.room`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from confluent_kafka.admin import AdminClient
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList, AccessWatch
from culm_connectors.edge.doors import Door
from culm_connectors.edge.opening.shared_rooms import Room, SharedRooms, UsedRoom
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.kafka import BatchProducer, Progress, TopicReader
from culm_connectors.settings import ConnectorSettings
from culm_models.bamboo.checks import PayloadFacts
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings

logger = logging.getLogger(__name__)

CONNECTOR_ID_RANDOM: Final = 8
"""Bytes at the end of a connector's id that are drawn at random."""


def log_progress(what: str, done: int, total: int) -> None:
    """Progress as log lines."""
    logger.info("%s: %d of %d records", what, done, total)


@dataclass(frozen=True, slots=True)
class EdgeContext:
    """What every protocol of a connector works with."""

    settings: ConnectorSettings
    kafka: KafkaSettings
    key_pair: KeyPair
    connector_id: bytes
    """Of one opening alone: what an earlier one produced before it was killed is not known to be indexed."""
    administration: AdminClient
    producer: BatchProducer
    access: AccessWatch
    read_payload_facts: Callable[[bytes], PayloadFacts]
    """Reads the facts of a payload in replicated logs. Raises `CulmError` if its owner refuses it."""
    progress: Progress
    starting: Callable[[str], None]
    """Says what an opening waits for."""
    stack: AsyncExitStack
    """Closes what the protocol has opened, the last first."""
    shared: SharedRooms = field(default_factory=SharedRooms)
    rooms: list[UsedRoom] = field(default_factory=list)
    """The rooms that the protocol uses."""

    async def room(self, opening: Callable[[EdgeContext], AbstractAsyncContextManager[Room]]) -> Room:
        """What `opening` opens for whoever asks first: everybody gets that one, and it outlives them."""
        used = await self.stack.enter_async_context(self.shared.use(opening, partial(opening, self)))
        self.rooms.append(used)
        room: Room = used.room
        return room

    def renewed(self) -> EdgeContext:
        """The context with another connector id."""
        fixed = self.connector_id[:-CONNECTOR_ID_RANDOM]
        return replace(self, connector_id=fixed + secrets.token_bytes(CONNECTOR_ID_RANDOM))


class EdgeProtocol(Protocol):
    """One protocol at the edge of one connector."""

    @property
    def doors(self) -> Sequence[Door]:
        """Where it is spoken; opened when it says that it is ready."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """Topics, by their names in the catalogue, whose ends are asked for, to measure `readers`."""
        ...

    @property
    def readers(self) -> Sequence[TopicReader]:
        """Those that read these topics now."""
        ...

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Do all that it does, until cancelled; `ready` opens its doors. An error ends the connector."""
        ...

    def why_not_ready(self) -> Sequence[str]:
        """Why no new peers should come, in words; from any thread."""
        ...

    def measured(self) -> ProtocolMetrics:
        """What every protocol is measured by, at the time of a scrape and in the scrape's thread."""
        ...

    def metrics(self) -> Iterator[Metric]:
        """What it alone measures, in families that begin with `culm_` and its name; called as `measured`."""
        ...

    def judge_again(self, former: AccessList) -> None:
        """Other rules are in force: connections that are no longer allowed what they do are closed."""
        ...

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until what was taken from them is kept."""
        ...


Opening = Callable[[EdgeContext], AbstractAsyncContextManager[EdgeProtocol] | None]


async def until_cancelled() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()
