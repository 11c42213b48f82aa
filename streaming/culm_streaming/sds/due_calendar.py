"""When which channels of a shard are to be looked at: a calendar of coarse times, and the shard's one timer.

A channel stands under one time that counts, the one that its record names; where it is due later by now, it
stays and is put down anew when that time has come, and where it is due earlier, the former place is passed
over then. So most batches change nothing here, and an idle channel is nowhere.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass, field

import cbor2

from culm_streaming.errors import StateLayoutError
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import Kind, name_of
from culm_streaming.stateful.job_state import JobState, check_format

_FORMAT = 2
_SHARD = b""


@dataclass(slots=True)
class DueCalendar:
    """The calendar of one shard.

    `timer_ms` is what the shard's timer is set to; `looked_ms` the time of the batch that last did what was
    due, `lag` that of the batch in which the shard lagged, and its newest record's time.
    """

    settings: ChannelsSettings
    times_ms: list[int] = field(default_factory=list)
    timer_ms: int | None = None
    looked_ms: int = 0
    lag: tuple[int, int] | None = None
    _loaded: bytes | None = None
    _added: dict[int, list[bytes]] = field(default_factory=dict)
    _left: dict[int, list[bytes] | None] = field(default_factory=dict)

    @staticmethod
    def load(state: JobState, settings: ChannelsSettings) -> "DueCalendar":
        """The shard's calendar. Raises `StateLayoutError` when it was made with another layout."""
        blob = state.load(Kind.SHARD, _SHARD)
        if blob is None:
            return DueCalendar(settings)
        form, shards, wake_ms, times_ms, timer_ms, looked_ms, lag = cbor2.loads(blob)
        check_format("a shard of channels", form, _FORMAT)
        if (shards, wake_ms) != (settings.shards, settings.wake_ms):
            raise StateLayoutError(
                f"this checkpoint was made with {shards} shards (partitions of `sds.out`) and times of "
                f"{wake_ms} ms, not {settings.shards} and {settings.wake_ms}: take another checkpoint"
            )
        return DueCalendar(
            settings, times_ms, timer_ms, looked_ms, None if lag is None else (lag[0], lag[1]), _loaded=blob
        )

    def put(self, channel: bytes, due_ms: int | None, wake_ms: int | None, now_ms: int) -> int | None:
        """Put down a channel that stands under `wake_ms` so far; the time that it stands under now."""
        if due_ms is None:
            return wake_ms
        time_ms = self._time_of(due_ms, now_ms)
        if wake_ms is not None and wake_ms <= time_ms:
            return wake_ms
        self._added.setdefault(time_ms, []).append(channel)
        at = bisect_right(self.times_ms, time_ms)
        if not at or self.times_ms[at - 1] != time_ms:
            insort(self.times_ms, time_ms)
            self._left.setdefault(time_ms, None)
        return time_ms

    def _time_of(self, due_ms: int, now_ms: int) -> int:
        """Near times rounded up, so that the channel is due then; far ones down, and ever more coarsely."""
        far_ms = due_ms - now_ms
        if far_ms <= self.settings.far_ms:
            step_ms = self.settings.wake_ms
            return -(-due_ms // step_ms) * step_ms
        step_ms = 1 << (far_ms // 2).bit_length() - 1
        return due_ms // step_ms * step_ms

    def take(self, state: JobState, until_ms: int, most: int) -> list[tuple[int, bytes]]:
        """(time, channel) of what stands under times up to `until_ms`, `most` at most; it is out then."""
        taken: list[tuple[int, bytes]] = []
        while self.times_ms and self.times_ms[0] <= until_ms and len(taken) < most:
            time_ms = self.times_ms[0]
            channels = self._load(state, time_ms) + self._added.pop(time_ms, [])
            room = most - len(taken)
            taken += [(time_ms, channel) for channel in channels[:room]]
            rest = channels[room:]
            self._left[time_ms] = rest or None
            if not rest:
                del self.times_ms[0]
        return taken

    def save(self, state: JobState, batch_ms: int) -> int | None:
        """Write the calendar; returns what the timer is to be set to, always after the batch's time."""
        for time_ms in sorted({*self._added, *self._left}):
            channels = self._load(state, time_ms) + self._added.get(time_ms, [])
            state.save(Kind.WAKES, name_of(time_ms), cbor2.dumps(channels) if channels else None)
        self._added, self._left = {}, {}
        first_ms = self.times_ms[0] if self.times_ms else None
        if first_ms is not None:
            wanted_ms = max(first_ms, batch_ms + 1)
            # A timer that is set and has not fired is left where it is, unless it is too late.
            if self.timer_ms is None or self.timer_ms <= batch_ms or wanted_ms < self.timer_ms:
                self.timer_ms = wanted_ms
        blob = cbor2.dumps(
            (
                _FORMAT,
                self.settings.shards,
                self.settings.wake_ms,
                self.times_ms,
                self.timer_ms,
                self.looked_ms,
                self.lag,
            )
        )
        if blob != self._loaded:
            state.save(Kind.SHARD, _SHARD, blob)
            self._loaded = blob
        return self.timer_ms

    def _load(self, state: JobState, time_ms: int) -> list[bytes]:
        if time_ms in self._left:
            return self._left[time_ms] or []
        blob = state.load(Kind.WAKES, name_of(time_ms))
        return [] if blob is None else list(cbor2.loads(blob))
