"""Rate limits of one principal's multiplexed channels, over all of its connections.

Time is an argument, in seconds of the monotonic clock.
"""

from __future__ import annotations

from typing import Protocol

from culm_connectors.rate_limit import TokenBucket
from culm_models.bymux import FrameFlood


class ChannelLimits(Protocol):
    """The settings of one principal's channels; a rate of 0 is unlimited."""

    @property
    def bytes_per_second(self) -> float:
        """Bytes that are read from all its channels, per second."""

    @property
    def burst_bytes(self) -> float:
        """Burst of bytes."""

    @property
    def frames_per_second(self) -> float:
        """Frames that are read from all its channels, per second."""

    @property
    def burst_frames(self) -> float:
        """Burst of frames."""

    @property
    def empty_frames_per_second(self) -> float:
        """Frames among them without content, such as pings, per second."""

    @property
    def burst_empty_frames(self) -> float:
        """Burst of empty frames."""


class ChannelBudget:
    """Rates of one principal. Excess bytes and frames are read later; excess empty frames are an error."""

    def __init__(self, limits: ChannelLimits, now_s: float) -> None:
        def bucket(rate: float, burst: float) -> TokenBucket:
            return TokenBucket(rate, burst, updated_s=now_s)

        self._bytes = bucket(limits.bytes_per_second, limits.burst_bytes)
        self._frames = bucket(limits.frames_per_second, limits.burst_frames)
        self._empty_frames = bucket(limits.empty_frames_per_second, limits.burst_empty_frames)

    def wait_s(self, now_s: float, *, size: int, frames: int, empty_frames: int) -> float:
        """Charge received bytes and frames. Returns the pause before the next read, in seconds.

        Raises `FrameFlood` if there are too many empty frames.
        """
        if empty_frames and not self._empty_frames.take(empty_frames, now_s):
            raise FrameFlood("more pings, or other frames that carry nothing, than this peer may send")
        return max(self._bytes.wait_s(size, now_s), self._frames.wait_s(frames, now_s))
