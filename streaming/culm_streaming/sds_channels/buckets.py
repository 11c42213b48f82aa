"""A shard's small blobs, several to one value of its state: what is dear there is the call, not the bytes.

Each call of a worker on Spark's state crosses a socket and is some 200 microseconds of processor time on both
sides, so a micro-batch that touches a thousand channels of a shard would spend most of its time on them. Here
names share buckets by linear hashing (Litwin 1980): with each few names more one bucket is split, so a bucket
holds `_MEAN` names on average however many there are, and growth never writes more than two of them anew.
"""

from typing import Final

import cbor2
from xxhash import xxh64_intdigest

from culm_streaming.sds_channels.state import Kind, State, name_of

_BUCKETED: Final = frozenset({Kind.CHANNEL, Kind.HOSTED, Kind.OWNER, Kind.KEY_IDS})
_MEAN: Final = 8
_HASH_SEED: Final = 1
"""Not that of `shard_of`: the names of one shard have its hashes in common."""
_MOST_HELD_BYTES: Final = 64 * 1024 * 1024


class BucketedState:
    """A shard's state for one batch: small blobs go into buckets, which `flush` writes; others at once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._maps: dict[Kind, _Buckets] = {kind: _Buckets(state, kind) for kind in sorted(_BUCKETED)}

    def load(self, kind: Kind, name: bytes) -> bytes | None:
        """See `State`."""
        buckets = self._maps.get(kind)
        return self._state.load(kind, name) if buckets is None else buckets.load(name)

    def save(self, kind: Kind, name: bytes, blob: bytes | None) -> None:
        """See `State`."""
        buckets = self._maps.get(kind)
        if buckets is None:
            self._state.save(kind, name, blob)
        else:
            buckets.save(name, blob)

    def flush(self) -> None:
        """Write what has changed."""
        for buckets in self._maps.values():
            buckets.flush()


class _Buckets:
    """The buckets of one kind: `_count` for `_names` names. `_loaded` is what was looked at, by number;
    `_changed` are the numbers of those to write."""

    def __init__(self, state: State, kind: Kind) -> None:
        self._state = state
        self._kind = kind
        self._sizes: tuple[int, int] | None = None
        self._names = self._count = 0
        self._loaded: dict[int, dict[bytes, bytes]] = {}
        self._loaded_bytes = 0
        self._changed: dict[int, None] = {}

    def load(self, name: bytes) -> bytes | None:
        self._make_room()
        return self._bucket(self._number_of(name)).get(name)

    def save(self, name: bytes, blob: bytes | None) -> None:
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
            self._state.save(Kind.BUCKETS, name_of(self._kind), cbor2.dumps(self._sizes))

    def _make_room(self) -> None:
        if self._loaded_bytes > _MOST_HELD_BYTES:
            self.flush()
            self._loaded.clear()
            self._loaded_bytes = 0

    def _measure(self) -> None:
        if self._sizes is None:
            blob = self._state.load(Kind.BUCKETS, name_of(self._kind))
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
