"""Message ids of our own: unique for equal contents, and the same again when an input is replayed."""

from hashlib import sha256


def content_message_id(channel_id: str, sender_id: str, nonce: bytes, content: bytes) -> str:
    """SHA-256 in lower-case hex over channel, sender, nonce and content, each behind its length (8 bytes)."""
    parts = (channel_id.encode(), sender_id.encode(), nonce, content)
    return sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts])).hexdigest()
