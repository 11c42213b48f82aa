"""Hashes that name entries and payloads, in the two flavours of Bamboo logs.

Two VarU64, the function and the digest's size, stand before the digest. p2panda's logs have YASMF hashes
(BLAKE3, `00 20` and 32 bytes), Bamboo's own have YAMF hashes (BLAKE2b, `00 40` and 64 bytes). Both call their
one function 0, so the size byte alone tells them apart. A log has one flavour, and it is part of its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from blake3 import blake3


class Hasher(Protocol):
    """A digest that is made as bytes come."""

    def update(self, data: bytes, /) -> object:
        """Take further bytes."""
        ...

    def digest(self) -> bytes:
        """The digest of all bytes so far."""
        ...


@dataclass(frozen=True, slots=True)
class HashFlavour:
    """One of the two forms of a hash: `name` ("yamf", "yasmf"), first bytes, whole size, and function."""

    name: str
    prefix: bytes
    size: int
    hasher: Callable[[bytes], Hasher]

    def hash(self, data: bytes) -> bytes:
        """The hash of `data`, `size` bytes."""
        return self.prefix + self.hasher(data).digest()

    def has_form(self, data: bytes) -> bool:
        """Whether `data` could be a hash of this flavour."""
        return len(data) == self.size and data.startswith(self.prefix)


YASMF: Final = HashFlavour("yasmf", b"\x00\x20", 34, blake3)
"""BLAKE3, what p2panda's logs are made of."""

YAMF: Final = HashFlavour("yamf", b"\x00\x40", 66, blake2b)
"""BLAKE2b, what Bamboo's own specification names."""

FLAVOURS: Final = {flavour.name: flavour for flavour in (YAMF, YASMF)}

HASH_SIZE: Final = YASMF.size
PREFIX: Final = YASMF.prefix


def hash_bytes(data: bytes) -> bytes:
    """The 34-byte YASMF hash of `data`."""
    return PREFIX + blake3(data).digest()
