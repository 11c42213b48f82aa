"""The interface that a replica needs of its store, and a store in memory (reference 1.3, 4.1).

A store maps keys of 18 bytes to values: fields under O, vectors under V. Values change by merging operands
into them. For fields of types that are always sent whole, it also keeps *seen vectors*: per source the last
id that was merged into the field, if that is known for everything in it. With them a diff can leave such
fields out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from culm_models.chotki.rdx import merge

SEEN_TYPES: Final = frozenset(b"NZELMCV")
"""Types of fields that have seen vectors."""
MERGED_ALONE: Final = frozenset(b"COYFIRSTNZELM")
"""Types whose valid values do not change if they are merged alone; a vector is sorted by a merge."""
_VECTORS_FROM: Final = b"V"
_SIZED_AT_A_TIME: Final = 4_096


class StoreSnapshot(Protocol):
    """A store at one moment, unaffected by later merges. The caller that took it must release it."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        ...

    def fields(self, start: bytes) -> Iterator[tuple[bytes, bytes, bytes | None]]:
        """Yield fields in the order of their keys, from the first key at or after ``start``.

        Yields key, value and seen vector (TLV), which is None if not everything merged into the field is
        known.
        """
        ...

    def sizes(self, start: bytes, end: bytes) -> Iterator[int]:
        """Yield the total bytes of values between ``start`` and ``end``, for some thousand fields at a time.

        A 0 means that no size is known yet and others may run.
        """
        ...

    def vectors(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all vectors in the order of their keys; the global vector is the first."""
        ...

    def release(self) -> None:
        """Release the snapshot; it must not be used any more."""
        ...


class Store(Protocol):
    """The stored state of a replica."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        ...

    def snapshot(self) -> StoreSnapshot:
        """Return the store as it is now."""
        ...

    def merge(self, writes: Iterable[tuple[bytes, bytes, bytes | None]], *, checked: bool = False) -> None:
        """Merge operands in this order, all or nothing: key, operand, seen vector of the operand.

        `checked`: every operand parses as its type, so that an operand alone needs no merge.

        A seen vector is kept for new fields of `SEEN_TYPES` and grows with each operand; an operand without
        one removes it from the field forever.
        """
        ...


class MemorySnapshot:
    """A `MemoryStore` at one moment: it shares the dictionaries, which are no longer changed."""

    __slots__ = ("_keys", "_seen", "_values")

    def __init__(self, values: dict[bytes, bytes], seen: dict[bytes, bytes], keys: list[bytes]) -> None:
        self._values = values
        self._seen = seen
        self._keys = keys

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        return self._values.get(key)

    def fields(self, start: bytes) -> Iterator[tuple[bytes, bytes, bytes | None]]:
        """Yield fields from a key on, in order, with their seen vectors."""
        keys, values, seen = self._keys, self._values, self._seen
        for index in range(bisect_left(keys, start), bisect_left(keys, _VECTORS_FROM)):
            key = keys[index]
            yield key, values[key], seen.get(key)

    def sizes(self, start: bytes, end: bytes) -> Iterator[int]:
        """Yield the bytes of the values between two keys, for some thousand fields at a time."""
        keys, values = self._keys, self._values
        first, last = bisect_left(keys, start), bisect_left(keys, end)
        for begin in range(first, last, _SIZED_AT_A_TIME):
            yield sum(len(values[key]) for key in keys[begin : min(begin + _SIZED_AT_A_TIME, last)])

    def vectors(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all vectors in the order of their keys."""
        for index in range(bisect_left(self._keys, _VECTORS_FROM), len(self._keys)):
            key = self._keys[index]
            yield key, self._values[key]

    def release(self) -> None:
        """Do nothing: a snapshot costs one copy of the dictionaries at the first merge after it."""


class MemoryStore:
    """A `Store` in memory."""

    __slots__ = ("_keys", "_new_keys", "_seen", "_shared", "_values")

    def __init__(self, values: Mapping[bytes, bytes] | None = None) -> None:
        """Make a store of these values, for which no seen vector is known."""
        self._values = dict(values or {})
        self._seen: dict[bytes, bytes] = {}
        self._keys = sorted(self._values)
        self._new_keys: list[bytes] = []
        self._shared = False

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        return self._values.get(key)

    def values(self) -> dict[bytes, bytes]:
        """Return a copy of everything, in the order of the keys."""
        return {key: self._values[key] for key in sorted(self._values)}

    def seen(self, key: bytes) -> bytes | None:
        """Return the seen vector of a field."""
        return self._seen.get(key)

    def snapshot(self) -> MemorySnapshot:
        """Return the store as it is now."""
        if self._new_keys:
            self._keys = sorted(self._keys + self._new_keys)
            self._new_keys = []
        self._shared = True
        return MemorySnapshot(self._values, self._seen, self._keys)

    def merge(self, writes: Iterable[tuple[bytes, bytes, bytes | None]], *, checked: bool = False) -> None:
        """Merge operands in this order."""
        as_they_come = MERGED_ALONE if checked else frozenset()
        if self._shared:
            self._values, self._seen, self._shared = dict(self._values), dict(self._seen), False
        values, all_seen, new_keys = self._values, self._seen, self._new_keys
        for key, operand, seen in writes:
            code = key[17]
            old = values.get(key)
            if old is None:
                new_keys.append(key)
                values[key] = operand if code in as_they_come else merge(chr(code), [operand])
                if seen is not None and code in SEEN_TYPES:
                    all_seen[key] = seen
                continue
            values[key] = merge(chr(code), [old, operand])
            if code in SEEN_TYPES and key in all_seen:
                if seen is None:
                    del all_seen[key]
                elif all_seen[key] != seen:
                    all_seen[key] = merge("V", [all_seen[key], seen])
