"""What went one way of a payload before anybody verified it, to be judged when the payload is held (R59)."""

from __future__ import annotations

from hashlib import blake2b

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.store import BambooStore

_READ_BYTES = 65_536


class PayloadTrace:
    """The digest of bytes of one payload, in order; what was passed over is left out."""

    __slots__ = ("_digest", "_runs", "log", "seq_num")

    def __init__(self, log: LogKey, seq_num: int) -> None:
        self.log, self.seq_num = log, seq_num
        self._digest = blake2b(digest_size=32)
        self._runs: list[tuple[int, int]] = []

    def add(self, offset: int, data: bytes) -> None:
        """So much stands from `offset` on."""
        self._digest.update(data)
        if self._runs and self._runs[-1][1] == offset:
            self._runs[-1] = (self._runs[-1][0], offset + len(data))
        else:
            self._runs.append((offset, offset + len(data)))

    def equals(self, store: BambooStore) -> bool:
        """Whether these bytes are what the payload, which is held now, has at their places."""
        digest = blake2b(digest_size=32)
        for start, end in self._runs:
            for offset in range(start, end, _READ_BYTES):
                length = min(_READ_BYTES, end - offset)
                digest.update(store.read_payload(self.log, self.seq_num, offset, length))
        return digest.digest() == self._digest.digest()
