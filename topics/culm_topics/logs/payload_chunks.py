"""Payloads in chunks: cut for the topic `payloads`, and assembled again and verified."""

from collections.abc import Iterable, Iterator
from typing import Final

from culm_models.bamboo.range_set import RangeSet
from culm_topics.errors import PayloadChunkRefused, PayloadHashRefused, PayloadTooLarge
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    PayloadChunkRecord,
    chunk_count,
    hash_flavour,
    payload_chunk_key,
)
from culm_topics.records.chunks import ChunkAssembly, cut_chunks

DEFAULT_MAX_PAYLOAD_BYTES: Final = 256 * 1024 * 1024


def cut_payload(
    payload_hash: bytes, payload_size: int, parts: Iterable[bytes]
) -> Iterator[tuple[bytes, PayloadChunkRecord]]:
    """Yield (key, record) of each chunk of a payload in order; the parts may have any length.

    The payload was verified before: the hash is not checked here. Raises `PayloadChunkRefused` if the parts
    do not have `payload_size` bytes in total, after the complete chunks; `RecordError` for a malformed hash.
    """
    chunks = cut_chunks(
        parts, payload_size, PAYLOAD_CHUNK_BYTES, lambda why: PayloadChunkRefused(f"a payload {why}")
    )
    for offset, data in chunks:
        record = PayloadChunkRecord(payload_size, offset, data)
        yield payload_chunk_key(payload_hash, record.index), record


class PayloadAssembly(ChunkAssembly):
    """Assembles one payload of a known hash and size from its chunks, which arrive in any order.

    The constructor raises `PayloadTooLarge` for more than `max_bytes`, and `RecordError` for a malformed
    hash. Bytes beyond the first MiB are in a temporary file, which `close` deletes.
    """

    def __init__(
        self, payload_hash: bytes, payload_size: int, *, max_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    ) -> None:
        self._flavour = hash_flavour(payload_hash)
        if payload_size > max_bytes:
            raise PayloadTooLarge(
                f"payload {payload_hash.hex()} has {payload_size} bytes, at most {max_bytes} are taken"
            )
        super().__init__(payload_size)
        self.payload_hash = payload_hash
        self.payload_size = payload_size
        self._held = RangeSet()
        self._verified = payload_size == 0 and self._matches()

    @property
    def is_whole(self) -> bool:
        """Whether all chunks have arrived and match the hash."""
        return self._verified

    def missing(self) -> list[tuple[int, int]]:
        """Return the numbers of the missing chunks, as half-open ranges."""
        gaps, at = [], 0
        for start, end in [*self._held, (chunk_count(self.payload_size),) * 2]:
            if at < start:
                gaps.append((at, start))
            at = end
        return gaps

    def add(self, record: PayloadChunkRecord) -> bool:
        """Add a chunk. Returns whether the payload is whole now. A repeated chunk changes nothing.

        Raises `PayloadChunkRefused` for a chunk of a payload of another size, and `PayloadHashRefused` if
        this was the last chunk and the whole does not match the hash; all chunks are dropped then.
        """
        if record.payload_size != self.payload_size:
            raise PayloadChunkRefused(
                f"payload {self.payload_hash.hex()} of {self.payload_size} bytes: a chunk states "
                f"{record.payload_size}"
            )
        if record.index in self._held:
            return self._verified
        is_last = self._put(record.offset, record.data)
        self._held.add(record.index, record.index + 1)
        if not is_last:
            return False
        if not self._matches():
            self._held = RangeSet()
            self.held_bytes = 0
            raise PayloadHashRefused(
                f"the chunks of payload {self.payload_hash.hex()} are together another payload"
            )
        self._verified = True
        return True

    def blocks(self) -> Iterator[bytes]:
        """Yield the payload in blocks of one MiB, in order. It must be whole (`is_whole`)."""
        return self.pieces()

    def _matches(self) -> bool:
        hasher = self._flavour.hasher(b"")
        for block in self.blocks():
            hasher.update(block)
        return self._flavour.prefix + hasher.digest() == self.payload_hash
