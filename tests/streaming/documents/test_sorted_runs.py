"""The map of sorted runs answers like a dictionary, for every sequence of appends and any keys."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.p2panda_documents.sorted_runs import KEY_SIZE, MAX_RUN_BYTES, Keys, RunsPlace, SortedRuns
from culm_streaming.stateful.job_state import MemoryState, Variable

BLOCKS = 4


def place_with(value_size: int) -> RunsPlace:
    return RunsPlace(
        "a map", Variable("directory", "part binary"), Variable("runs", "part binary"), value_size
    )


def opened(store: MemoryState, place: RunsPlace, blocks: int = BLOCKS) -> SortedRuns:
    return SortedRuns(store, place, blocks)


def append(store: MemoryState, place: RunsPlace, pairs: list[tuple[bytes, bytes]]) -> None:
    runs = opened(store, place)
    values = np.frombuffer(b"".join(value for _, value in pairs), np.uint8).reshape(-1, place.value_size)
    runs.append(Keys.of(b"".join(key for key, _ in pairs)), values)
    runs.save()


def lookup(store: MemoryState, place: RunsPlace, keys: list[bytes]) -> list[bytes | None]:
    has_value, values = opened(store, place).lookup(Keys.of(b"".join(keys)))
    return [value.tobytes() if known else None for known, value in zip(has_value, values, strict=True)]


def random_pairs(count: int, seed: int, value_size: int = 2) -> list[tuple[bytes, bytes]]:
    source = random.Random(seed)
    return [(source.randbytes(KEY_SIZE), source.randbytes(value_size)) for _ in range(count)]


# Halves that are equal, that end with zero bytes, and that differ in one byte only.
HALVES = st.sampled_from(
    [bytes(8), b"\1" + bytes(7), bytes(7) + b"\1", b"\xff" * 8, b"\xff" * 7 + b"\0", b"ab" + bytes(6)]
)
KEYS = st.one_of(st.builds(bytes.__add__, HALVES, HALVES), st.binary(min_size=KEY_SIZE, max_size=KEY_SIZE))


@given(st.lists(st.lists(st.tuples(KEYS, st.binary(min_size=2, max_size=2)), max_size=12), max_size=8))
def test_the_first_value_of_each_key_is_found(batches: list[list[tuple[bytes, bytes]]]) -> None:
    store, place, model = MemoryState(), place_with(2), dict[bytes, bytes]()
    for batch in batches:
        append(store, place, batch)
        for key, value in batch:
            model.setdefault(key, value)
        queries = [*model, bytes(KEY_SIZE), b"\1" * KEY_SIZE, *model]
        assert lookup(store, place, queries) == [model.get(key) for key in queries]


def test_keys_that_share_a_half_are_different_keys() -> None:
    store, place = MemoryState(), place_with(1)
    a, b = b"a" * 8, b"b" * 8
    append(store, place, [(a + a, b"1"), (a + b, b"2"), (b + a, b"3")])
    assert lookup(store, place, [b + b, b + a, a + b, a + a]) == [None, b"3", b"2", b"1"]


def test_a_key_is_found_among_many_that_share_its_last_half() -> None:
    store, place = MemoryState(), place_with(1)
    keys = [number.to_bytes(8) + b"collided" for number in range(100)]
    append(store, place, [(key, b"%c" % number) for number, key in enumerate(keys)])
    assert lookup(store, place, keys) == [b"%c" % number for number in range(100)]
    assert lookup(store, place, [(100).to_bytes(8) + b"collided"]) == [None]


def test_no_keys_are_no_work() -> None:
    store, place = MemoryState(), place_with(1)
    append(store, place, [])
    assert lookup(store, place, []) == []
    assert store.values == {}


def test_runs_grow_geometrically_and_each_key_is_rewritten_few_times() -> None:
    store, place, batch, batches = MemoryState(), place_with(2), 20, 400
    for number in range(batches):
        append(store, place, random_pairs(batch, number))
    run_bytes = sum(len(value) for value in store.of(place.runs).values())
    assert run_bytes == batch * batches * (KEY_SIZE + 2)
    assert len(store.of(place.runs)) <= BLOCKS * (2 + math.log(batch * batches, 4))
    directory_bytes = len(store.values[place.directory, b""]) * batches
    assert store.saved_bytes - directory_bytes < 12 * run_bytes


def test_repeated_keys_are_dropped_when_runs_merge() -> None:
    store, place = MemoryState(), place_with(2)
    pairs = random_pairs(50, 1)
    pairs += [(key[:8] + b"collided", value) for key, value in pairs]
    for _ in range(5):
        append(store, place, [*pairs, *pairs[::-1]])
    assert len(opened(store, place)) == 100


def test_no_run_exceeds_its_limit_and_full_runs_stay_as_they_are() -> None:
    store, place = MemoryState(), place_with(50_000)
    pairs = random_pairs(150, 2, value_size=50_000)
    append(store, place, pairs[:100])
    full = {key: blob for key, blob in store.of(place.runs).items() if len(blob) > 0.9 * MAX_RUN_BYTES}
    for start in range(100, 150, 5):
        append(store, place, pairs[start : start + 5])
    assert full and full.items() <= store.of(place.runs).items()
    assert max(map(len, store.of(place.runs).values())) <= MAX_RUN_BYTES
    assert lookup(store, place, [key for key, _ in pairs]) == [value for _, value in pairs]


def test_only_the_blocks_of_the_keys_are_touched() -> None:
    store, place = MemoryState(), place_with(2)
    append(store, place, random_pairs(100, 3))
    before, store.loads, store.saves = dict(store.values), 0, 0
    key = bytes(15) + b"\xff"
    append(store, place, [(key, b"vv")])
    assert (store.loads, store.saves) == (1, 2)
    assert lookup(store, place, [key]) == [b"vv"]
    changed = {name[1] for name, value in store.values.items() if before.get(name) != value}
    assert changed == {b"", struct.pack(">II", BLOCKS - 1, 1)}


def test_the_order_of_keys_within_a_batch_leaves_no_trace() -> None:
    pairs = random_pairs(200, 4)
    pairs += [(key[:8] + bytes(8), value) for key, value in pairs]
    states = []
    for batch in (pairs, pairs[::-1]):
        store, place = MemoryState(), place_with(2)
        append(store, place, batch)
        states.append([sorted(store.of(place.runs).items()), list(store.of(place.directory).values())])
    assert states[0] == states[1]


def test_another_layout_or_format_is_refused() -> None:
    store, place = MemoryState(), place_with(2)
    append(store, place, random_pairs(10, 5))
    with pytest.raises(StateLayoutError, match="4 blocks"):
        opened(store, place, blocks=8)
    wider = RunsPlace("a map", place.directory, place.runs, 3)
    with pytest.raises(StateLayoutError):
        opened(store, wider)
    directory = store.values[place.directory, b""]
    store.values[place.directory, b""] = b"\x09" + directory[1:]
    with pytest.raises(StateLayoutError, match="format 9"):
        opened(store, place)
    store.values[place.directory, b""] = directory[:-1]
    with pytest.raises(StateMissingError):
        opened(store, place)


@pytest.mark.parametrize("damaged", [None, b"", b"short"])
def test_a_missing_or_cut_run_is_refused(damaged: bytes | None) -> None:
    store, place = MemoryState(), place_with(2)
    pairs = random_pairs(10, 6)
    append(store, place, pairs)
    for key in store.of(place.runs):
        store.save(place.runs, key, damaged)
    with pytest.raises(StateMissingError):
        lookup(store, place, [pairs[0][0]])
