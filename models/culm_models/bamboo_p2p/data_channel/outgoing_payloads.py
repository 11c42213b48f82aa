"""Payload bytes on their way out: compressed where that is shorter (3.7, LZFoo)."""

from __future__ import annotations

from typing import Final

from culm_models import varu64
from culm_models.bamboo_p2p.link import Link
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import CompressedPayload
from culm_models.lzfoo import Compressor

_RAW: Final = b"\x08"
_RAW_RUN_MAX: Final = 31
"""Of payloads that no trial made shorter, one in so many and one is tried."""


class OutgoingPayloads:
    """Makes the payload messages of one connection, whose window all its requests share."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._compressor: Compressor | None = None
        self._sent_raw = self._raw_run = 0
        """Payloads that went raw without being tried since the last trial, and how many are to."""

    def put(self, data: bytes, out: bytearray) -> None:
        """One message; where nothing got shorter, few are tried."""
        if self._sent_raw < self._raw_run:
            self._sent_raw += 1
        elif data and (window := self._link.send_window):
            if self._compressor is None:
                self._compressor = Compressor(window)
            compressed = self._compressor.compress(data)
            if compressed is not None:
                self._raw_run = 0
                out += encode_data(CompressedPayload(len(data), len(compressed)))
                out += compressed
                return
            self._sent_raw = 0
            self._raw_run = min(2 * self._raw_run + 1, _RAW_RUN_MAX)
        out += _RAW
        out += varu64.encode(len(data))
        out += data
