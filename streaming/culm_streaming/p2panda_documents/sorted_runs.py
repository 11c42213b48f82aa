"""An append-only map from 16-byte keys to values of one size, in state values that array operations read.

A key belongs to one of a fixed number of blocks, by its last bits. A block is a sequence of runs, each of
them sorted by key and one state value. What a micro-batch appends to a block becomes its last run. It is
merged with the run before while that one is less than `_GROWTH` times as long and both fit in one value. So a
key is rewritten O(log n) times, and a block has O(log n) runs, apart from those that are full.

Keys are hashes that anyone can choose, so they are compared in full: two that share eight bytes cost a second
comparison. Keys that the state has already may be appended again: the first value is found, and a merge drops
the other.

Layout of a run: one half of each key u64 | the other half u64 | the values. The directory has the format,
the layout, and the number of keys of each run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.stateful.job_state import JobState, Variable, check_format

Array = npt.NDArray[Any]

KEY_SIZE: Final = 16
MAX_RUN_BYTES: Final = 1_000_000
_GROWTH: Final = 4
_FORMAT: Final = 1
_HEADER: Final = struct.Struct("<BxHI")


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Keys as two columns, the last eight bytes and the first eight. Sorted means by `high`, then `low`."""

    high: Array
    low: Array

    @classmethod
    def of(cls, packed: bytes | Array) -> Self:
        """Return the keys of concatenated keys."""
        halves = np.frombuffer(packed, "<u8").reshape(-1, 2)
        return cls(np.ascontiguousarray(halves[:, 1]), np.ascontiguousarray(halves[:, 0]))

    def __len__(self) -> int:
        return len(self.high)

    def take(self, positions: Array | slice) -> Keys:
        """Return the keys at these positions."""
        return Keys(self.high[positions], self.low[positions])

    def joined(self, other: Keys) -> Keys:
        """Return these keys, then the other ones."""
        return Keys(np.concatenate((self.high, other.high)), np.concatenate((self.low, other.low)))

    def order(self) -> Array:
        """Return the positions of the keys in sorted order; equal keys stay in their order."""
        order: Array = np.argsort(self.high, kind="stable")
        ordered = self.high[order]
        if (ordered[1:] == ordered[:-1]).any():
            order = np.lexsort((self.low, self.high))
        return order

    def firsts(self) -> Array:
        """Return for each of these sorted keys whether it differs from the one before."""
        first = np.ones(len(self), bool)
        first[1:] = (self.high[1:] != self.high[:-1]) | (self.low[1:] != self.low[:-1])
        return first

    def find(self, queries: Keys) -> Array:
        """Return the position of each query among these sorted keys, -1 if it is not there."""
        places = np.full(len(queries), -1, np.int64)
        if not len(self):
            return places
        left = np.arange(len(queries))
        at = np.searchsorted(self.high, queries.high)
        while len(left):
            inside = at < len(self)
            left, at = left[inside], at[inside]
            same = self.high[at] == queries.high[left]
            left, at = left[same], at[same]
            equal = self.low[at] == queries.low[left]
            places[left[equal]] = at[equal]
            left, at = left[~equal], at[~equal] + 1
        return places

    def blocks(self, count: int) -> Array:
        """Return the block of each key; those of sorted keys ascend."""
        return ((self.high >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    keys: Keys
    values: Array

    def encode(self) -> bytes:
        columns = (self.keys.high, self.keys.low, self.values)
        return b"".join(np.ascontiguousarray(column).tobytes() for column in columns)

    def take(self, positions: Array | slice) -> _Run:
        return _Run(self.keys.take(positions), self.values[positions])

    def merged(self, newer: _Run) -> _Run:
        keys = self.keys.joined(newer.keys)
        return _Run(keys, np.concatenate((self.values, newer.values))).sorted()

    def sorted(self) -> _Run:
        """Return the run in order, without repeated keys."""
        ordered = self.take(self.keys.order())
        first = ordered.keys.firsts()
        return ordered if first.all() else ordered.take(first)


@dataclass(frozen=True, slots=True, eq=False)
class RunsPlace:
    """The state of one map: its name for people, variables by key of bytes, and size of its values."""

    name: str
    directory: Variable[bytes]
    runs: Variable[bytes]
    value_size: int

    @property
    def run_length(self) -> int:
        """Maximum number of keys in a run."""
        return MAX_RUN_BYTES // (KEY_SIZE + self.value_size)


class SortedRuns:
    """One map during a micro-batch. `save` stores what `append` changed.

    Raises `StateLayoutError` for another format or layout, `StateMissingError` for damaged state.
    """

    def __init__(self, store: JobState, place: RunsPlace, blocks: int) -> None:
        self._store = store
        self._place = place
        self._blocks = blocks
        self._directory = store.load(place.directory, b"")
        self._lengths = self._decode_directory()
        self._runs: dict[tuple[int, int], _Run] = {}
        self._changed: set[tuple[int, int]] = set()
        self._stored_counts: dict[int, int] = {}
        """Number of runs that the state has of each changed block."""

    def __len__(self) -> int:
        """Return the number of keys, repeated ones included."""
        return sum(map(sum, self._lengths))

    def lookup(self, keys: Keys) -> tuple[Array, Array]:
        """Return whether each key has a value, and the values as rows of bytes, 0 for those without."""
        has_value = np.zeros(len(keys), bool)
        values = np.zeros((len(keys), self._place.value_size), np.uint8)
        order = keys.order()
        for block, start, end in _by_block(keys.take(order).blocks(self._blocks)):
            left = order[start:end]
            for position in range(len(self._lengths[block])):
                run = self._run(block, position)
                places = run.keys.find(keys.take(left))
                hit = places >= 0
                values[left[hit]] = run.values[places[hit]]
                has_value[left[hit]] = True
                left = left[~hit]
                if not len(left):
                    break
        return has_value, values

    def append(self, keys: Keys, values: Array) -> None:
        """Add values, as rows of bytes. A key that has one keeps it; the first of repeated keys counts."""
        if not len(keys):
            return
        new = _Run(keys, values).sorted()
        for block, start, end in _by_block(new.keys.blocks(self._blocks)):
            self._append(block, new.take(slice(start, end)))

    def save(self) -> None:
        """Store the changes."""
        for block, position in sorted(self._changed):
            if position < len(self._lengths[block]):
                self._store.save(
                    self._place.runs, _run_key(block, position), self._runs[block, position].encode()
                )
        for block, count in sorted(self._stored_counts.items()):
            for position in range(len(self._lengths[block]), count):
                self._store.save(self._place.runs, _run_key(block, position), None)
        if self._changed and (directory := self._encode_directory()) != self._directory:
            self._store.save(self._place.directory, b"", directory)
            self._directory = directory
        self._changed.clear()
        self._stored_counts.clear()

    def _append(self, block: int, new: _Run) -> None:
        lengths = self._lengths[block]
        self._stored_counts.setdefault(block, len(lengths))
        limit = self._place.run_length
        while lengths and lengths[-1] < _GROWTH * len(new.keys) and lengths[-1] + len(new.keys) <= limit:
            new = self._run(block, len(lengths) - 1).merged(new)
            lengths.pop()
        for start in range(0, len(new.keys), limit):
            piece = new.take(slice(start, start + limit))
            self._runs[block, len(lengths)] = piece
            self._changed.add((block, len(lengths)))
            lengths.append(len(piece.keys))

    def _run(self, block: int, position: int) -> _Run:
        run = self._runs.get((block, position))
        if run is None:
            blob = self._store.load(self._place.runs, _run_key(block, position))
            count, size = self._lengths[block][position], self._place.value_size
            if blob is None or len(blob) != count * (KEY_SIZE + size):
                raise StateMissingError(f"a run of {self._place.name} is missing or has the wrong size")
            keys = Keys(np.frombuffer(blob, "<u8", count), np.frombuffer(blob, "<u8", count, 8 * count))
            values = np.frombuffer(blob, np.uint8, count * size, KEY_SIZE * count).reshape(count, size)
            run = self._runs[block, position] = _Run(keys, values)
        return run

    def _encode_directory(self) -> bytes:
        counts = np.fromiter(map(len, self._lengths), "<u4", self._blocks)
        lengths = np.array([length for block in self._lengths for length in block], "<u4")
        header = _HEADER.pack(_FORMAT, self._place.value_size, self._blocks)
        return b"".join((header, counts.tobytes(), lengths.tobytes()))

    def _decode_directory(self) -> list[list[int]]:
        blob, name = self._directory, self._place.name
        if blob is None:
            return [[] for _ in range(self._blocks)]
        check_format(name, blob[0], _FORMAT)
        _, size, blocks = _HEADER.unpack_from(blob)
        if (size, blocks) != (self._place.value_size, self._blocks):
            raise StateLayoutError(
                f"the checkpoint was made with {blocks} blocks for {name}, not {self._blocks}: keep that "
                "number, or start a new checkpoint"
            )
        counts = np.frombuffer(blob, "<u4", blocks, _HEADER.size).tolist()
        offset = _HEADER.size + 4 * blocks
        if len(blob) != offset + 4 * sum(counts):
            raise StateMissingError(f"the directory of {name} has the wrong size")
        lengths = iter(np.frombuffer(blob, "<u4", sum(counts), offset).tolist())
        return [[next(lengths) for _ in range(count)] for count in counts]


def _run_key(block: int, position: int) -> bytes:
    return struct.pack(">II", block, position)


def _by_block(blocks: Array) -> Iterator[tuple[int, int, int]]:
    """Iterate (block, start, end) of ascending block numbers."""
    if not len(blocks):
        return
    starts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist()]
    yield from zip(blocks[starts].tolist(), starts, [*starts[1:], len(blocks)], strict=True)
