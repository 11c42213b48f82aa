"""The state of a shard: blobs by kind and name, all in one of Spark's state variables.

Several small blobs share one value of it: what is dear there is the call, not the bytes. Each call of a
worker on Spark's state crosses a socket and is some 200 microseconds of processor time on both sides, so a
micro-batch that touches a thousand channels of a shard would spend most of its time on them. Here names share
buckets by linear hashing (Litwin 1980): with each few names more one bucket is split, so a bucket holds
`_MEAN` names on average however many there are, and growth never writes more than two of them anew.
"""

from typing import Any, Final

import cbor2
from xxhash import xxh64_intdigest

from culm_streaming.stateful.job_state import JobState, Key, Value, Variable


def _kind(number: int) -> Variable[bytes]:
    return Variable("blobs", "name binary", prefix=bytes([number]))


class Kind:
    """What a blob is; beside it, what its name is made of (`name_of`).

    Blobs of channels, of participants and of their owners share values under the numbers of their buckets
    (`BucketedState`).
    """

    SHARD = _kind(0)
    """The shard's layout and its timer. No name."""
    WAKES = _kind(1)
    """The channels to be looked at at a time. The time in milliseconds."""
    CHANNEL = _kind(2)
    """A channel's record: all that is small. The channel."""
    JOURNAL = _kind(3)
    """A chunk of a channel's journal. The channel, number of the chunk."""
    TOKENS = _kind(4)
    """The commands that a channel has done last. The channel."""
    HOSTED = _kind(5)
    """A hosted participant: since when, and how many of its messages have finished. Channel, participant."""
    FINISHED = _kind(6)
    """Some finished messages of a participant, oldest first. Channel, participant, number of the chunk."""
    HELD = _kind(7)
    """A message in quarantine, as it came. Channel, message id."""
    BUCKETS = _kind(8)
    """How many names of a kind share buckets, and how many buckets. The kind; see `BucketedState`."""
    FILTER_BYTES = _kind(9)
    """What all filters take that are larger than the default. No name; see `channel_settings`."""
    OWNER = _kind(10)
    """Whose a channel is, and a participant id of it. The channel, participant or ""; see `owners`."""
    KEY_IDS = _kind(11)
    """How many ids of a channel a key owns. The channel, the key."""


def name_of(*parts: bytes | str | int) -> bytes:
    """A name out of its parts: texts and bytes behind their length, numbers in 8 bytes."""
    return b"".join(map(_part, parts))


def _part(part: bytes | str | int) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(8, "big")
    raw = part.encode() if isinstance(part, str) else part
    return len(raw).to_bytes(2, "big") + raw


_BUCKETED: Final = (Kind.CHANNEL, Kind.HOSTED, Kind.OWNER, Kind.KEY_IDS)
_MEAN: Final = 8
_HASH_SEED: Final = 1
"""Not that of `shard_of`: the names of one shard have its hashes in common."""
_MOST_HELD_BYTES: Final = 64 * 1024 * 1024


class BucketedState:
    """A shard's state for one batch: small blobs go into buckets, which `flush` writes; others at once."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._maps: dict[Variable[Any], _Buckets] = {kind: _Buckets(state, kind) for kind in _BUCKETED}

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        """See `JobState`."""
        buckets = self._maps.get(variable)
        return self._state.load(variable, key) if buckets is None else buckets.load(key)

    def save(self, variable: Variable[Value], key: Key, value: Value | None) -> None:
        """See `JobState`."""
        buckets = self._maps.get(variable)
        if buckets is None:
            self._state.save(variable, key, value)
        else:
            buckets.save(key, value)

    def flush(self) -> None:
        """Write what has changed."""
        for buckets in self._maps.values():
            buckets.flush()


class _Buckets:
    """The buckets of one kind: `_count` for `_names` names. `_loaded` is what was looked at, by number;
    `_changed` are the numbers of those to write."""

    def __init__(self, state: JobState, kind: Variable[bytes]) -> None:
        self._state = state
        self._kind = kind
        self._sizes: tuple[int, int] | None = None
        self._names = self._count = 0
        self._loaded: dict[int, dict[bytes, bytes]] = {}
        self._loaded_bytes = 0
        self._changed: dict[int, None] = {}

    def load(self, name: Any) -> Any:
        self._make_room()
        return self._bucket(self._number_of(name)).get(name)

    def save(self, name: Any, blob: Any) -> None:
        self._make_room()
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
            self._state.save(Kind.BUCKETS, name_of(self._kind.prefix[0]), cbor2.dumps(self._sizes))

    def _make_room(self) -> None:
        if self._loaded_bytes > _MOST_HELD_BYTES:
            self.flush()
            self._loaded.clear()
            self._loaded_bytes = 0

    def _measure(self) -> None:
        if self._sizes is None:
            blob = self._state.load(Kind.BUCKETS, name_of(self._kind.prefix[0]))
            self._names, self._count = (0, 1) if blob is None else cbor2.loads(blob)
            self._sizes = self._names, self._count

    def _number_of(self, name: bytes) -> int:
        self._measure()
        half = 1 << self._count.bit_length() - 1
        place = xxh64_intdigest(name, seed=_HASH_SEED)
        number = place % (2 * half)
        return number if number < self._count else place % half

    def _split(self) -> None:
        """One bucket more, filled from the one that its names were in."""
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
