"""Missing shards that the other end has offered, and their transfers, chunk by chunk (R27, R34)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.multihash import can_check
from culm_models.dag.errors import ChunkOverlap, ShardSizeChanged
from culm_models.dag.exchange.ranges import Range, all_chunks, bits_of, chunk_bit, chunk_count, ranges_of
from culm_models.dag.exchange.settings import RecentSet
from culm_models.dag.exchange.store import ExchangeStore, NotReserved
from culm_models.dag.wire.messages import AckStatus, DagChunk

# Ranges per WANT, so that it fits the smallest frame. Further missing chunks are requested next.
_RUNS_MAX: Final = 16
_CID_BYTES_MAX: Final = 128


class ChunkFate(Enum):
    """The result of receiving a chunk."""

    UNASKED = "unasked"
    KEPT = "kept"
    WHOLE = "whole"
    """Kept, and all chunks of its shard have now arrived."""
    NOT_KEPT = "not_kept"
    """Not kept, because the spool has no capacity. Its shard is no longer requested."""


@dataclass(slots=True)
class Transfer:
    """The transfer of one shard. `missing` and `asked` (requested) are chunks, one bit each."""

    space: bytes
    size: int
    missing: int = 0
    asked: int = 0
    is_begun: bool = False
    asked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """A shard to request now, or (`not_taken`) a shard that the store does not accept."""

    shard: Cid
    space: bytes
    ranges: tuple[Range, ...] = ()
    """Ranges to request; empty for the whole shard."""
    not_taken: NotReserved | None = None


class ShardWants:
    """The missing shards of all spaces of one connection."""

    def __init__(
        self, store: ExchangeStore, peer: bytes, hashes: Collection[int], *, max_shards: int, bytes_max: int
    ) -> None:
        self._store = store
        self._peer = peer
        self._hashes = hashes
        self._max_shards = max_shards
        self._bytes_max = bytes_max
        self._transfers: dict[Cid, Transfer] = {}
        self._queue: deque[Cid] = deque()
        self._asked: set[Cid] = set()
        self._asked_bytes = 0
        self._unsettled: dict[Cid, Transfer] = {}
        self._absent: RecentSet[Cid] = RecentSet(max_shards)
        self._counts: dict[bytes, int] = {}

    @property
    def in_flight(self) -> int:
        """Number of shards that are requested and have not arrived."""
        return len(self._asked)

    @property
    def wanted(self) -> tuple[int, int]:
        """Number and total bytes of the shards that have not arrived."""
        return len(self._transfers), sum(transfer.size for transfer in self._transfers.values())

    def is_idle(self, space: bytes) -> bool:
        """Whether no shard of a space is missing, in flight or unsettled."""
        return not self._counts.get(space)

    def add(self, space: bytes, shard: Cid, size: int) -> None:
        """Queue a shard that the other end offers, if it is missing. Raises `ShardSizeChanged`."""
        known = self._transfers.get(shard) or self._unsettled.get(shard)
        if known is not None:
            _require_size(shard, known, size)
            return
        if shard in self._absent or not self._may_be_shard(shard):
            return
        if len(self._transfers) >= self._max_shards or self._store.has_shard(shard):
            return
        self._transfers[shard] = Transfer(space, size)
        self._queue.append(shard)
        self._count(space, 1)

    def _may_be_shard(self, cid: Cid) -> bool:
        """Whether the shard can be requested. Shards that cannot be verified are not."""
        if cid.version != 1 or cid.is_identity or len(cid.raw) > _CID_BYTES_MAX:
            return False
        return can_check(cid, self._hashes)

    def next_step(self, max_links: int) -> ShardRequest | None:
        """Take the next shard to request. Returns None if none is queued or the limits are reached.

        `max_links` is the number of further links that may be in flight.
        """
        while self._queue:
            shard = self._queue[0]
            transfer = self._transfers.get(shard)
            if transfer is None:
                self._queue.popleft()
                continue
            if max_links <= 0 or (self._asked and self._asked_bytes + transfer.size > self._bytes_max):
                return None
            self._queue.popleft()
            if not transfer.is_begun:
                reserved = self._store.reserve(self._peer, transfer.space, shard, transfer.size)
                if isinstance(reserved, NotReserved):
                    self._drop(shard)
                    return ShardRequest(shard, transfer.space, not_taken=reserved)
                transfer.is_begun = True
                transfer.missing = all_chunks(transfer.size) & ~reserved.bits
                if not transfer.missing:
                    # All chunks are here, but unverified: receiving the last one again triggers the check.
                    transfer.missing = 1 << (chunk_count(transfer.size) - 1)
            return ShardRequest(shard, transfer.space, self._ask(shard, transfer))
        return None

    def _ask(self, shard: Cid, transfer: Transfer) -> tuple[Range, ...]:
        ranges = ranges_of(transfer.missing, transfer.size)[:_RUNS_MAX]
        transfer.asked = bits_of(ranges, transfer.size) or 0
        transfer.asked_bytes = sum(length for _, length in ranges)
        self._asked.add(shard)
        self._asked_bytes += transfer.asked_bytes
        return () if transfer.asked == all_chunks(transfer.size) else ranges

    def take(self, chunk: DagChunk) -> ChunkFate:
        """Store a received chunk. Raises `ShardSizeChanged` and `ChunkOverlap`."""
        transfer = self._transfers.get(chunk.shard)
        if transfer is None or not transfer.is_begun:
            return ChunkFate.UNASKED
        _require_size(chunk.shard, transfer, chunk.size)
        bit = chunk_bit(chunk.offset)
        if not transfer.asked & bit:
            if not transfer.missing & bit:
                raise ChunkOverlap(f"the chunk of {chunk.shard} at {chunk.offset} is here")
            return ChunkFate.UNASKED
        if not self._store.spool(self._peer, chunk.shard, chunk.offset, chunk.data):
            self._drop(chunk.shard)
            return ChunkFate.NOT_KEPT
        transfer.asked &= ~bit
        transfer.missing &= ~bit
        transfer.asked_bytes -= len(chunk.data)
        self._asked_bytes -= len(chunk.data)
        if transfer.asked:
            return ChunkFate.KEPT
        self._asked.remove(chunk.shard)
        if transfer.missing:
            self._queue.append(chunk.shard)
            return ChunkFate.KEPT
        self._unsettled[chunk.shard] = self._transfers.pop(chunk.shard)
        return ChunkFate.WHOLE

    def settle(self, shard: Cid, status: AckStatus) -> bool:
        """Record the result of a received shard. Returns False if the shard is not unsettled."""
        transfer = self._unsettled.pop(shard, None)
        if transfer is None:
            return False
        if status in (AckStatus.REFUSED, AckStatus.LATER):
            self._absent.add(shard)
        self._count(transfer.space, -1)
        return True

    def drop(self, shard: Cid) -> bool:
        """Stop the transfer of a shard on this connection. Returns True if it was requested."""
        was_asked = shard in self._asked
        if shard in self._transfers:
            self._drop(shard)
        return was_asked

    def _drop(self, shard: Cid) -> None:
        transfer = self._transfers.pop(shard)
        if transfer.is_begun:
            self._store.release(self._peer, shard)
        self._asked.discard(shard)
        self._asked_bytes -= transfer.asked_bytes
        self._absent.add(shard)
        self._count(transfer.space, -1)

    def close(self) -> None:
        """Stop all transfers, because the connection has ended."""
        for shard in tuple(self._transfers):
            self._drop(shard)

    def forget_absent(self) -> None:
        """Allow shards that were not sent or not accepted to be requested when they are offered again."""
        self._absent = RecentSet(self._max_shards)

    def _count(self, space: bytes, change: int) -> None:
        self._counts[space] = self._counts.get(space, 0) + change


def _require_size(shard: Cid, transfer: Transfer, size: int) -> None:
    if transfer.size != size:
        raise ShardSizeChanged(f"{shard} has {transfer.size} bytes, and has {size} bytes")
