"""Shards in chunks: cut for the topic `dag.shards`, and put together again and verified (R27)."""

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
    """(key, record) of each chunk of a shard that comes in parts of any length, in order.

    The shard was verified before: its hash is not asked for here. `ShardChunkRefused` where the parts are not
    of `size` bytes together, behind the chunks that were whole; `RecordError` for a CID that is no shard's.
    """
    for offset, data in cut_chunks(parts, size, CHUNK_SIZE, lambda why: ShardChunkRefused(f"a shard {why}")):
        yield shard_chunk_key(shard, offset), ShardChunkRecord(size, data, space, peer)


class ShardAssembly(ChunkAssembly):
    """One shard of a known CID and size that is put together from its chunks, which come in any order.

    `ShardTooLarge` at once where it has more than `max_bytes`, `HashUnsupported` where nobody can check its
    hash. Bytes beyond the first mebibyte lie in a temporary file, which goes with `close`.
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
        """Whether all of it has come and is what its CID says."""
        return self._verified

    def missing(self) -> list[int]:
        """The offsets of the chunks that have not come, ascending."""
        return [offset for offset in range(0, self.size, CHUNK_SIZE) if offset not in self._held]

    def add(self, offset: int, record: ShardChunkRecord) -> bool:
        """Take a chunk; whether the shard is whole now. A chunk that came before changes nothing.

        `ShardChunkRefused` for a chunk of a shard of another size, or one that does not begin there;
        `ShardHashRefused` where this was the last one and all together are another shard: then none of them
        is held any more.
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
