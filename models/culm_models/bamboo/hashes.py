"""Hashes that name entries and payloads, in the two flavours of Bamboo logs.

A hash is two VarU64, the function and the digest's size, followed by the digest. p2panda's logs have YASMF
hashes (BLAKE3, `00 20` and 32 bytes), Bamboo's own logs have YAMF hashes (BLAKE2b, `00 40` and 64 bytes).
Both flavours number their only function 0, so only the size byte distinguishes them. A log has one flavour,
which is part of its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from blake3 import blake3


class Hasher(Protocol):
    """Computes a digest of bytes that arrive in parts."""

    def update(self, data: bytes, /) -> object:
        """Add the next bytes."""
        ...

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        ...


@dataclass(frozen=True, slots=True)
class HashFlavour:
    """A flavour of hashes: `name` ("yamf", "yasmf"), first bytes, total size in bytes, and function."""

    name: str
    prefix: bytes
    size: int
    hasher: Callable[[bytes], Hasher]

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data`, of `size` bytes."""
        return self.prefix + self.hasher(data).digest()

    def has_form(self, data: bytes) -> bool:
        """Whether `data` could be a hash of this flavour."""
        return len(data) == self.size and data.startswith(self.prefix)


YASMF: Final = HashFlavour("yasmf", b"\x00\x20", 34, blake3)
"""BLAKE3, used in p2panda's logs."""

YAMF: Final = HashFlavour("yamf", b"\x00\x40", 66, blake2b)
"""BLAKE2b, used in Bamboo's own specification."""

FLAVOURS: Final = {flavour.name: flavour for flavour in (YAMF, YASMF)}

HASH_SIZE: Final = YASMF.size
PREFIX: Final = YASMF.prefix


def hash_bytes(data: bytes) -> bytes:
    """Return the YASMF hash of `data`, of 34 bytes."""
    return PREFIX + blake3(data).digest()
