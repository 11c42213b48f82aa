"""Which bytes of a stream have come out of order, with a bound on the gaps between them.

The library keeps them in a list that every frame searches from its start, as long as a remote likes to make
it; RFC 9000 section 21.6 asks receivers to limit what reassembly costs them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from aioquic.quic.connection import QuicConnectionError


class ReceivedRanges:
    """The part of the library's `RangeSet` that a receiver of a stream uses, for at most `most` ranges.

    One more ends the connection with `error_code` (of QUIC's own). `on_new_bytes` is called for bytes that
    were not there before.
    """

    def __init__(
        self, most: int, *, error_code: int, frame_type: int, on_new_bytes: Callable[[], None]
    ) -> None:
        self._most = most
        self._on_new_bytes = on_new_bytes
        self._error_code = error_code
        self._frame_type = frame_type
        # Ascending and apart: range number i holds the offsets from _starts[i] up to _stops[i].
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> range:
        return range(self._starts[index], self._stops[index])

    def add(self, start: int, stop: int) -> None:
        """Bytes from offset `start` up to `stop` have come. Error: `QuicConnectionError`."""
        first = bisect_left(self._stops, start)
        end = bisect_right(self._starts, stop)
        if first < end:
            if self._starts[first] <= start and stop <= self._stops[first]:
                return
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[end - 1])
        elif len(self._starts) >= self._most:
            raise QuicConnectionError(
                error_code=self._error_code,
                frame_type=self._frame_type,
                reason_phrase="too many gaps in what was received",
            )
        self._on_new_bytes()
        self._starts[first:end] = [start]
        self._stops[first:end] = [stop]

    def shift(self) -> range:
        """Take the first range out."""
        return range(self._starts.pop(0), self._stops.pop(0))
