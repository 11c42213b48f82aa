"""Shards in chunks: cut for the topic `dag.shards`, and assembled again and verified (R27)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, block_hasher
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.errors import ShardChunkRefused, ShardHashRefused, ShardTooLarge
from culm_topics.dag.records import ShardChunkRecord, shard_chunk_key
from culm_topics.records.chunks import ChunkAssembly, cut_chunks


def cut_shard(
    shard: Cid, size: int, parts: Iterable[bytes | memoryview], *, space: bytes, peer: bytes | None = None
) -> Iterator[tuple[bytes, ShardChunkRecord]]:
    """Yield (key, record) of each chunk of a shard in order; the parts may have any length.

    The shard was verified before: its hash is not checked here. Raises `ShardChunkRefused` if the parts do
    not have `size` bytes in total, after the complete chunks; `RecordError` for a CID that cannot be a
    shard's.
    """
    for offset, data in cut_chunks(parts, size, CHUNK_SIZE, lambda why: ShardChunkRefused(f"a shard {why}")):
        yield shard_chunk_key(shard, offset), ShardChunkRecord(size, data, space, peer)


class ShardAssembly(ChunkAssembly):
    """Assembles one shard of a known CID and size from its chunks, which arrive in any order.

    The constructor raises `ShardTooLarge` for more than `max_bytes`, and `HashUnsupported` if the hash cannot
    be checked. Bytes beyond the first MiB are in a temporary file, which `close` deletes.
    """

    def __init__(
        self,
        shard: Cid,
        size: int,
        *,
        max_bytes: int = SHARD_SIZE_MAX,
        hashes: Collection[int] = DEFAULT_HASHES,
    ) -> None:
        block_hasher(shard, hashes)
        if not 0 < size <= max_bytes:
            raise ShardTooLarge(f"shard {shard} has {size} bytes, 1 to {max_bytes} are taken")
        super().__init__(size)
        self.shard = shard
        self.size = size
        self._hashes = hashes
        self._held: set[int] = set()
        self._verified = False

    @property
    def is_whole(self) -> bool:
        """Whether all chunks have arrived and match the CID."""
        return self._verified

    def missing(self) -> list[int]:
        """Return the offsets of the missing chunks, ascending."""
        return [offset for offset in range(0, self.size, CHUNK_SIZE) if offset not in self._held]

    def add(self, offset: int, record: ShardChunkRecord) -> bool:
        """Add a chunk. Returns whether the shard is whole now. A repeated chunk changes nothing.

        Raises `ShardChunkRefused` for a chunk of a shard of another size, or one that does not begin at
        `offset`; `ShardHashRefused` if this was the last chunk and the whole does not match the CID: all
        chunks are dropped then.
        """
        fits = offset % CHUNK_SIZE == 0 and len(record.data) == min(CHUNK_SIZE, self.size - offset)
        if record.size != self.size or not fits:
            raise ShardChunkRefused(
                f"shard {self.shard} of {self.size} bytes: {len(record.data)} bytes at {offset} of a shard "
                f"of {record.size} bytes are none of its chunks"
            )
        if offset in self._held:
            return self._verified
        is_last = self._put(offset, record.data)
        self._held.add(offset)
        if not is_last:
            return False
        if not self._matches():
            self._held = set()
            self.held_bytes = 0
            raise ShardHashRefused(f"the chunks of shard {self.shard} are together another shard")
        self._verified = True
        return True

    def _matches(self) -> bool:
        hasher = block_hasher(self.shard, self._hashes)
        for piece in self.pieces():
            hasher.update(piece)
        return hasher.digest() == self.shard.digest
