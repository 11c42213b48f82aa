"""Answers to the other end's requests: nodes with their ancestors, and chunks of shards."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import NodeSchema
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.exchange.ranges import all_chunks, bits_of, chunk_bit, chunk_length
from culm_models.dag.exchange.settings import RecentSet
from culm_models.dag.exchange.space_exchange import SpaceExchange
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus, DagBlocks, DagChunk, DagWant

_SENT_REMEMBERED: Final = 16_384
_AHEAD_BYTES: Final = 262_144
_FRAME_OVERHEAD: Final = 256
"""Bytes reserved in a message for everything but the block or chunk: head, space, CID, numbers."""
_ITEM_OVERHEAD: Final = 5


@dataclass(slots=True)
class _ServedShard:
    space: bytes
    size: int
    bits: int


class Serving:
    """Queues of requested nodes and shards of one connection, up to a limit of links (`max_queued`).

    Requests that cannot be served are answered by acknowledgements in `spaces`.
    """

    def __init__(
        self, store: ExchangeStore, spaces: Mapping[bytes, SpaceExchange], *, max_queued: int, legacy: bool
    ) -> None:
        self._store = store
        self._spaces = spaces
        self._max_queued = max_queued
        self._legacy = legacy
        self._nodes: OrderedDict[tuple[bytes, Cid], None] = OrderedDict()
        self._shards: OrderedDict[Cid, _ServedShard] = OrderedDict()
        # Nodes sent before, and nodes that the other end has: they are not sent again as ancestors.
        self._known: RecentSet[tuple[bytes, Cid]] = RecentSet(_SENT_REMEMBERED)

    def is_idle(self, space: bytes) -> bool:
        """Whether nothing is queued for a space."""
        return not any(placed_node[0] == space for placed_node in self._nodes) and not any(
            shard.space == space for shard in self._shards.values()
        )

    def want(self, message: DagWant) -> None:
        """Queue the nodes and chunks that the other end requests, as far as the limit allows.

        Raises `NodeSchema` if ranges of a shard are not made of chunks.
        """
        space = self._spaces[message.space]
        for cid in message.nodes:
            if self._is_full:
                space.unanswered.discard(cid)
                space.acks.append((cid, AckStatus.LATER, None))
            else:
                self._nodes[space.space, cid] = None
        for shard, ranges in message.shards:
            size = self._store.shard_size(space.space, shard)
            bits = None if size is None else bits_of(ranges, size)
            if size is None:
                space.acks.append((shard, AckStatus.NOT_HERE, None))
            elif bits is None:
                raise NodeSchema("ranges that are not made of chunks")
            elif self._is_full:
                space.acks.append((shard, AckStatus.LATER, None))
            else:
                # No bits stand for all chunks. Chunks that are queued already stay so.
                queued = self._shards.setdefault(shard, _ServedShard(space.space, size, 0))
                queued.bits |= bits or all_chunks(size)

    @property
    def _is_full(self) -> bool:
        return len(self._nodes) + len(self._shards) >= self._max_queued

    def cancel(self, space: bytes, cid: Cid) -> None:
        """Remove a node or shard from the queues."""
        self._nodes.pop((space, cid), None)
        served = self._shards.get(cid)
        if served is not None and served.space == space:
            del self._shards[cid]

    def other_end_has(self, space: bytes, cid: Cid) -> None:
        """Record that the other end has a node, so that it is not sent as an ancestor."""
        self._known.add((space, cid))

    def next_nodes(self, max_frame: int) -> DagBlocks | None:
        """Take as many queued nodes of one space as fit a frame, followed by ancestors in the rest of it."""
        while self._nodes:
            space = next(iter(self._nodes))[0]
            blocks = self._nodes_of(space, max_frame - _FRAME_OVERHEAD)
            if blocks:
                return DagBlocks(space, tuple(blocks))
        return None

    def _nodes_of(self, space: bytes, capacity: int) -> list[bytes]:
        blocks: list[bytes] = []
        sent: deque[tuple[Cid, bytes]] = deque()
        for placed_node in [queued for queued in self._nodes if queued[0] == space]:
            block = self._store.node(space, placed_node[1])
            if block is None or len(block) + _ITEM_OVERHEAD > capacity:
                if block is not None and blocks:
                    break
                del self._nodes[placed_node]
                self._spaces[space].not_served(placed_node[1], is_too_large=block is not None)
                continue
            del self._nodes[placed_node]
            self._known.add(placed_node)
            blocks.append(block)
            sent.append((placed_node[1], block))
            capacity -= len(block) + _ITEM_OVERHEAD
        capacity = min(capacity, _AHEAD_BYTES)
        for cid, block in self._ahead(space, sent):
            capacity -= len(block) + _ITEM_OVERHEAD
            if capacity < 0:
                break
            self._nodes.pop((space, cid), None)
            self._known.add((space, cid))
            blocks.append(block)
        return blocks

    def _ahead(self, space: bytes, sent: deque[tuple[Cid, bytes]]) -> Iterator[tuple[Cid, bytes]]:
        """Yield dependencies of sent nodes that the other end may be missing, children before parents."""
        while sent:
            cid, block = sent.popleft()
            for need in needs_of_block(cid, block, legacy=self._legacy):
                placed_node = (space, need)
                if placed_node in self._known or (needed_block := self._store.node(space, need)) is None:
                    continue
                yield need, needed_block
                sent.append((need, needed_block))

    def next_chunk(self, max_frame: int) -> DagChunk | None:
        """Take the next chunk of the shard that was queued first."""
        while self._shards:
            cid, served = next(iter(self._shards.items()))
            offset = ((served.bits & -served.bits).bit_length() - 1) * CHUNK_SIZE
            length = chunk_length(served.size, offset)
            fits = length + _FRAME_OVERHEAD <= max_frame
            data = self._store.read_shard(cid, offset, length) if fits else b""
            if len(data) < length:
                del self._shards[cid]
                self._spaces[served.space].not_served(cid, is_too_large=not fits)
                continue
            served.bits &= ~chunk_bit(offset)
            if not served.bits:
                del self._shards[cid]
            return DagChunk(served.space, cid, served.size, offset, data)
        return None
