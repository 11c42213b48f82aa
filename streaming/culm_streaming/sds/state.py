"""The state of a shard: blobs by kind and name, all in one of Spark's state variables.

Several small blobs share one value of it, because the expensive part is the call, not the bytes. Each call of
a worker to Spark's state crosses a socket and takes some 200 microseconds of processor time on both sides, so
a micro-batch that touches a thousand channels of a shard would spend most of its time on them. Names share
buckets by linear hashing (Litwin 1980): one bucket is split for every few new names, so a bucket holds
`_MEAN` names on average for any number of names, and growth never rewrites more than two buckets.

A calendar of coarse times, and the shard's one timer, tell when channels are to be checked. A channel has one
valid time in the calendar, the one in its record. If it has become due later, it stays and is entered again
when that time has come; if it has become due earlier, the old place is skipped then. So usual batches change
nothing here, and an idle channel is not in the calendar.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2
from xxhash import xxh64_intdigest

from culm_streaming.errors import StateLayoutError
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.stateful.job_state import JobState, Key, Value, Variable, check_format


def _kind(number: int) -> Variable[bytes]:
    return Variable("blobs", "name binary", prefix=bytes([number]))


class StateKind:
    """Kinds of blobs, with the parts of their names (`name_of`).

    Blobs of channels, of participants and of their owners share values under the numbers of their buckets
    (`BucketedState`).
    """

    SHARD = _kind(0)
    """The shard's layout and its timer. No name."""
    WAKES = _kind(1)
    """The channels to check at a time. Name: the time in milliseconds."""
    CHANNEL = _kind(2)
    """A channel's record: its small parts. Name: the channel."""
    JOURNAL = _kind(3)
    """A chunk of a channel's journal. Name: channel, number of the chunk."""
    TOKENS = _kind(4)
    """The last commands that a channel executed. Name: the channel."""
    HOSTED = _kind(5)
    """A hosted participant: when it joined, its number of finished messages. Name: channel, participant."""
    FINISHED = _kind(6)
    """Finished messages of a participant, oldest first. Name: channel, participant, number of the chunk."""
    HELD = _kind(7)
    """A message in quarantine, as received. Name: channel, message id."""
    BUCKETS = _kind(8)
    """Number of names of a kind that share buckets, and of buckets. Name: the kind; see `BucketedState`."""
    FILTER_BYTES = _kind(9)
    """Total size of filters larger than the default. No name; see `channel_settings`."""
    OWNER = _kind(10)
    """Owner of a channel, or of a participant id in it. Name: channel, participant or ""; see `owners`."""
    KEY_IDS = _kind(11)
    """The number of ids of a channel that a key owns. Name: channel, key."""


def name_of(*parts: bytes | str | int) -> bytes:
    """Return a name made of parts: texts and bytes after their length, numbers in 8 bytes."""
    return b"".join(map(_part, parts))


def _part(part: bytes | str | int) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(8, "big")
    raw = part.encode() if isinstance(part, str) else part
    return len(raw).to_bytes(2, "big") + raw


_BUCKETED: Final = (StateKind.CHANNEL, StateKind.HOSTED, StateKind.OWNER, StateKind.KEY_IDS)
_MEAN: Final = 8
_HASH_SEED: Final = 1
"""Different from the seed of `shard_of`: the names of one shard share its hashes."""
_MAX_HELD_BYTES: Final = 64 * 1024 * 1024


class BucketedState:
    """A shard's state for one batch: small blobs go into buckets, which `flush` writes.

    Other blobs are written at once.
    """

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._maps: dict[Variable[Any], _Buckets] = {kind: _Buckets(state, kind) for kind in _BUCKETED}

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        """Return the value saved last, or None."""
        buckets = self._maps.get(variable)
        return self._state.load(variable, key) if buckets is None else buckets.load(key)

    def save(self, variable: Variable[Value], key: Key, value: Value | None) -> None:
        """Store a value; None removes it."""
        buckets = self._maps.get(variable)
        if buckets is None:
            self._state.save(variable, key, value)
        else:
            buckets.save(key, value)

    def flush(self) -> None:
        """Write changed buckets."""
        for buckets in self._maps.values():
            buckets.flush()


