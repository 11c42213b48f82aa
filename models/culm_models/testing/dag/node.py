"""One end of a connection between two replicas, whose validation takes time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import ExchangeEvent, NodesReceived, ShardSpooled, TokenReceived
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.wire.codec import DagMessageReader, frame_of
from culm_models.testing.dag.liar import lie
from culm_models.testing.dag.replica import MemoryReplica
from culm_models.testing.simulation import SimulatedNode

Changed = Callable[[MemoryReplica, bytes, Cid], None]
"""Called with a node or shard that is new at a replica."""
_VERDICT_MS: Final = 20


class DagNode(SimulatedNode):
    """An end with its pending validations. Every connection has two ends of its own."""

    def __init__(
        self,
        rng: random.Random,
        replica: MemoryReplica,
        settings: ExchangeSettings,
        other_peer: bytes,
        changed: Changed,
        *,
        is_liar: bool = False,
    ) -> None:
        super().__init__()
        self._rng = rng
        self._changed = changed
        self._other_peer = other_peer
        self._owed: list[tuple[bytes, Cid, bytes | None]] = []
        self._due_ms: int | None = None
        self._other = ""
        self.replica = replica
        self.exchange = Exchange(replica, settings, other_peer)
        self.is_liar = is_liar

    @property
    def is_done(self) -> bool:
        """Whether this end has everything of every space."""
        exchange = self.exchange
        return bool(exchange.spaces) and not self._owed and all(map(exchange.is_done, exchange.spaces))

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Process a piece of the stream."""
        self._take(self.exchange.receive(data), now_ms)

    def _take(self, events: Sequence[ExchangeEvent], now_ms: int) -> None:
        for event in events:
            if isinstance(event, NodesReceived):
                self._owed += [(event.space, cid, block) for cid, block in event.blocks]
            elif isinstance(event, ShardSpooled):
                self._owed.append((event.space, event.shard, None))
            elif isinstance(event, TokenReceived):
                self._take(self.exchange.access_changed(event.space), now_ms)
        if self._owed and self._due_ms is None:
            self._due_ms = now_ms + self._rng.randint(0, _VERDICT_MS)

    def outgoing(self, now_ms: int) -> Iterator[tuple[str, bytes]]:
        """Yield one frame, or a lie in its place."""
        frame = self.exchange.next_frame()
        if frame and self.is_liar and self._rng.random() < 0.2:
            (message,) = DagMessageReader().feed(frame)
            frame = b"".join(map(frame_of, lie(self._rng, message)))
        if frame:
            yield self._other, frame

    def tick(self, now_ms: int) -> None:
        """Finish a random one of the pending validations."""
        space, cid, block = self._owed.pop(self._rng.randrange(len(self._owed)))
        if block is not None:
            verdict = self.replica.put(space, cid, block)
        else:
            verdict = self.replica.accept(self._other_peer, space, cid)
        self.exchange.settle(space, [(cid, *verdict)])
        self._changed(self.replica, space, cid)
        self._due_ms = now_ms + self._rng.randint(0, _VERDICT_MS) if self._owed else None

    def next_due_ms(self) -> int | None:
        """Return when the next validation finishes."""
        return self._due_ms

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Note the name of the other end."""
        self._other = other

    def offer_new(self, space: bytes, cid: Cid) -> None:
        """Offer new data of the replica to the other end."""
        if cid in self.replica.shard_bytes:
            self.exchange.offer(space, shards=[(cid, len(self.replica.shard_bytes[cid]))])
        elif cid in self.replica.dag_heads(space):
            self.exchange.offer(space, dag_heads=[cid])
        elif cid in self.replica.publish_heads(space):
            self.exchange.offer(space, publish_heads=[cid])
