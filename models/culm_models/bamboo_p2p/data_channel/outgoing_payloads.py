"""Outgoing payload messages, compressed if that is shorter (3.7, LZFoo)."""

from __future__ import annotations

from typing import Final

from culm_models import varu64
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import CompressedPayload
from culm_models.lzfoo import Compressor

_RAW: Final = b"\x08"
_RAW_RUN_MAX: Final = 31
"""Maximum number of payloads sent raw without trying compression, after trials that gained nothing."""


class OutgoingPayloads:
    """Produces the payload messages of a connection. All its requests share one compression window."""

    def __init__(self, link: ConnectionState) -> None:
        self._link = link
        self._compressor: Compressor | None = None
        self._sent_raw = self._raw_run = 0
        """Payloads sent raw without a trial since the last trial, and the number to send in this way."""

    def put(self, data: bytes, out: bytearray) -> None:
        """Append a message with `data` to `out`. Compression is tried less often if it gained nothing."""
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
