"""The state machine of one connection (reference 6): bytes in, events and bytes out."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_of_digest
from culm_models.dag.errors import (
    DagError,
    DagSpoolFull,
    DagUnexpected,
    WaitingFull,
)
from culm_models.dag.exchange.events import (
    DagAcknowledged,
    DoneReceived,
    ExchangeEvent,
    HelloReceived,
    NodesReceived,
    ShardSpooled,
    TokenReceived,
)
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.exchange.node_wants import NodeWants
from culm_models.dag.exchange.offers import FRAME_OVERHEAD, first_message, in_pieces, link_size, offers_of
from culm_models.dag.exchange.serving import Serving
from culm_models.dag.exchange.settings import ExchangeSettings, SpaceAbility, SpaceAccess, open_to_all
from culm_models.dag.exchange.shard_wants import ChunkFate, ShardWants
from culm_models.dag.exchange.space_exchange import SpaceExchange
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.exchange.unasked import Unasked
from culm_models.dag.wire.codec import DagMessageReader, frame_of
from culm_models.dag.wire.messages import (
    FRAME_MAX,
    AckStatus,
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)

_NODE_LINK_OVERHEAD: Final = 44
_FED_BYTES: Final = 65_536


class Exchange:
    """One end of a connection. Not thread-safe.

    The driver must call `settle` for every node and spooled shard that an event reports. `peer` is the proven
    key of the other end; the spools belong to this key.
    """

    def __init__(
        self,
        store: ExchangeStore,
        settings: ExchangeSettings,
        peer: bytes,
        *,
        access: SpaceAccess = open_to_all,
    ) -> None:
        self.dropped: DagError | None = None
        """The violation that ended the connection. The driver sends nothing more and closes with its code."""
        self.hello: DagHello | None = None
        """The HELLO of the other end, once it has been received."""
        self.received_bytes = self.sent_bytes = 0
        """Bytes of chunks received and sent."""
        self._store = store
        self._settings = settings
        self._peer = peer
        self._access = access
        self._reader = DagMessageReader(settings.max_frame)
        self._spaces: dict[bytes, SpaceExchange] = {}
        self._nodes = NodeWants(store, settings.nodes_known_of)
        self._shards = ShardWants(
            store, peer, settings.hashes, max_shards=settings.shards_known_of, bytes_max=settings.wanted_bytes
        )
        self._serving = Serving(
            store, self._spaces, max_queued=settings.wants_in_flight, legacy=settings.legacy
        )
        self._out: deque[DagMessage] = deque()
        self._held: deque[DagMessage] = deque()
        self._is_held_back = self._is_reading = False
        self._unasked = Unasked(settings, peer)
        self._out.append(DagHello(settings.max_frame, settings.spaces, settings.policy, settings.verdict))

    # Calls of the driver.

    def receive(self, data: bytes) -> list[ExchangeEvent]:
        """Receive bytes from the other end, split anywhere. A violation sets `dropped` and is not raised."""
        return [event for events in self.receive_steps(data) for event in events]

    def receive_steps(self, data: bytes) -> Iterator[list[ExchangeEvent]]:
        """Receive bytes in short steps.

        The caller handles the events of each step before it takes the next.
        """
        if self.dropped is not None or self._is_reading:
            return
        self._is_reading = True
        try:
            for at in range(0, len(data) or 1, _FED_BYTES):
                self._held += in_pieces(self._reader.feed(data[at : at + _FED_BYTES]))
                while self._held and not self._is_held_back:
                    events: list[ExchangeEvent] = []
                    self._read(self._held.popleft(), events)
                    yield events
            # Raises a fault that follows the complete messages.
            self._reader.feed(b"")
        except DagError as error:
            self.dropped = error
        finally:
            self._is_reading = False

    def access_changed(self, space: bytes) -> list[ExchangeEvent]:
        """Send offers again, because the access rights for a space may have changed.

        The driver must also call this after each `TokenReceived`, valid or not. The messages that were held
        back since then are read now; their events are returned.
        """
        exchange = self._spaces.get(space)
        if exchange is not None and self.hello is not None:
            self._offer_all(exchange)
        self._is_held_back = False
        return self.receive(b"")

    def settle(self, space: bytes, results: Iterable[tuple[Cid, AckStatus, str | None]]) -> None:
        """Report the results of received nodes and shards. Only now are they acknowledged to the other end.

        Links with the status REFUSED or LATER are not requested again on this connection.
        """
        exchange = self._spaces[space]
        for cid, status, code in results:
            if self._nodes.settle((space, cid), status):
                if status in (AckStatus.DURABLE, AckStatus.HAD):
                    self._serving.other_end_has(space, cid)
            elif not self._shards.settle(cid, status):
                continue
            exchange.acks.append((cid, status, code))
            exchange.is_done_due = True

    def offer(
        self,
        space: bytes,
        dag_heads: Iterable[Cid] = (),
        publish_heads: Iterable[Cid] = (),
        shards: Iterable[tuple[Cid, int]] = (),
    ) -> None:
        """Offer new heads and shards to the other end. Earlier ones are offered without this call."""
        exchange = self._spaces.get(space)
        if exchange is None or self.hello is None or self._access(space, SpaceAbility.READ) is not None:
            return
        exchange.was_other_done = False
        exchange.offers.append(
            offers_of(space, tuple(shards), tuple(dag_heads), tuple(publish_heads), self._max_frame)
        )

    def cancel(self, space: bytes, links: Iterable[Cid]) -> None:
        """Cancel requests, for example for a shard that has arrived from another peer."""
        asked = tuple(cid for cid in links if self._nodes.cancel((space, cid)) | self._shards.drop(cid))
        if asked:
            self._out.append(DagCancel(space, asked))

    def show(self, space: bytes, block: bytes) -> None:
        """Send a UCAN that proves the rights of this end's key (R14).

        It precedes all offers if the other end's HELLO has not been received yet.
        """
        self._out.append(DagBlocks(space, (block,)))
        self._nodes.forget_absent()
        self._shards.forget_absent()

    def close(self) -> None:
        """End all transfers when the connection has ended.

        The store drops the reservations of shards of which no chunk has arrived.
        """
        self._shards.close()

    def next_frame(self) -> bytes:
        """Return the next frame to send, or empty bytes if there is none.

        Chunks are read from the store only when they are sent.
        """
        if self.dropped is not None:
            return b""
        message = self._next_message()
        if message is None:
            return b""
        if isinstance(message, DagChunk):
            self.sent_bytes += len(message.data)
        return frame_of(message, FRAME_MAX if self.hello is None else self.hello.max_frame)

    @property
    def waiting_bytes(self) -> int:
        """Approximate bytes of answers that wait for `next_frame`.

        The driver stops reading if it is large.
        """
        return sum(link_size(cid) for exchange in self._spaces.values() for cid, _, _ in exchange.acks)

    @property
    def wanted_shards(self) -> tuple[int, int]:
        """Number and total bytes of the offered shards that have not arrived yet, to show progress."""
        return self._shards.wanted

    @property
    def spaces(self) -> tuple[bytes, ...]:
        """The spaces that either end has named; empty until the other end's HELLO has been received."""
        return tuple(self._spaces)

    def is_done(self, space: bytes) -> bool:
        """Whether each end has received everything in a space that it wants and the other end has."""
        exchange = self._spaces.get(space)
        return (
            exchange is not None
            and exchange.has_sent_all
            and exchange.other_is_done
            and self._serving.is_idle(space)
        )

    # Received messages.

    def _hello(self, message: DagHello, events: list[ExchangeEvent]) -> None:
        if self.hello is not None:
            raise DagUnexpected("a second HELLO")
        self.hello = message
        for space in dict.fromkeys((*self._settings.spaces, *message.spaces[: self._settings.spaces_max])):
            exchange = self._spaces[space] = SpaceExchange(space)
            self._offer_all(exchange)
        events.append(HelloReceived(message.spaces, message.policy, message.verdict))

    def _read(self, message: DagMessage, events: list[ExchangeEvent]) -> None:
        if isinstance(message, DagHello):
            self._hello(message, events)
            return
        if self.hello is None:
            raise DagUnexpected("a message before HELLO")
        exchange = self._spaces.get(message.space)
        if exchange is None:
            raise DagUnexpected("a space that no HELLO named")
        match message:
            case DagOffer():
                self._offered(exchange, message)
            case DagWant():
                self._wanted(exchange, message)
            case DagCancel():
                exchange.unanswered.difference_update(message.links)
                for cid in message.links:
                    self._serving.cancel(message.space, cid)
            case DagBlocks():
                self._blocks(exchange, message, events)
            case DagChunk():
                self._chunk(exchange, message, events)
            case DagAck():
                self._acknowledged(exchange, message, events)
            case DagDone():
                exchange.done(message)
                events.append(DoneReceived(message.space, message.dag_heads, message.tip))

    def _offered(self, exchange: SpaceExchange, message: DagOffer) -> None:
        space = exchange.space
        refusal = self._access(space, SpaceAbility.APPEND)
        is_first, exchange.was_offered, exchange.is_done_due = not exchange.was_offered, True, True
        heads = (*message.dag_heads, *message.publish_heads)
        if refusal is not None:
            exchange.acks += [(cid, AckStatus.REFUSED, refusal) for cid in heads]
            return
        for cid in heads:
            if self._store.has_node(space, cid):
                code = self._store.refused_with(cid)
                exchange.acks.append((cid, AckStatus.HAD if code is None else AckStatus.REFUSED, code))
                self._serving.other_end_has(space, cid)
        exchange.acks += [
            (cid, AckStatus.LATER, WaitingFull.code)
            for cid in self._nodes.add(space, heads)
            if not self._store.has_node(space, cid)
        ]
        if is_first:
            self._nodes.add(space, self._store.missing_nodes(space, self._settings.nodes_known_of))
        if self._settings.takes_shards:
            for shard, size in message.shards:
                self._shards.add(space, shard, size)

    def _wanted(self, exchange: SpaceExchange, message: DagWant) -> None:
        refusal = self._access(exchange.space, SpaceAbility.READ)
        if refusal is not None:
            links = (*message.nodes, *(shard for shard, _ in message.shards))
            exchange.acks += [(cid, AckStatus.REFUSED, refusal) for cid in links]
            return
        self._serving.want(message)

    def _blocks(self, exchange: SpaceExchange, message: DagBlocks, events: list[ExchangeEvent]) -> None:
        space = exchange.space
        taken: list[tuple[Cid, bytes]] = []
        for block in message.blocks:
            digest = hashlib.sha256(block).digest()
            cids = [cid_of_digest(codec, digest) for codec in (DAG_CBOR, RAW)]
            asked = next((cid for cid in cids if self._nodes.is_wanted((space, cid))), None)
            if asked is not None:
                self._nodes.take((space, asked))
                self._nodes.add(space, needs_of_block(asked, block, legacy=self._settings.legacy))
                taken.append((asked, block))
                continue
            here = next((cid for cid in cids if self._store.has_node(space, cid)), None)
            if here is not None:
                exchange.acks.append((here, AckStatus.HAD, None))
            elif token := self._unasked.token(cids, block):
                # Nodes that precede the token are reported before it.
                if taken:
                    events.append(NodesReceived(space, tuple(taken)))
                    taken = []
                events.append(TokenReceived(space, token, block))
                self._is_held_back = True
            elif not any(self._nodes.is_unsettled((space, cid)) for cid in cids):
                self._unasked.count(len(block))
        if taken:
            events.append(NodesReceived(space, tuple(taken)))

    def _chunk(self, exchange: SpaceExchange, message: DagChunk, events: list[ExchangeEvent]) -> None:
        fate = self._shards.take(message)
        if fate is ChunkFate.UNASKED:
            self._unasked.count(len(message.data))
            return
        self.received_bytes += len(message.data)
        if fate is ChunkFate.WHOLE:
            events.append(ShardSpooled(exchange.space, message.shard, message.size))
        elif fate is ChunkFate.NOT_KEPT:
            self._out.append(DagCancel(exchange.space, (message.shard,)))
            exchange.acks.append((message.shard, AckStatus.LATER, DagSpoolFull.code))
            exchange.is_done_due = True

    def _acknowledged(self, exchange: SpaceExchange, message: DagAck, events: list[ExchangeEvent]) -> None:
        for cid, number, code in message.results:
            status = AckStatus(number)
            if status is not AckStatus.NOT_HERE:
                exchange.unanswered.discard(cid)
            if status in (AckStatus.DURABLE, AckStatus.HAD):
                self._serving.other_end_has(exchange.space, cid)
            else:
                later = status is AckStatus.LATER
                if self._nodes.not_coming((exchange.space, cid), later=later) | self._shards.drop(cid):
                    exchange.is_done_due = True
            events.append(DagAcknowledged(exchange.space, cid, status, code))

    # Messages to send.

    @property
    def _max_frame(self) -> int:
        return FRAME_MAX if self.hello is None else self.hello.max_frame

    def _offer_all(self, exchange: SpaceExchange) -> None:
        exchange.offer_all(self._store, self._access(exchange.space, SpaceAbility.READ), self._max_frame)

    def _next_message(self) -> DagMessage | None:
        if self._out and (self.hello is not None or isinstance(self._out[0], DagHello)):
            return self._out.popleft()
        if self.hello is None:
            return None
        exchanges = self._spaces.values()
        max_bytes = self._max_frame
        return (
            first_message(exchange.next_ack(max_bytes) for exchange in exchanges)
            or first_message(exchange.next_offer() for exchange in exchanges)
            or self._next_want()
            or first_message(
                exchange.next_done(self._store, max_bytes)
                for exchange in exchanges
                if self._is_idle(exchange.space)
            )
            or self._serving.next_nodes(max_bytes)
            or self._serving.next_chunk(max_bytes)
            # Serving and requesting above may have added acknowledgements.
            or first_message(exchange.next_ack(max_bytes) for exchange in exchanges)
        )

    def _next_want(self) -> DagWant | None:
        capacity = self._settings.wants_in_flight - self._nodes.in_flight - self._shards.in_flight
        if capacity <= 0:
            return None
        fitting = (self._max_frame - FRAME_OVERHEAD) // _NODE_LINK_OVERHEAD
        if places := self._nodes.next_to_ask(min(capacity, fitting)):
            return DagWant(places[0][0], tuple(cid for _, cid in places), ())
        while step := self._shards.next_step(capacity):
            if step.not_taken is None:
                return DagWant(step.space, (), ((step.shard, step.ranges),))
            self._spaces[step.space].acks.append((step.shard, step.not_taken.status, step.not_taken.code))
        return None

    def _is_idle(self, space: bytes) -> bool:
        return self._nodes.is_idle(space) and self._shards.is_idle(space)
