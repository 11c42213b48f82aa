"""What went one way of a payload before it was verified, to be judged when all of it has gone (R49, R59)."""

from __future__ import annotations

from culm_models.bamboo.hashes import HashFlavour


class PayloadTrace:
    """The hash of a payload's bytes as they pass, for as long as none is passed over.

    A payload that was put together from both ends is nobody's fault, so nothing needs to be known of it.
    """

    __slots__ = ("_end", "_flavour", "_hasher", "seq_num")

    def __init__(self, flavour: HashFlavour, seq_num: int) -> None:
        self.seq_num = seq_num
        self._flavour = flavour
        self._hasher = flavour.hasher(b"")
        self._end: int | None = 0

    def add(self, offset: int, data: bytes) -> None:
        """So much passed, from `offset` on."""
        if offset != self._end:
            self._end = None
            return
        self._hasher.update(data)
        self._end += len(data)

    def is_wrong(self, payload_hash: bytes) -> bool:
        """Whether all bytes passed, every one of them from one end, and they are another payload."""
        return self._end is not None and self._flavour.prefix + self._hasher.digest() != payload_hash
