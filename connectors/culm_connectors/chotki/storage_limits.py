"""Limits of received changes: the size of a field and of a vector, and the number of sources.

They are checked before anything is produced. A change that the job could merge but not write, or that no edge
could send to a peer, would be lost although vectors claim it.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from culm_models.chotki.errors import RecordTooLarge
from culm_models.chotki.ids import Id, split_object_key, vector_key
from culm_models.chotki.rdx import merge, parse_vector
from culm_models.chotki.rdx.first import FIRST_LETTERS, elements, read_stamp

MAX_VECTOR_BYTES: Final = 3 * 512 * 1024
"""The largest vector, some 100,000 sources: two of them fit into a record of Kafka."""
LARGE_FIELD_BYTES: Final = 16 * 1024 * 1024
"""The store lists all fields that are larger than this, with their sizes."""
_DIFF_OVERHEAD_BYTES: Final = 64
"""Largest size of a packet D with one field, without the value."""
_GROWING: Final = frozenset(b"NZEMCV")
"""Types whose operands add up. For other types one operand is the value; the job limits type L."""
_COUNTERS: Final = 1 << 14
_NAMED_WRITERS: Final = 3


class LargeFields(Protocol):
    """The part of the local store that is used here."""

    @property
    def vector(self) -> Mapping[int, int]:
        """The global vector."""
        ...

    @property
    def large_fields(self) -> Mapping[bytes, int]:
        """Sizes of all fields larger than `LARGE_FIELD_BYTES`, by key."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return the current value of a key, or None."""
        ...


class OperandSizes:
    """Upper bounds of the bytes that the operands of one sync add to each field, in little memory.

    Fields share counters, so a bound may be too high. It only selects the fields that have to be checked.
    """

    __slots__ = ("_counters", "_seen_bytes")

    def __init__(self) -> None:
        self._counters: array[int] | None = None
        self._seen_bytes = 0

    def add(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        """Count these operands."""
        if self._counters is None:
            self._seen_bytes += sum(len(value) for _, value in fields)
            if self._seen_bytes <= LARGE_FIELD_BYTES:
                return
            # No field so far has more than this.
            self._counters = array("Q", [LARGE_FIELD_BYTES]) * _COUNTERS
        counters = self._counters
        for key, value in fields:
            counters[hash(key) % _COUNTERS] += len(value)

    def bound(self, key: bytes) -> int:
        """Return the upper bound for the operands of a field, in bytes."""
        return self._seen_bytes if self._counters is None else self._counters[hash(key) % _COUNTERS]

    @property
    def largest(self) -> int:
        """Upper bound for the operands of every field, in bytes."""
        return self._seen_bytes if self._counters is None else max(self._counters)


class StorageLimits:
    """Limits of one edge. Each check raises `RecordTooLarge`, which names the field and its writers."""

    def __init__(self, store: LargeFields, max_record_bytes: int) -> None:
        self._store = store
        self._field_bytes = max_record_bytes - _DIFF_OVERHEAD_BYTES
        self._max_sources = MAX_VECTOR_BYTES // 16
        self._new_sources: tuple[set[int], set[int]] = set(), set()
        """Sources that no epoch has yet: added before the last epoch, and since."""

    def epoch(self) -> None:
        """Forget the sources that the new epoch of the store contains."""
        self._new_sources = self._new_sources[1], set()

    def check_source(self, src: int) -> None:
        """Check that vectors have capacity for a source. Every vector has an entry for each source."""
        known, (former, new) = self._store.vector, self._new_sources
        if src in known or src in new or src in former:
            return
        if len(known) + len(former) + len(new) >= self._max_sources:
            raise RecordTooLarge(
                f"source {src:x} is one more than the {self._max_sources:,} that vectors hold"
            )
        new.add(src)

    def check_live(self, writes: Iterable[tuple[bytes, bytes]]) -> None:
        """Check the operands of a live packet. Operands that might make a field too large need a diff."""
        large = self._store.large_fields
        if not large:
            return
        for key, operand in writes:
            size = large.get(key, 0) + len(operand)
            if key[17] in _GROWING and size > self._field_bytes:
                raise self._too_large(key, size, [operand])

    def check_sync(
        self, sizes: OperandSizes, fields: Iterable[tuple[bytes, bytes]], vectors: Sequence[tuple[Id, bytes]]
    ) -> None:
        """Check a whole sync. `fields` are only read if a field may become too large. May take long."""
        for block, vector in vectors:
            before = self._store.get(vector_key(block)) or b""
            if len(before) + len(vector) > MAX_VECTOR_BYTES:
                _check_size(merge("V", [before, vector]))
        for key, operands in self._doubtful(sizes, fields).items():
            self._check_field(key, operands)

    def check_vector(self, vector: bytes) -> None:
        """Check the vector of a sync."""
        _check_size(vector)
        for src in parse_vector(vector):
            self.check_source(src)

    def _doubtful(
        self, sizes: OperandSizes, fields: Iterable[tuple[bytes, bytes]]
    ) -> Mapping[bytes, list[bytes]]:
        """Return the operands of the fields that may become too large, by key."""
        large = self._store.large_fields
        if sizes.largest + max([LARGE_FIELD_BYTES, *large.values()]) <= self._field_bytes:
            return {}
        doubtful: dict[bytes, list[bytes]] = defaultdict(list)
        for key, operand in fields:
            if sizes.bound(key) + large.get(key, LARGE_FIELD_BYTES) > self._field_bytes:
                doubtful[key].append(operand)
        return doubtful

    def _check_field(self, key: bytes, operands: list[bytes]) -> None:
        before = self._store.get(key) or b""
        size = max(map(len, operands))
        if key[17] in _GROWING and len(before) + sum(map(len, operands)) > self._field_bytes:
            size = len(merge(chr(key[17]), [before, *operands]))
        if size > self._field_bytes:
            raise self._too_large(key, size, operands)

    def _too_large(self, key: bytes, size: int, operands: list[bytes]) -> RecordTooLarge:
        id, letter = split_object_key(key)
        writers = ", ".join(f"{src:x}" for src in _writers(id, letter, operands)[:_NAMED_WRITERS])
        return RecordTooLarge(
            f"field {id} {letter}, written by {writers}, would have {size:,} bytes, where "
            f"{self._field_bytes:,} is the most: make it smaller at a replica, or give every edge a larger "
            "max_record_bytes"
        )


def _check_size(vector: bytes) -> None:
    if len(vector) > MAX_VECTOR_BYTES:
        raise RecordTooLarge(f"a vector of {len(vector):,} bytes, where {MAX_VECTOR_BYTES:,} is the most")


def _writers(id: Id, letter: str, operands: Iterable[bytes]) -> list[int]:
    """Return the sources that wrote the bytes of these operands, those of most bytes first."""
    written: Counter[int] = Counter()
    for operand in operands:
        if letter in FIRST_LETTERS:
            stamp = read_stamp(operand)
            written[0 if stamp is None else stamp[1]] += len(operand)
        elif letter in "NZEM":
            for _, _, src, value, _ in elements(operand):
                written[src] += len(value) + 1
    del written[0]
    return [src for src, _ in written.most_common()] or [id.src]
