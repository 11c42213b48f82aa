"""Ed25519 keys as did:key (R19): 34 bytes, with one canonical text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from culm_models.dag.blocks.multibase import base58, from_base58
from culm_models.dag.errors import UcanKey

DID_KEY_SIZE: Final = 34
_START: Final = b"\xed\x01"
_TEXT_START: Final = "did:key:z"


def did_key(public_key: bytes) -> bytes:
    """Convert a public key of 32 bytes to the 34 bytes of its did:key."""
    return _START + public_key


def is_did_key(data: bytes) -> bool:
    """Whether bytes are an Ed25519 did:key."""
    return len(data) == DID_KEY_SIZE and data.startswith(_START)


@lru_cache(maxsize=4096)
def did_text(key: bytes) -> str:
    """Return the text of a did:key of 34 bytes."""
    return _TEXT_START + base58(key)


def did_from_text(text: str) -> bytes:
    """Parse the canonical text of an Ed25519 did:key to its 34 bytes. Raises `UcanKey`."""
    if text.startswith(_TEXT_START):
        key = from_base58(text[len(_TEXT_START) :], DID_KEY_SIZE)
        if key is not None and is_did_key(key):
            return key
    raise UcanKey(f"{text[:100]!r} is no Ed25519 did:key")
