"""Message ids of our own: unique for equal contents, and the same again when an input is replayed."""

from hashlib import sha256


def content_message_id(channel_id: str, sender_id: str, nonce: bytes, content: bytes) -> str:
    """SHA-256 in lower-case hex over channel, sender, nonce and content, each behind its length (8 bytes)."""
    digest = sha256()
    for part in (channel_id.encode(), sender_id.encode(), nonce, content):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
