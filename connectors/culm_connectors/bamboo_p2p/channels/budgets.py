"""What one principal may send over channels that are multiplexed, over all of its connections.

Time is an argument, in seconds by the monotonic clock.
"""

from __future__ import annotations

from typing import Protocol

from culm_connectors.rate_limit import TokenBucket
from culm_models.bymux import FrameFlood


class ChannelLimits(Protocol):
    """The settings of one principal's channels; a rate of 0 is unlimited."""

    @property
    def bytes_per_second(self) -> float:
        """Bytes that are read of all its channels."""

    @property
    def burst_bytes(self) -> float:
        """How many of them may be saved up."""

    @property
    def frames_per_second(self) -> float:
        """Frames that are read of all its channels."""

    @property
    def burst_frames(self) -> float:
        """How many of them may be saved up."""

    @property
    def empty_frames_per_second(self) -> float:
        """Frames among them that carry nothing, such as pings."""

    @property
    def burst_empty_frames(self) -> float:
        """How many of those may be saved up."""


class ChannelBudget:
    """The rates of one principal: bytes and frames beyond them are read later, empty frames are not taken."""

    def __init__(self, limits: ChannelLimits, now_s: float) -> None:
        def bucket(rate: float, burst: float) -> TokenBucket:
            return TokenBucket(rate, burst, updated_s=now_s)

        self._bytes = bucket(limits.bytes_per_second, limits.burst_bytes)
        self._frames = bucket(limits.frames_per_second, limits.burst_frames)
        self._empty_frames = bucket(limits.empty_frames_per_second, limits.burst_empty_frames)

    def wait_s(self, now_s: float, *, size: int, frames: int, empty_frames: int) -> float:
        """Charge what came; returns for how long nothing more is to be read, in seconds.

        Raises `FrameFlood` where there are too many empty frames.
        """
        if empty_frames and not self._empty_frames.take(empty_frames, now_s):
            raise FrameFlood("more pings, or other frames that carry nothing, than this peer may send")
        return max(self._bytes.wait_s(size, now_s), self._frames.wait_s(frames, now_s))
