"""`payloads`: payloads that are too large for their entry's record, or came without it, in chunks.

A payload is named by its hash, as in the entries that have it, and was verified whole before any chunk of it
was produced: repeats are the same bytes, whichever entry or peer they came with. Chunks stay below the limit
of a record; all chunks of one payload are in one partition, so that one reader can put it together.
`culm_topics.logs.payload_chunks` cuts payloads and puts them together.
"""

from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.errors import RecordError
from culm_topics.records.keys import key_partition
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    dump,
    head_size,
    is_uint,
    load_array,
    refuse_item,
    require,
    string_size,
)

PAYLOAD_CHUNK_BYTES: Final = 512 * 1024
MAX_PAYLOAD_BYTES: Final = PAYLOAD_CHUNK_BYTES << 32
"""What chunks can be numbered of: two pebibytes."""

_INDEX_SIZE = 4


@dataclass(frozen=True, slots=True)
class PayloadChunkRecord:
    """Value of `payloads`: the chunk at `offset` of a payload of `payload_size` bytes.

    Its key is the payload's hash and the chunk's index. Only the last chunk is shorter than the others.
    """

    payload_size: int
    offset: int
    data: bytes

    def encode(self) -> bytes:
        """`[1, payload_size, offset, bytes]`."""
        require(0 < self.payload_size <= MAX_PAYLOAD_BYTES, "payloads", "payload_size is out of bounds")
        sound = 0 <= self.offset < self.payload_size and self.offset % PAYLOAD_CHUNK_BYTES == 0
        require(sound, "payloads", "offset is where no chunk begins")
        require(len(self.data) == self._size, "payloads", f"a chunk there has {self._size} bytes")
        return dump(FORMAT, self.payload_size, self.offset, self.data)

    @staticmethod
    def decode(value: bytes | None) -> "PayloadChunkRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, payload_size, offset, data = load_array(value, "payloads", 4)
        if not is_uint(payload_size) or not 0 < payload_size <= MAX_PAYLOAD_BYTES:
            refuse_item("payloads", "payload_size", payload_size, f"a number from 1 to {MAX_PAYLOAD_BYTES}")
        if not is_uint(offset) or offset >= payload_size or offset % PAYLOAD_CHUNK_BYTES:
            refuse_item("payloads", "offset", offset, "where a chunk of such a payload begins")
        if type(data) is not bytes:
            refuse_item("payloads", "bytes", data, "bytes")
        record = PayloadChunkRecord(payload_size, offset, data)
        if len(data) != record._size:
            refuse_item("payloads", "bytes", data, f"the {record._size} bytes of the chunk there")
        size = 2 + head_size(payload_size) + head_size(offset) + string_size(len(data))
        check_size(value, size, "payloads")
        return record

    @property
    def index(self) -> int:
        """Which chunk of its payload this is, from 0 on."""
        return self.offset // PAYLOAD_CHUNK_BYTES

    @property
    def _size(self) -> int:
        return min(PAYLOAD_CHUNK_BYTES, self.payload_size - self.offset)


def chunk_count(payload_size: int) -> int:
    """How many chunks a payload of this size has: none when it is empty."""
    return -(-payload_size // PAYLOAD_CHUNK_BYTES)


def hash_flavour(payload_hash: bytes) -> HashFlavour:
    """The flavour whose hash this is; `RecordError` when it is none's."""
    for flavour in (YASMF, YAMF):
        if flavour.has_form(payload_hash):
            return flavour
    raise RecordError(f"payloads key: {len(payload_hash)} bytes that are no hash of a known form")


def payload_chunk_key(payload_hash: bytes, index: int) -> bytes:
    """The key of one chunk: 38 bytes, 70 of a YAMF hash. Raises `RecordError`."""
    hash_flavour(payload_hash)
    require(0 <= index < 1 << 32, "payloads key", f"{index} is no chunk's number")
    return payload_hash + index.to_bytes(_INDEX_SIZE, "big")


def split_payload_chunk_key(key: bytes | None) -> tuple[bytes, int]:
    """(payload hash, index); `RecordError` when the key is no chunk's."""
    payload_hash = (key or b"")[:-_INDEX_SIZE]
    hash_flavour(payload_hash)
    return payload_hash, int.from_bytes((key or b"")[-_INDEX_SIZE:], "big")


def payload_partition(payload_hash: bytes, partitions: int) -> int:
    """The partition of `payloads`, of so many, that holds every chunk of this payload.

    Producers name it: by the whole key the chunks would be spread over all of them.
    """
    return key_partition(payload_hash, partitions)


def decode_payload_chunk(key: bytes | None, value: bytes | None) -> tuple[bytes, PayloadChunkRecord]:
    """(payload hash, record). Raises `RecordError`, also where key and record name different chunks."""
    payload_hash, index = split_payload_chunk_key(key)
    record = PayloadChunkRecord.decode(value)
    if record.index != index:
        raise RecordError(f"payloads: the key names chunk {index}, the record is chunk {record.index}")
    return payload_hash, record
