"""What of an edge's folder its connections see: nothing is had that Kafka has not (R34, reference 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from culm_connectors.dag.edge.edge_folder import EdgeFolder
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.wire.messages import AckStatus


class PeerView:
    """An `ExchangeStore` over an edge's folder, for the thread that works on that.

    What waits in the outbox is asked for as if it were not here: so whoever brings it again hears of it once
    Kafka has it. It is served, though: what is read here is promised to nobody.
    """

    def __init__(self, folder: EdgeFolder) -> None:
        self._folder = folder

    def dag_heads(self, space: bytes) -> Sequence[Cid]:
        """See `ExchangeStore`."""
        return self._folder.dag_heads(space)

    def publish_heads(self, space: bytes) -> Sequence[Cid]:
        """See `ExchangeStore`."""
        return self._folder.publish_heads(space)

    def tip(self, space: bytes) -> Cid | None:
        """See `ExchangeStore`."""
        return self._folder.tip(space)

    def missing_nodes(self, space: bytes, most: int) -> Sequence[Cid]:
        """See `ExchangeStore`."""
        return self._folder.missing_nodes(space, most)

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        return self._folder.has_node(space, cid) and not self._folder.tables.numbers_of(cid)

    def refused_with(self, cid: Cid) -> str | None:
        """See `ExchangeStore`."""
        return self._folder.refused_with(cid)

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """See `ExchangeStore`."""
        return self._folder.node(space, cid)

    def shards(self, space: bytes) -> Iterable[tuple[Cid, int]]:
        """See `ExchangeStore`."""
        return self._folder.shards(space)

    def has_shard(self, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        return self._folder.has_shard(cid) and not self._folder.tables.numbers_of(cid)

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """See `ExchangeStore`."""
        return self._folder.shard_size(space, cid)

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """See `ExchangeStore`."""
        return self._folder.read_shard(cid, offset, length)

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """See `ExchangeStore`. A shard that is on its way to Kafka: LATER."""
        if self._folder.tables.numbers_of(shard):
            return NotReserved(AckStatus.LATER)
        return self._folder.reserve(peer, space, shard, size)

    def release(self, peer: bytes, shard: Cid) -> None:
        """Forget a spool of which nothing has come."""
        self._folder.release(peer, shard)

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """See `ExchangeStore`."""
        return self._folder.spool(peer, shard, offset, data)
