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
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from culm_connectors.aquadoggo.document_order import DocumentOrder
from culm_connectors.checking import CheckPool
from culm_connectors.index import IndexWriter
from culm_connectors.libp2p.certificate import Libp2pIdentity
from culm_connectors.libp2p.endpoints import dial_libp2p, serve_libp2p
from culm_connectors.libp2p.multiaddr import Multiaddr
from culm_connectors.p2panda.dialling import keep_calling
from culm_connectors.p2panda.driver import Driver, SchemasOf, Sink, clock_ms
from culm_connectors.p2panda.sessions import Arrival, LogKey
from culm_connectors.p2panda.settings import LARGEST_MAX_MESSAGE_BYTES, DriverSettings
from culm_connectors.p2panda.surroundings import Filter, Observer
from culm_connectors.transport import (
    Address,
    Authorise,
    ConnectionHandler,
    Listener,
    TransportSettings,
)
from culm_models.keys import KeyPair
from culm_models.p2panda.events import Event
from culm_models.p2panda.ingest import Admit
from culm_models.p2panda.messages import MODE_LOG_HEIGHT
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.settings import PeerSettings

# Before it says what it has, a node looks at every document that it holds: seconds for thousands.
_SESSION_TIMEOUT_MS = 600_000
_ANNOUNCE_INTERVAL_S = 1.0
# Every few seconds a node brings again what was refused before.
_REJECTS_PER_MINUTE = 6_000.0


@dataclass(frozen=True, slots=True)
class _Told:
    """What the connector hears: all but deliveries, since a node drops what it likes."""

    observer: Observer
    wants_deliveries: bool = False

    def on_event(self, event: Event) -> None:
        self.observer.on_event(event)

    def on_gone(self, remote: bytes) -> None:
        self.observer.on_gone(remote)

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        raise AssertionError("deliveries are not asked for")


@dataclass(frozen=True, slots=True)
class _Passing:
    """Stores what nodes bring, and has the connector's own driver send it on to its peers."""

    sink: Sink
    to: Driver

    async def store(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        lost = await self.sink.store(arrivals)
        missing = {id(arrival) for arrival in lost}
        stored = [arrival.checked for arrival in arrivals if id(arrival) not in missing]
        self.to.peer.stored(stored, None, clock_ms())
        self.to.pump()
        return lost


class NodeLinks:
    """The driver of a connector's links to nodes, its listener and its calls."""

    def __init__(
        self,
        key_pair: KeyPair,
        *,
        beside: Driver,
        schemas: Callable[[], Sequence[str]],
        index: IndexWriter,
        sink: Sink,
        observer: Observer,
        pool: CheckPool,
        settings: DriverSettings,
        transport: TransportSettings,
        permit: Filter,
        schemas_of: SchemasOf,
        admit: Admit,
    ) -> None:
        """`schemas` tells what is to be announced now: the index is complete for them."""
        self._schemas = schemas
        self._transport = transport
        self._identity = Libp2pIdentity.from_private_key(key_pair.private_key)
        self._listener: Listener | None = None
        self.listening: Multiaddr | None = None
        """Where nodes may dial us, once `start` has returned."""
        peer = Peer(
            key_pair.public_key,
            index.store,
            PeerSettings(
                live_mode=False,
                modes=(MODE_LOG_HEIGHT,),
                compat="aquadoggo",
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                # A node has no other mode, and says what it has in one message of any size.
                max_message_bytes=LARGEST_MAX_MESSAGE_BYTES,
                max_sessions_per_peer=settings.max_sessions_per_peer,
            ),
            admit=admit,
        )
        self.driver = Driver(
            peer,
            reader=index,
            sink=_Passing(sink, beside),
            observer=_Told(observer),
            pool=pool,
            settings=settings.model_copy(update={"rejects_per_minute": _REJECTS_PER_MINUTE}),
            permit=permit,
            schemas_of=schemas_of,
            arrange=DocumentOrder(index.store, index).arrange,
        )

    async def run(self) -> None:
        """Drive the links and announce what has changed, until cancelled. Raises what the sink does."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.driver.run(), name="nodes")
            group.create_task(self._announce_for_ever(), name="nodes-announce")

    async def _announce_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_ANNOUNCE_INTERVAL_S)
            self.announce()

    def announce(self) -> None:
        """Tell the nodes what is served now, where that has changed."""
        latest, schemas = self.driver.peer.announcement, tuple(self._schemas())
        if latest is None or latest.schema_ids != schemas:
            self.driver.announce(schemas)

    async def start(
        self,
        stack: AsyncExitStack,
        group: asyncio.TaskGroup,
        *,
        listen: Address | None,
        dial: Sequence[Multiaddr],
        authorise: Authorise,
    ) -> None:
        """Take calls and make calls from now on. Error: `AddressError`."""
        self.announce()
        if listen is not None:
            handler: ConnectionHandler = self.driver.serve
            self._listener = await stack.enter_async_context(
                serve_libp2p(listen, self._identity, self._transport, handler, authorise=authorise)
            )
            self.listening = Multiaddr(self._listener.address, self._identity.peer_id)
        for to in dial:
            call = partial(dial_libp2p, to, self._identity, self._transport)
            group.create_task(
                keep_calling(self.driver, call, name=str(to), expected_peer_id=to.peer_id), name=f"node {to}"
            )

    def set_authorise(self, authorise: Authorise) -> None:
        """Judge by another rule from now on, living connections too."""
        if self._listener is not None:
            self._listener.set_authorise(authorise)

    async def finish(self, reason: str) -> None:
        """Close every link, and wait until all that was taken from them is stored."""
        await self.driver.finish(reason)
