"""The interface between a protocol and a connector.

`protocols` names for each protocol a function that opens it: it takes an `EdgeContext` and returns a context
manager of an `EdgeProtocol`, or None if the settings do not enable it. Opening covers files, threads and
clients; work that waits for the network is in `run`. A service that several protocols use is open for as long
as one of them is (`EdgeContext.shared_service`).
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
from culm_connectors.edge.opening.shared_services import Service, SharedServices, UsedService
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import BatchProducer, Progress, TopicReader
from culm_connectors.settings import ConnectorSettings
from culm_models.bamboo.checks import PayloadFacts
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings

logger = logging.getLogger(__name__)

CONNECTOR_ID_RANDOM: Final = 8
"""Number of random bytes at the end of a connector's id."""


def log_progress(what: str, done: int, total: int) -> None:
    """Log progress."""
    logger.info("%s: %d of %d records", what, done, total)


@dataclass(frozen=True, slots=True)
class EdgeContext:
    """Resources of a connector for each of its protocols."""

    settings: ConnectorSettings
    kafka: KafkaSettings
    key_pair: KeyPair
    connector_id: bytes
    """Id of one opening alone: data that an earlier one produced before it was killed may not be indexed."""
    administration: AdminClient
    producer: BatchProducer
    access: AccessWatch
    read_payload_facts: Callable[[bytes], PayloadFacts]
    """Reads the facts of a payload in replicated logs. Raises `CulmError` if its owner refuses it."""
    progress: Progress
    starting: Callable[[str], None]
    """Reports what an opening waits for."""
    stack: AsyncExitStack
    """Closes the resources that the protocol has opened, in reverse order."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the process drains and no further connections are accepted or dialled."""
    shared: SharedServices = field(default_factory=SharedServices)
    services: list[UsedService] = field(default_factory=list)
    """The services that the protocol uses."""

    async def shared_service(
        self, opening: Callable[[EdgeContext], AbstractAsyncContextManager[Service]]
    ) -> Service:
        """Return the service of `opening`, which the first protocol opens and all others share.

        It stays open until the last protocol has left it, also if the first one leaves earlier.
        """
        used = await self.stack.enter_async_context(self.shared.use(opening, partial(opening, self)))
        self.services.append(used)
        service: Service = used.service
        return service

    def renewed(self) -> EdgeContext:
        """Return the context with another connector id."""
        fixed = self.connector_id[:-CONNECTOR_ID_RANDOM]
        return replace(self, connector_id=fixed + secrets.token_bytes(CONNECTOR_ID_RANDOM))


class EdgeProtocol(Protocol):
    """One protocol at the edge of one connector."""

    @property
    def doors(self) -> Sequence[Door]:
        """Return its doors; they are opened when the protocol is ready."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """Return topics, by their names in the catalogue, whose ends are requested to measure `readers`."""
        ...

    @property
    def readers(self) -> Sequence[TopicReader]:
        """Return the readers of these topics that are open now."""
        ...

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Run the protocol until cancelled; `ready` opens its doors. An error ends the connector."""
        ...

    def why_not_ready(self) -> Sequence[str]:
        """Return why no new peers should connect, in words; from any thread."""
        ...

    def measured(self) -> ProtocolMetrics:
        """Return the metrics that every protocol has, at the time of a scrape and in the scrape's thread."""
        ...

    def metrics(self) -> Iterator[Metric]:
        """Return its own metrics, in families named `culm_` and its name; called like `measured`."""
        ...

    def status(self) -> ProtocolStatus:
        """Return who is connected now, for the status socket; from any thread."""
        ...

    def judge_again(self, former: AccessList) -> None:
        """Close the connections that are no longer allowed by the new rules."""
        ...

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one open connection, for a process that drains."""
        ...

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until everything received over them is kept."""
        ...


Opening = Callable[[EdgeContext], AbstractAsyncContextManager[EdgeProtocol] | None]


async def until_cancelled() -> None:
    """Wait forever."""
    await asyncio.Event().wait()
