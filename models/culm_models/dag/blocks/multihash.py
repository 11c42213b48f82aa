"""Hash functions that verify blocks (reference 1.3, R3): the supported ones, and the check itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import Final, Protocol

import blake3

from culm_models.dag.blocks.cid import IDENTITY, SHA2_256, Cid
from culm_models.dag.errors import HashMismatch, HashUnsupported

SHA2_512: Final = 0x13
BLAKE3: Final = 0x1E
BLAKE2B_256: Final = 0xB220

DEFAULT_HASHES: Final = frozenset({IDENTITY, SHA2_256, SHA2_512, BLAKE2B_256})
"""Hash functions that a deployment checks unless its validation rules name others (R28)."""


class BlockHasher(Protocol):
    """A hash of bytes that arrive in parts."""

    def update(self, data: bytes | memoryview, /) -> object:
        """Add the next bytes."""
        ...

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        ...


_FUNCTIONS: Final[dict[int, Callable[[bytes | memoryview], BlockHasher]]] = {
    SHA2_256: hashlib.sha256,
    SHA2_512: hashlib.sha512,
    BLAKE2B_256: lambda data: hashlib.blake2b(data, digest_size=32),
    BLAKE3: blake3.blake3,
}

KNOWN_HASHES: Final = frozenset({IDENTITY, *_FUNCTIONS})
"""Hash functions that this process is able to check."""


def can_check(cid: Cid, hashes: Collection[int] = DEFAULT_HASHES) -> bool:
    """Whether a deployment with these hash functions can check that bytes match a CID."""
    return cid.hash_code in hashes and cid.hash_code in KNOWN_HASHES


def check_block(cid: Cid, data: bytes | memoryview, hashes: Collection[int] = DEFAULT_HASHES) -> None:
    """Check that `data` is the block of `cid`.

    Raises `HashMismatch` if it is not, or if the digest is truncated; `HashUnsupported` if the hash function
    is not among `hashes`.
    """
    if cid.hash_code == SHA2_256 and SHA2_256 in hashes:
        digest = hashlib.sha256(data).digest()
    elif not can_check(cid, hashes):
        raise HashUnsupported(f"the hash function 0x{cid.hash_code:x} is not checked here")
    elif cid.is_identity:
        digest = bytes(data)
    else:
        digest = _FUNCTIONS[cid.hash_code](data).digest()
    # Whole digests are compared, so a truncated digest is never equal.
    if digest != cid.digest:
        raise HashMismatch(f"the block is not that of {cid.text[:100]}")


def block_hasher(cid: Cid, hashes: Collection[int] = DEFAULT_HASHES) -> BlockHasher:
    """Return a hasher for a block that arrives in parts. The block matches if the digest is `cid.digest`.

    Raises `HashUnsupported`.
    """
    if cid.is_identity or not can_check(cid, hashes):
        raise HashUnsupported(f"the hash function 0x{cid.hash_code:x} is not checked in parts here")
    return _FUNCTIONS[cid.hash_code](b"")