class _Buckets:
    """The buckets of one kind: `_count` buckets for `_names` names.

    `_loaded` are the buckets read so far, by number; `_changed` are the numbers of buckets to write.
    """

    def __init__(self, state: JobState, kind: Variable[bytes]) -> None:
        self._state = state
        self._kind = kind
        self._sizes: tuple[int, int] | None = None
        self._names = self._count = 0
        self._loaded: dict[int, dict[bytes, bytes]] = {}
        self._loaded_bytes = 0
        self._changed: dict[int, None] = {}

    def load(self, name: Any) -> Any:
        self._unload_if_full()
        return self._bucket(self._number_of(name)).get(name)

    def save(self, name: Any, blob: Any) -> None:
        self._unload_if_full()
        number = self._number_of(name)
        bucket = self._bucket(number)
        former = bucket.pop(name, None)
        self._names += (blob is not None) - (former is not None)
        self._changed[number] = None
        if blob is not None:
            bucket[name] = blob
        self._loaded_bytes += len(blob or b"") - len(former or b"")
        while self._names > _MEAN * self._count:
            self._split()

    def flush(self) -> None:
        for number in self._changed:
            bucket = self._loaded[number]
            parts = [part for pair in bucket.items() for part in pair]
            self._state.save(self._kind, name_of(number), cbor2.dumps(parts) if parts else None)
        self._changed.clear()
        if self._sizes is not None and self._sizes != (self._names, self._count):
            self._sizes = self._names, self._count
            self._state.save(StateKind.BUCKETS, name_of(self._kind.prefix[0]), cbor2.dumps(self._sizes))

    def _unload_if_full(self) -> None:
        if self._loaded_bytes > _MAX_HELD_BYTES:
            self.flush()
            self._loaded.clear()
            self._loaded_bytes = 0

    def _measure(self) -> None:
        if self._sizes is None:
            blob = self._state.load(StateKind.BUCKETS, name_of(self._kind.prefix[0]))
            self._names, self._count = (0, 1) if blob is None else cbor2.loads(blob)
            self._sizes = self._names, self._count

    def _number_of(self, name: bytes) -> int:
        self._measure()
        half = 1 << self._count.bit_length() - 1
        hashed = xxh64_intdigest(name, seed=_HASH_SEED)
        number = hashed % (2 * half)
        return number if number < self._count else hashed % half

    def _split(self) -> None:
        """Add a bucket, filled from the one that held its names."""
        former = self._count - (1 << self._count.bit_length() - 1)
        moved = self._count
        self._bucket(former)
        self._count += 1
        names = self._loaded[former]
        self._loaded[former], self._loaded[moved] = {}, {}
        for name, blob in names.items():
            self._loaded[self._number_of(name)][name] = blob
        self._changed[former] = self._changed[moved] = None

    def _bucket(self, number: int) -> dict[bytes, bytes]:
        bucket = self._loaded.get(number)
        if bucket is None:
            blob = self._state.load(self._kind, name_of(number))
            parts = [] if blob is None else cbor2.loads(blob)
            bucket = self._loaded[number] = dict(zip(parts[::2], parts[1::2], strict=True))
            self._loaded_bytes += 0 if blob is None else len(blob)
        return bucket


_FORMAT = 2
_SHARD = b""


@dataclass(slots=True)
class DueCalendar:
    """The calendar of one shard.

    `timer_ms` is the time of the shard's timer; `looked_ms` the time of the batch that last ran due actions;
    `lag` the time of the last batch in which the shard lagged, and its newest record's time.
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
        """Load the shard's calendar. Raises `StateLayoutError` if it was made with another layout."""
        blob = state.load(StateKind.SHARD, _SHARD)
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
        """Enter a channel whose time was `wake_ms`. Returns its time in the calendar now."""
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
        """Round near times up, so that the channel is due then; far ones down, the coarser the further."""
        far_ms = due_ms - now_ms
        if far_ms <= self.settings.far_ms:
            step_ms = self.settings.wake_ms
            return -(-due_ms // step_ms) * step_ms
        step_ms = 1 << (far_ms // 2).bit_length() - 1
        return due_ms // step_ms * step_ms

    def take(self, state: JobState, until_ms: int, max_channels: int) -> list[tuple[int, bytes]]:
        """Remove and return (time, channel) of up to `max_channels` channels with times up to `until_ms`."""
        taken: list[tuple[int, bytes]] = []
        while self.times_ms and self.times_ms[0] <= until_ms and len(taken) < max_channels:
            time_ms = self.times_ms[0]
            channels = self._load(state, time_ms) + self._added.pop(time_ms, [])
            capacity = max_channels - len(taken)
            taken += [(time_ms, channel) for channel in channels[:capacity]]
            rest = channels[capacity:]
            self._left[time_ms] = rest or None
            if not rest:
                del self.times_ms[0]
        return taken

    def save(self, state: JobState, batch_ms: int) -> int | None:
        """Write the calendar. Returns the time for the timer, always after the batch's time."""
        for time_ms in sorted({*self._added, *self._left}):
            channels = self._load(state, time_ms) + self._added.get(time_ms, [])
            state.save(StateKind.WAKES, name_of(time_ms), cbor2.dumps(channels) if channels else None)
        self._added, self._left = {}, {}
        first_ms = self.times_ms[0] if self.times_ms else None
        if first_ms is not None:
            wanted_ms = max(first_ms, batch_ms + 1)
            # A pending timer is left unchanged, unless it is too late.
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
            state.save(StateKind.SHARD, _SHARD, blob)
            self._loaded = blob
        return self.timer_ms

    def _load(self, state: JobState, time_ms: int) -> list[bytes]:
        if time_ms in self._left:
            return self._left[time_ms] or []
        blob = state.load(StateKind.WAKES, name_of(time_ms))
        return [] if blob is None else list(cbor2.loads(blob))
