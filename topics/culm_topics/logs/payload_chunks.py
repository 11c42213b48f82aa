"""Payloads in chunks: cut for the topic `payloads`, and put together again and verified.

Neither needs the memory of a whole payload: cutting keeps one chunk, and what comes in goes to a file that is
on the disk once it is longer than a mebibyte.
"""

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

from culm_models.bamboo.range_set import RangeSet
from culm_topics.errors import PayloadChunkRefused, PayloadHashRefused, PayloadTooLarge
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    PayloadChunkRecord,
    chunk_count,
    hash_flavour,
    payload_chunk_key,
)

DEFAULT_MAX_PAYLOAD_BYTES: Final = 256 * 1024 * 1024
_IN_MEMORY_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 1024 * 1024


def cut_payload(
    payload_hash: bytes, payload_size: int, parts: Iterable[bytes]
) -> Iterator[tuple[bytes, PayloadChunkRecord]]:
    """(key, record) of each chunk of a payload that comes in parts of any length, in order.

    The payload was verified before: a hash is not asked for here. `PayloadChunkRefused` where the parts are
    not of `payload_size` bytes together, behind the chunks that were whole; `RecordError` for no hash.
    """
    held = bytearray()
    offset = 0
    for part in parts:
        for start in range(0, len(part), PAYLOAD_CHUNK_BYTES):
            held += part[start : start + PAYLOAD_CHUNK_BYTES]
            while len(held) >= PAYLOAD_CHUNK_BYTES and offset + PAYLOAD_CHUNK_BYTES <= payload_size:
                yield _chunk(payload_hash, payload_size, offset, bytes(held[:PAYLOAD_CHUNK_BYTES]))
                del held[:PAYLOAD_CHUNK_BYTES]
                offset += PAYLOAD_CHUNK_BYTES
            if offset + len(held) > payload_size:
                raise PayloadChunkRefused(f"a payload of {payload_size} bytes has more of them")
    if offset + len(held) != payload_size:
        raise PayloadChunkRefused(f"a payload of {payload_size} bytes ends at byte {offset + len(held)}")
    if held:
        yield _chunk(payload_hash, payload_size, offset, bytes(held))


def _chunk(
    payload_hash: bytes, payload_size: int, offset: int, data: bytes
) -> tuple[bytes, PayloadChunkRecord]:
    record = PayloadChunkRecord(payload_size, offset, data)
    return payload_chunk_key(payload_hash, record.index), record


class PayloadAssembly:
    """One payload of a known hash and size that is put together from its chunks, which come in any order.

    `PayloadTooLarge` at once where it has more than `max_bytes`, `RecordError` where the hash is none.
    Bytes beyond the first mebibyte lie in a temporary file, which goes with `close`.
    """

    def __init__(
        self, payload_hash: bytes, payload_size: int, *, max_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    ) -> None:
        self._flavour = hash_flavour(payload_hash)
        if payload_size > max_bytes:
            raise PayloadTooLarge(
                f"payload {payload_hash.hex()} has {payload_size} bytes, at most {max_bytes} are taken"
            )
        self.payload_hash = payload_hash
        self.payload_size = payload_size
        self.held_bytes = 0
        """How many of its bytes have come."""
        self._held = RangeSet()
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self._verified = payload_size == 0 and self._matches()

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come and is what its hash says."""
        return self._verified

    def missing(self) -> list[tuple[int, int]]:
        """The numbers of the chunks that have not come, as half-open ranges."""
        gaps, at = [], 0
        for start, end in [*self._held, (chunk_count(self.payload_size),) * 2]:
            if at < start:
                gaps.append((at, start))
            at = end
        return gaps

    def add(self, record: PayloadChunkRecord) -> bool:
        """Take a chunk; whether the payload is whole now. A chunk that came before changes nothing.

        `PayloadChunkRefused` for a chunk of a payload of another size, `PayloadHashRefused` where this was
        the last one and all together are not what the hash says: then none of them is held any more.
        """
        if record.payload_size != self.payload_size:
            raise PayloadChunkRefused(
                f"payload {self.payload_hash.hex()} of {self.payload_size} bytes: a chunk says that it has "
                f"{record.payload_size}"
            )
        if record.index in self._held:
            return self._verified
        self._file.seek(record.offset)
        self._file.write(record.data)
        self._held.add(record.index, record.index + 1)
        self.held_bytes += len(record.data)
        if self.held_bytes < self.payload_size:
            return False
        if not self._matches():
            self._held = RangeSet()
            self.held_bytes = 0
            raise PayloadHashRefused(
                f"the chunks of payload {self.payload_hash.hex()} are together another payload"
            )
        self._verified = True
        return True

    def read(self) -> bytes:
        """The whole payload in memory; ask `is_whole` before."""
        return b"".join(self.blocks())

    def blocks(self) -> Iterator[bytes]:
        """The payload in blocks of a mebibyte, in order; ask `is_whole` before."""
        at = 0
        while at < self.payload_size:
            self._file.seek(at)
            block = self._file.read(min(_READ_BYTES, self.payload_size - at))
            yield block
            at += len(block)

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
        hasher = self._flavour.hasher(b"")
        for block in self.blocks():
            hasher.update(block)
        return self._flavour.prefix + hasher.digest() == self.payload_hash
