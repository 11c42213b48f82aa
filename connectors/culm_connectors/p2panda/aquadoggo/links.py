"""A connector's links to p2panda nodes: a second driver over the same index and the same topics.

The dialect of these links is that of a whole peer (its announcements count in seconds, its sessions in small
numbers), so nodes have a peer of ours to themselves, under the same key. What they bring takes the way of
everything that peers bring and goes on to the connector's other peers; what they lack is found out by the
sessions that the nodes begin every few seconds, since they have no live mode. We begin none: a node that asks
at the same moment loses sessions over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from culm_connectors.edge.doors import Judge, Libp2pDoor
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.hub import Arrival
from culm_connectors.logs.index import IndexWriter
from culm_connectors.p2panda.aquadoggo.document_order import DocumentOrder
from culm_connectors.p2panda.connections.shared import Filter, Observer
from culm_connectors.p2panda.driver import Driver, SchemasOf, Sink
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport import Address, TransportSettings
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.connection import dial_libp2p
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.reconnect import keep_calling
from culm_models.bamboo.log_store import LogKey
from culm_models.keys import KeyPair
from culm_models.p2panda.events import PeerEvent
from culm_models.p2panda.ingest import Admit
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.wire.messages import LARGEST_READ_BYTES, MODE_LOG_HEIGHT

NODE_PROTOCOL = b"/p2p/p2panda/1.0.0"
"""Protocol id of p2panda's messages in libp2p's negotiation."""
# Before a node sends its heights, it reads every document that it holds: seconds for thousands.
_SESSION_TIMEOUT_MS = 600_000
_ANNOUNCE_INTERVAL_S = 1.0
# Every few seconds a node sends the refused entries again.
_REJECTS_PER_MINUTE = 6_000.0


@dataclass(frozen=True, slots=True)
class _WithoutDeliveries:
    """Passes all events to the connector except deliveries, since a node may drop entries."""

    observer: Observer
    wants_deliveries: bool = False

    def on_event(self, event: PeerEvent) -> None:
        self.observer.on_event(event)

    def on_gone(self, remote: bytes) -> None:
        self.observer.on_gone(remote)

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        raise AssertionError("deliveries are not asked for")


class NodeLinks:
    """The driver of a connector's links to nodes, its door and its calls."""

    def __init__(
        self,
        key_pair: KeyPair,
        *,
        schemas: Callable[[], Sequence[str]],
        index: IndexWriter,
        sink: Sink,
        observer: Observer,
        pool: CheckPool[OperationFacts],
        settings: DriverSettings,
        transport: TransportSettings,
        permit: Filter,
        schemas_of: SchemasOf,
        admit: Admit,
        settled: Callable[[Sequence[Arrival]], None],
    ) -> None:
        """`schemas` returns the schemas to announce now, for which the index is complete."""
        self._schemas = schemas
        self._transport = transport
        self._identity = Libp2pIdentity.from_private_key(key_pair.private_key)
        peer = Peer(
            key_pair.public_key,
            index.store,
            PeerSettings(
                live_mode=False,
                modes=(MODE_LOG_HEIGHT,),
                compat="aquadoggo",
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                # A node has no other mode, and sends all its heights in one message of any size.
                max_message_bytes=LARGEST_READ_BYTES,
                max_sessions_per_peer=settings.max_sessions_per_peer,
            ),
            admit=admit,
        )
        self.driver = Driver(
            peer,
            reader=index,
            sink=sink,
            observer=_WithoutDeliveries(observer),
            pool=pool,
            settings=settings.model_copy(update={"rejects_per_minute": _REJECTS_PER_MINUTE}),
            permit=permit,
            schemas_of=schemas_of,
            settled=settled,
            arrange=DocumentOrder(index.store, index).arrange,
        )

    async def run(self) -> None:
        """Drive the links and announce changes, until cancelled. Raises the errors of the sink."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.driver.run(), name="nodes")
            group.create_task(self._announce_for_ever(), name="nodes-announce")

    async def _announce_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_ANNOUNCE_INTERVAL_S)
            self.announce()

    def announce(self) -> None:
        """Announce the served schemas to the nodes if they have changed."""
        latest, schemas = self.driver.peer.announcement, tuple(self._schemas())
        if latest is None or latest.schema_ids != schemas:
            self.driver.announce(schemas)

    def door(self, address: Address, judge: Judge) -> Libp2pDoor:
        """Return the door at which nodes may call us."""
        return Libp2pDoor("libp2p", address, self.driver.serve, judge, self._identity, NODE_PROTOCOL)

    async def keep_calling(self, dial: Sequence[Multiaddr], until: asyncio.Event) -> None:
        """Hold a connection to each of these nodes, until cancelled or the event is set."""
        async with asyncio.TaskGroup() as group:
            for to in dial:
                call = partial(dial_libp2p, to, self._identity, self._transport, protocol=NODE_PROTOCOL)
                group.create_task(
                    keep_calling(self.driver, call, name=str(to), expected_peer_id=to.peer_id, until=until),
                    name=f"node {to}",
                )

    async def finish(self, reason: str) -> None:
        """Close every link, and wait until all that was taken from them is stored."""
        await self.driver.finish(reason)
