"""Compression to LZFoo: a greedy search for copies by a table of four-byte prefixes."""

from __future__ import annotations


class Compressor:
    """One direction of a connection."""

    __slots__ = ("_history", "_window")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._window = window
        self._history = bytearray(history)

    def compress(self, data: bytes) -> bytes | None:
        """Fewer bytes that stand for `data`; None where there are none: then nothing is remembered."""
        return None
