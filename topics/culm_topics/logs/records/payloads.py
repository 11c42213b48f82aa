"""`payloads`: payloads that are too large for their entry's record, or arrived without it, in chunks.

A payload is named by its hash, as in its entries, and was verified whole before any chunk of it was produced:
repeats are the same bytes, whichever entry or peer they came with. Chunks are below the limit of a record;
all chunks of one payload are in one partition, so that one reader can assemble it.
`culm_topics.logs.payload_chunks` cuts and assembles payloads.
"""

from typing import Annotated, Final

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import key_partition
from culm_topics.records.kinds import between, called, sized_between
from culm_topics.records.shape import require

PAYLOAD_CHUNK_BYTES: Final = 512 * 1024
MAX_PAYLOAD_BYTES: Final = PAYLOAD_CHUNK_BYTES << 32
"""Limit given by the numbers of chunks: two PiB."""

_INDEX_SIZE = 4


@record(
    "payloads",
    "one chunk of a completely verified payload. Key: the payload's hash as in the "
    "entry (34 or 66 bytes), index of the chunk (u32).",
)
class PayloadChunkRecord(Record):
    """Value of `payloads`: the chunk at `offset` of a payload of `payload_size` bytes.

    Its key is the payload's hash and the chunk's index. Only the last chunk is shorter than the others.
    """

    payload_size: Annotated[int, between(1, MAX_PAYLOAD_BYTES), "of the whole payload"]
    offset: Annotated[int, f"index * {PAYLOAD_CHUNK_BYTES}"]
    data: Annotated[
        bytes,
        sized_between(1, PAYLOAD_CHUNK_BYTES),
        called("bytes"),
        f"from there {PAYLOAD_CHUNK_BYTES:,} bytes, or what is left",
    ]

    def verify(self) -> None:
        """Raise `RecordError` if the payload has no such chunk."""
        sound = self.offset < self.payload_size and self.offset % PAYLOAD_CHUNK_BYTES == 0
        require(sound, "payloads", "offset is not the beginning of a chunk")
        size = min(PAYLOAD_CHUNK_BYTES, self.payload_size - self.offset)
        require(len(self.data) == size, "payloads", f"a chunk there has {size} bytes")

    @property
    def index(self) -> int:
        """The number of this chunk in its payload, from 0 on."""
        return self.offset // PAYLOAD_CHUNK_BYTES


def chunk_count(payload_size: int) -> int:
    """Return the number of chunks of a payload of this size: 0 if it is empty."""
    return -(-payload_size // PAYLOAD_CHUNK_BYTES)


def hash_flavour(payload_hash: bytes) -> HashFlavour:
    """Return the flavour of a hash. Raises `RecordError` if it has the form of no flavour."""
    for flavour in (YASMF, YAMF):
        if flavour.has_form(payload_hash):
            return flavour
    raise RecordError(f"payloads key: {len(payload_hash)} bytes that are no hash of a known form")


def payload_chunk_key(payload_hash: bytes, index: int) -> bytes:
    """Return the key of a chunk: 38 bytes, or 70 for a YAMF hash. Raises `RecordError`."""
    hash_flavour(payload_hash)
    require(0 <= index < 1 << 32, "payloads key", f"{index} is no chunk's number")
    return payload_hash + index.to_bytes(_INDEX_SIZE, "big")


def split_payload_chunk_key(key: bytes | None) -> tuple[bytes, int]:
    """Return (payload hash, index). Raises `RecordError` if the key is malformed."""
    payload_hash = (key or b"")[:-_INDEX_SIZE]
    hash_flavour(payload_hash)
    return payload_hash, int.from_bytes((key or b"")[-_INDEX_SIZE:], "big")


def payload_partition(payload_hash: bytes, partitions: int) -> int:
    """Return the partition of `payloads` that holds every chunk of this payload.

    Producers name it: by the whole key the chunks would be spread over all partitions.
    """
    return key_partition(payload_hash, partitions)


def decode_payload_chunk(key: bytes | None, value: bytes | None) -> tuple[bytes, PayloadChunkRecord]:
    """Return (payload hash, record). Raises `RecordError`, also if key and record name different chunks."""
    payload_hash, index = split_payload_chunk_key(key)
    record = PayloadChunkRecord.decode(value)
    if record.index != index:
        raise RecordError(f"payloads: the key names chunk {index}, the record is chunk {record.index}")
    return payload_hash, record
