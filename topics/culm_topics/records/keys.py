"""The keys of the topics: fixed-size bytes, so that equal things have equal keys in every client.

A log key is public_key (32 bytes), then log_id as u64, most significant byte first (40 bytes in total): it
sorts by author, then by log. This is the key of a log of YASMF hashes. The key of a log of YAMF hashes, which
is a different log even with the same author and number, ends with an additional byte 1 (41 bytes). A peer key
is the peer's raw id (32 bytes). A version vector key is peer key, log key.

Programs name a log by its author and number (`LogKey`). Its key is joined and split by the functions here,
where a record or a row of a store is written or read.

`key_partition` returns the partition of a key, for topics whose producers name the partition.
"""

import struct
from typing import Annotated, Final

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.records.kinds import rule, sized, sized_between

PUBLIC_KEY_SIZE = 32
PEER_ID_SIZE = 32
LOG_KEY_SIZE = 40
YAMF_LOG_KEY_SIZE = 41
VERSION_VECTOR_KEY_SIZE = 72

HEIGHTS_PEER_ID = bytes(PEER_ID_SIZE)
"""The peer id of the rows in `version-vectors` that hold the log heights of the whole deployment."""

PeerId = Annotated[bytes, sized(PEER_ID_SIZE), rule("peer-id")]
ConnectorId = Annotated[bytes, sized_between(8, 32), rule("connector-id")]

_LOG_KEY: Final = struct.Struct(f">{PUBLIC_KEY_SIZE}sQ")
_YAMF_MARK: Final = b"\x01"
_MASK: Final = 0xFFFF_FFFF


def log_key(public_key: bytes, log_id: int, flavour: HashFlavour = YASMF) -> bytes:
    """Return the key of a log: 40 bytes, or 41 for a YAMF log.

    Raises `RecordError` if the public key does not have 32 bytes.
    """
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise RecordError(f"log key: a public key of {len(public_key)} bytes, not {PUBLIC_KEY_SIZE}")
    key = _LOG_KEY.pack(public_key, log_id)
    return key if flavour is YASMF else key + _YAMF_MARK


def split_log_key(key: bytes | None) -> LogKey:
    """Return (public_key, log_id) of the key of a YASMF log. Raises `RecordError` if it is not 40 bytes."""
    if key is None or len(key) != LOG_KEY_SIZE:
        raise RecordError(f"log key: {0 if key is None else len(key)} bytes where {LOG_KEY_SIZE} belong")
    log: LogKey = _LOG_KEY.unpack(key)
    return log


def split_flavoured_log_key(key: bytes | None) -> tuple[HashFlavour, LogKey]:
    """Return the flavour and (public_key, log_id) of a log key. Raises `RecordError` if it is malformed."""
    if key is None or not LOG_KEY_SIZE <= len(key) <= YAMF_LOG_KEY_SIZE:
        size = 0 if key is None else len(key)
        raise RecordError(f"log key: {size} bytes where {LOG_KEY_SIZE} or {YAMF_LOG_KEY_SIZE} belong")
    log: LogKey = _LOG_KEY.unpack_from(key)
    if len(key) == LOG_KEY_SIZE:
        return YASMF, log
    if key[LOG_KEY_SIZE:] != _YAMF_MARK:
        raise RecordError(f"log key: no flavour of hashes has the number {key[LOG_KEY_SIZE]} (known: 1)")
    return YAMF, log


def key_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a record with this key: the one that the Java client's partitioner chooses.

    For topics that are partitioned by something other than the whole key, whose producers name the partition.
    The hash is murmur2 (seed 9747b28c) without its sign bit.
    """
    state = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995 & _MASK
        state = (state * 0x5BD1E995 ^ (word ^ word >> 24) * 0x5BD1E995) & _MASK
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * 0x5BD1E995 & _MASK
    state = (state ^ state >> 13) * 0x5BD1E995 & _MASK
    return ((state ^ state >> 15) & 0x7FFF_FFFF) % partitions


def check_peer_key(key: bytes | None) -> bytes:
    """Return the peer id in the key. Raises `RecordError` if it is not 32 bytes."""
    if key is None or len(key) != PEER_ID_SIZE:
        raise RecordError(f"peer key: {0 if key is None else len(key)} bytes where {PEER_ID_SIZE} belong")
    return key


def version_vector_key(peer_id: bytes, public_key: bytes, log_id: int) -> bytes:
    """Return the 72-byte key of a peer's row for a log.

    Raises `RecordError` if the peer id or the public key does not have 32 bytes.
    """
    return check_peer_key(peer_id) + log_key(public_key, log_id)


def split_version_vector_key(key: bytes | None) -> tuple[bytes, bytes, int]:
    """Return (peer_id, public_key, log_id). Raises `RecordError` if the key is not 72 bytes."""
    if key is None or len(key) != VERSION_VECTOR_KEY_SIZE:
        size = 0 if key is None else len(key)
        raise RecordError(f"version vector key: {size} bytes where {VERSION_VECTOR_KEY_SIZE} belong")
    public_key, log_id = split_log_key(key[PEER_ID_SIZE:])
    return key[:PEER_ID_SIZE], public_key, log_id
