"""The keys of Chotki's topics, and the partition of a source or a block.

Store keys are those of a replica (reference 1.3): `4f` and `56` with source, progress and letter. All numbers
are big endian.
"""

from typing import Final

from xxhash import xxh64_intdigest

from culm_models.chotki.ids import BLOCK_BITS, KEY_SIZE, OBJECT_KEY, VECTOR_KEY
from culm_topics.errors import RecordError

SOURCE_KEY_SIZE: Final = 8
EPOCH_KEY: Final = 0x45
EPOCH_KEY_SIZE: Final = 5
EDGE_SIZE: Final = 32
SESSION_KEY_SIZE: Final = EDGE_SIZE + 8
_SEED: Final = 42


def source_key(src: int) -> bytes:
    """Return the 8-byte key of a source."""
    return src.to_bytes(SOURCE_KEY_SIZE, "big")


def split_source_key(key: bytes | None) -> int:
    """Return the source in the key. Raises `RecordError` if it is not 8 bytes."""
    if key is None or len(key) != SOURCE_KEY_SIZE:
        raise RecordError(f"source key: {0 if key is None else len(key)} bytes instead of 8")
    return int.from_bytes(key, "big")


def session_key(edge: bytes, session: int) -> bytes:
    """Return the 40-byte key of a session: its edge, and its number at the edge."""
    if len(edge) != EDGE_SIZE:
        raise RecordError(f"session key: an edge of {len(edge)} bytes, not {EDGE_SIZE}")
    return edge + session.to_bytes(8, "big")


def split_session_key(key: bytes | None) -> tuple[bytes, int]:
    """Return (edge, session) of a session key. Raises `RecordError` if it is not 40 bytes."""
    if key is None or len(key) != SESSION_KEY_SIZE:
        raise RecordError(
            f"session key: {0 if key is None else len(key)} bytes where {SESSION_KEY_SIZE} belong"
        )
    return key[:EDGE_SIZE], int.from_bytes(key[EDGE_SIZE:], "big")


def epoch_key(partition: int) -> bytes:
    """Return the key of a partition's epoch mark."""
    return EPOCH_KEY.to_bytes(1, "big") + partition.to_bytes(4, "big")


def is_field_key(key: bytes) -> bool:
    """Whether it is the key of a field, or of an object itself."""
    return len(key) == KEY_SIZE and key[0] == OBJECT_KEY and _is_progress(key)


def is_vector_key(key: bytes) -> bool:
    """Whether it is the key of a block's vector, or of the global vector."""
    return len(key) == KEY_SIZE and key[0] == key[17] == VECTOR_KEY and _is_progress(key)


def _is_progress(key: bytes) -> bool:
    # Eight bytes for 52 bits.
    return key[9] == 0 and key[10] < 16


def is_epoch_key(key: bytes) -> bool:
    """Whether it is the key of an epoch mark."""
    return len(key) == EPOCH_KEY_SIZE and key[0] == EPOCH_KEY


def source_partition(src: int, partitions: int) -> int:
    """Return the partition of a source's packets: Spark's `pmod(xxhash64(key), partitions)`."""
    return _pmod(source_key(src), partitions)


def block_partition(store_key: bytes, partitions: int) -> int:
    """Return the partition of a store key's block: by its source and progress >> 28."""
    block = int.from_bytes(store_key[9:17], "big") >> BLOCK_BITS
    return _pmod(store_key[1:9] + block.to_bytes(4, "big"), partitions)


def _pmod(name: bytes, partitions: int) -> int:
    hashed = xxh64_intdigest(name, seed=_SEED)
    return int(hashed - (hashed >> 63 << 64)) % partitions
