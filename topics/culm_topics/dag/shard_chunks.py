"""Shards in chunks: cut for the topic `dag.shards`, and put together again and verified (R27).

Neither needs the memory of a whole shard: cutting keeps one chunk, and what comes in goes to a file that is
on the disk once it is longer than a mebibyte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, block_hasher
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.errors import ShardChunkRefused, ShardHashRefused, ShardTooLarge
from culm_topics.dag.records import ShardChunkRecord, shard_chunk_key

_IN_MEMORY_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 1024 * 1024


def cut_shard(
    shard: Cid, size: int, parts: Iterable[bytes | memoryview], *, space: bytes, peer: bytes | None = None
) -> Iterator[tuple[bytes, ShardChunkRecord]]:
    """(key, record) of each chunk of a shard that comes in parts of any length, in order.

    The shard was verified before: its hash is not asked for here. `ShardChunkRefused` where the parts are not
    of `size` bytes together, behind the chunks that were whole; `RecordError` for a CID that is no shard's.
    """
    held = bytearray()
    offset = 0
    for part in parts:
        for start in range(0, len(part), CHUNK_SIZE):
            held += part[start : start + CHUNK_SIZE]
            while len(held) >= CHUNK_SIZE and offset + CHUNK_SIZE <= size:
                record = ShardChunkRecord(size, bytes(held[:CHUNK_SIZE]), space, peer)
                yield shard_chunk_key(shard, offset), record
                del held[:CHUNK_SIZE]
                offset += CHUNK_SIZE
            if offset + len(held) > size:
                raise ShardChunkRefused(f"a shard of {size} bytes has more of them")
    if offset + len(held) != size:
        raise ShardChunkRefused(f"a shard of {size} bytes ends at byte {offset + len(held)}")
    if held:
        yield shard_chunk_key(shard, offset), ShardChunkRecord(size, bytes(held), space, peer)


class ShardAssembly:
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
        self.shard = shard
        self.size = size
        self.held_bytes = 0
        """How many of its bytes have come."""
        self._hashes = hashes
        self._held: set[int] = set()
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
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
        self._file.seek(offset)
        self._file.write(record.data)
        self._held.add(offset)
        self.held_bytes += len(record.data)
        if self.held_bytes < self.size:
            return False
        if not self._matches():
            self._held = set()
            self.held_bytes = 0
            raise ShardHashRefused(f"the chunks of shard {self.shard} are together another shard")
        self._verified = True
        return True

    def read(self) -> bytes:
        """The whole shard in memory; ask `is_whole` before."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The shard in pieces of a mebibyte, in order; ask `is_whole` before."""
        at = 0
        while at < self.size:
            self._file.seek(at)
            piece = self._file.read(min(_READ_BYTES, self.size - at))
            yield piece
            at += len(piece)

    def close(self) -> None:
        """Let go of the bytes; twice is harmless."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _matches(self) -> bool:
        hasher = block_hasher(self.shard, self._hashes)
        for piece in self.pieces():
            hasher.update(piece)
        return hasher.digest() == self.shard.digest
