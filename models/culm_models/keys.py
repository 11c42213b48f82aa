"""Ed25519 key pairs and the only verifier in the system.

Connectors, streaming jobs and conformance all verify with libsodium: verifiers differ on malformed keys and
signatures, and two that disagree would split a log's history. libsodium refuses small-order and non-canonical
points, unlike the p2panda node's verifier. Honest data contains no such points.
"""

from collections.abc import Sequence
from typing import Any

import nacl._sodium  # type: ignore[import-not-found]
from blake3 import blake3
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

PUBLIC_KEY_SIZE = 32
PRIVATE_KEY_SIZE = 32
SIGNATURE_SIZE = 64

_KEY_DERIVATION_CONTEXT = "culm 2026-11 Ed25519 key pair"

# PyNaCl's own wrapper copies the message once more. Without a buffer for the message, libsodium only verifies
# the signature. The foreign call releases the interpreter lock meanwhile.
_NULL: Any = nacl._sodium.ffi.NULL
_open_signed: Any = nacl._sodium.lib.crypto_sign_open


class KeyPair:
    """An Ed25519 key pair. Its printed form never shows the private key."""

    __slots__ = ("_secret", "private_key", "public_key")

    def __init__(self, private_key: bytes) -> None:
        assert len(private_key) == PRIVATE_KEY_SIZE, "an Ed25519 private key has 32 bytes"
        public_key, secret = crypto_sign_seed_keypair(private_key)
        self.private_key: bytes = private_key
        self.public_key: bytes = public_key
        self._secret: bytes = secret

    @classmethod
    def from_private_key(cls, private_key: bytes) -> "KeyPair":
        """Return the key pair of a 32-byte private key (the seed of RFC 8032)."""
        return cls(private_key)

    @classmethod
    def generate(cls, seed_bytes: bytes) -> "KeyPair":
        """Derive a key pair from `seed_bytes`: at least 32 random bytes, or any fixed text in a test."""
        return cls(blake3(seed_bytes, derive_key_context=_KEY_DERIVATION_CONTEXT).digest())

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data`, of 64 bytes."""
        return crypto_sign(data, self._secret)[:SIGNATURE_SIZE]

    def __repr__(self) -> str:
        return f"KeyPair(public_key={self.public_key.hex()})"


def verify(public_key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether `signature` (64 bytes) of `data` was made with the private key behind `public_key` (32)."""
    if len(public_key) != PUBLIC_KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        return False
    signed = signature + data
    return bool(_open_signed(_NULL, _NULL, signed, len(signed), public_key) == 0)


def verify_all(public_key: bytes, signed: Sequence[bytes]) -> list[bool]:
    """Verify signatures of a key, each followed by its data. Returns the result of `verify` for each."""
    if len(public_key) != PUBLIC_KEY_SIZE:
        return [False] * len(signed)
    return [
        len(signature_and_data) >= SIGNATURE_SIZE
        and _open_signed(_NULL, _NULL, signature_and_data, len(signature_and_data), public_key) == 0
        for signature_and_data in signed
    ]
