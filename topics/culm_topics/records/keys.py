"""The keys of the topics: fixed-size bytes, so that equal things have equal keys in every client.

A log key is public_key (32 bytes) then log_id as u64, most significant byte first (40 bytes): it sorts by
author, then by log. A peer key is the peer's raw id (32 bytes). A version vector key is peer key, log key.
"""

from culm_topics.errors import RecordError

PUBLIC_KEY_SIZE = 32
PEER_ID_SIZE = 32
LOG_KEY_SIZE = 40
VERSION_VECTOR_KEY_SIZE = 72

HEIGHTS_PEER_ID = bytes(PEER_ID_SIZE)
"""The peer id of the rows in `version-vectors` that hold the log heights of the whole deployment."""


def log_key(public_key: bytes, log_id: int) -> bytes:
    """The 40-byte key of one log; `RecordError` for a public key that is not 32 bytes."""
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise RecordError(f"log key: a public key of {len(public_key)} bytes, not {PUBLIC_KEY_SIZE}")
    return public_key + log_id.to_bytes(8, "big")


def split_log_key(key: bytes | None) -> tuple[bytes, int]:
    """(public_key, log_id) of a log key; `RecordError` when it is not 40 bytes."""
    if key is None or len(key) != LOG_KEY_SIZE:
        raise RecordError(f"log key: {0 if key is None else len(key)} bytes where {LOG_KEY_SIZE} belong")
    return key[:PUBLIC_KEY_SIZE], int.from_bytes(key[PUBLIC_KEY_SIZE:], "big")


def check_peer_key(key: bytes | None) -> bytes:
    """The peer id that is the key; `RecordError` when it is not 32 bytes."""
    if key is None or len(key) != PEER_ID_SIZE:
        raise RecordError(f"peer key: {0 if key is None else len(key)} bytes where {PEER_ID_SIZE} belong")
    return key


def version_vector_key(peer_id: bytes, public_key: bytes, log_id: int) -> bytes:
    """The 72-byte key of one peer's row for one log; `RecordError` for what is not 32 bytes."""
    return check_peer_key(peer_id) + log_key(public_key, log_id)


def split_version_vector_key(key: bytes | None) -> tuple[bytes, bytes, int]:
    """(peer_id, public_key, log_id); `RecordError` when the key is not 72 bytes."""
    if key is None or len(key) != VERSION_VECTOR_KEY_SIZE:
        size = 0 if key is None else len(key)
        raise RecordError(f"version vector key: {size} bytes where {VERSION_VECTOR_KEY_SIZE} belong")
    public_key, log_id = split_log_key(key[PEER_ID_SIZE:])
    return key[:PEER_ID_SIZE], public_key, log_id
