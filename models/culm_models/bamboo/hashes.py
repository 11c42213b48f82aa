"""YASMF hashes: what p2panda's Bamboo entries use to name entries and payloads.

Two VarU64, the function (0: BLAKE3) and the digest's size (32), stand before the digest. Only this one
function was ever defined, so every hash is the two bytes `00 20` and 32 bytes. (The older YAMF hash of
Bamboo has function 0 too, but a size of 64: the size byte tells them apart.)
"""

from typing import ClassVar

from blake3 import blake3

from culm_models.errors import ModelError

HASH_SIZE = 34
PREFIX = b"\x00\x20"


class HashFormError(ModelError):
    """Bytes that are not a YASMF hash."""

    code: ClassVar[str] = "yasmf.form"


def hash_bytes(data: bytes) -> bytes:
    """The 34-byte hash of `data`."""
    return PREFIX + blake3(data).digest()


def check_hash(data: bytes) -> None:
    """Raise `HashFormError` unless `data` has the form of a YASMF hash."""
    if len(data) != HASH_SIZE:
        raise HashFormError(f"a hash has {HASH_SIZE} bytes, not {len(data)}")
    if not data.startswith(PREFIX):
        raise HashFormError(f"a hash starts with {PREFIX.hex()}, not {data[:2].hex()}")
