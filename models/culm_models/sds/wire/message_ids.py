"""Message ids of our own: unique for equal contents, and the same again when an input is replayed."""

from hashlib import blake2b, sha256
from typing import Final

_DIGEST_BYTES: Final = 8


def content_message_id(channel_id: str, sender_id: str, nonce: bytes, content: bytes) -> str:
    """SHA-256 in lower-case hex over channel, sender, nonce and content, each behind its length (8 bytes)."""
    parts = (channel_id.encode(), sender_id.encode(), nonce, content)
    return sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts])).hexdigest()


def message_digest(sender_id: str, content: bytes) -> bytes:
    """8 bytes that tell two messages apart that have the same id: of who said what.

    The Lamport timestamp is not in it: @waku/sds gives a message that it sends again a new one.
    """
    digest = blake2b(content, digest_size=_DIGEST_BYTES)
    digest.update(sender_id.encode())
    return digest.digest()
