"""Ids of messages that have left the log at its front: known for long, at 16 bytes each."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final

from culm_models.sds.errors import SnapshotError

_DIGEST_BYTES: Final = 16


class OldIds:
    """The newest `most` ids that were added, as digests."""

    __slots__ = ("_digests", "_most", "_order")

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: set[bytes] = set()
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, message_id: str) -> bool:
        return bool(self._digests) and _digest(message_id) in self._digests

    def add(self, message_id: str) -> None:
        """Remember an id; the oldest is forgotten when there are too many."""
        self._take(_digest(message_id))

    def pack(self) -> bytes:
        """All digests, oldest first."""
        return b"".join(self._order)

    def extend_packed(self, data: bytes) -> None:
        """Take in what `pack` gave."""
        if len(data) % _DIGEST_BYTES:
            raise SnapshotError(f"{len(data)} bytes are no digests of ids")
        for at in range(0, len(data), _DIGEST_BYTES):
            self._take(data[at : at + _DIGEST_BYTES])

    def _take(self, digest: bytes) -> None:
        if digest in self._digests:
            return
        self._digests.add(digest)
        self._order.append(digest)
        if len(self._order) > self._most:
            self._digests.remove(self._order.popleft())


def _digest(message_id: str) -> bytes:
    return blake2b(message_id.encode(), digest_size=_DIGEST_BYTES).digest()
