"""Fields in a shard's state: those of 256 neighbouring objects in one blob.

A call on Spark's state costs far more than the bytes it moves, and what is written together is mostly
neighbouring: a diff brings whole blocks, a writer the next sequence numbers. A blob is a CBOR map of the rest
of a store key (9 bytes) to [value, seen].
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import cbor2

from culm_streaming.chotki.state import ShardState

OBJECTS_BITS: Final = 8
_NAME: Final = b"F"
_OFFSET_BITS: Final = 12


class Kept(NamedTuple):
    """A field as it is kept: its merged value, and what was merged into it; None: that is not known."""

    value: bytes
    seen: bytes | None


def bucket_name(key: bytes) -> bytes:
    """The name of the blob that a field's key belongs to."""
    number = int.from_bytes(key[9:17], "big") >> (_OFFSET_BITS + OBJECTS_BITS)
    return _NAME + key[1:9] + number.to_bytes(8, "big")


class FieldBuckets:
    """The fields of a shard for one micro-batch; `flush` writes those blobs that have changed."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._loaded: dict[bytes, dict[bytes, list[bytes | None]]] = {}
        self._changed: set[bytes] = set()

    def get(self, key: bytes) -> Kept | None:
        """The field of a store key."""
        found = self._bucket(bucket_name(key)).get(key[9:])
        if found is None:
            return None
        value, seen = found
        assert value is not None, "a field has a value"
        return Kept(value, seen)

    def put(self, key: bytes, kept: Kept) -> None:
        """Keep a field."""
        name = bucket_name(key)
        self._bucket(name)[key[9:]] = [kept.value, kept.seen]
        self._changed.add(name)

    def flush(self) -> None:
        """Write what has changed, and forget everything."""
        for name in sorted(self._changed):
            self._state.save(name, cbor2.dumps(self._loaded[name]))
        self._loaded.clear()
        self._changed.clear()

    def _bucket(self, name: bytes) -> dict[bytes, list[bytes | None]]:
        bucket = self._loaded.get(name)
        if bucket is None:
            blob = self._state.load(name)
            bucket = self._loaded[name] = {} if blob is None else cbor2.loads(blob)
        return bucket


def by_bucket(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Keys of fields in their order, those of one blob together."""
    bucket: list[bytes] = []
    name = b""
    for key in sorted(keys):
        if bucket and bucket_name(key) != name:
            yield bucket
            bucket = []
        name = bucket_name(key)
        bucket.append(key)
    if bucket:
        yield bucket
