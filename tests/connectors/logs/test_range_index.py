"""The range index against a sorted list, whatever grows, is new, is cut back, is merged, or is asked."""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from culm_connectors.logs.ranges import LayerLimits, RangeIndex, RangeSnapshot, Snapshots, block_sums
from culm_connectors.logs.ranges.columns import join_keys
from culm_models.lifts import ADD64, ADD128, LIFTS, SIPHASH128, XOR64, Item, Lift, pack

# Layers so small that every test passes through all of them.
TINY = LayerLimits(pending=3, overlay=2, overlay_share=4, small=0, in_line=3)
ONE_LAYER = LayerLimits(pending=1, overlay=0, overlay_share=1, small=1_000, in_line=1)
NEVER_MERGED = LayerLimits(pending=1, overlay=1_000, overlay_share=1, small=0, in_line=1)

# Few authors and logs, so that they meet; keys with zeros at either end, which numpy likes to strip.
AUTHORS = [
    bytes(32),
    bytes(31) + b"\x01",
    b"\x01" + bytes(31),
    b"\x01\x00" * 16,
    b"\x01" * 31 + b"\x00",
    b"\x80" + bytes(31),
    b"\xff" * 32,
]
LOG_IDS = [0, 1, 255, 256, 2**32, 2**63, 2**64 - 1]
logs = st.tuples(st.sampled_from(AUTHORS), st.sampled_from(LOG_IDS))
few_logs = st.tuples(st.sampled_from(AUTHORS[:4]), st.sampled_from(LOG_IDS[1:4]))
heights = st.one_of(st.integers(1, 5), st.integers(1, 2**64 - 1))
bounds = st.tuples(st.sampled_from(AUTHORS), st.sampled_from([*LOG_IDS, 2, 300]), st.integers(0, 7))
Log = tuple[bytes, int]


def key_of(log: Log) -> bytes:
    return struct.pack(">32sQ", *log)


def salt_of(lift: Lift) -> bytes:
    return bytes(range(lift.salt_bytes))


def columns_of(items: Iterable[Item]) -> tuple[np.ndarray, np.ndarray]:
    items = list(items)
    keys = join_keys(b"".join(author for author, _, _ in items), [log_id for _, log_id, _ in items])
    return keys, np.array([height for _, _, height in items], np.uint64)


def as_items(log_heights: dict[Log, int]) -> list[Item]:
    return sorted((*log, height) for log, height in log_heights.items())


def span_of(items: Sequence[Item], start: int, size: int) -> list[Item]:
    return [items[(start + step) % len(items)] for step in range(size)]


def check(
    snapshot: RangeSnapshot, items: Sequence[Item], lift: Lift, asked: Sequence[Item], cuts: Sequence[int]
) -> None:
    """Everything that a snapshot answers, against a sorted list."""
    assert len(snapshot) == len(items)
    assert snapshot.ranks(asked) == [bisect_left(items, bound) for bound in asked]
    assert snapshot.items(0, len(items)) == items
    spans = [(start, size) for start in {0, len(items), *cuts} for size in {0, len(items), *cuts}]
    assert snapshot.fingerprints(spans) == [
        lift.fingerprint(span_of(items, *span), salt_of(lift)) for span in spans
    ]
    for span in spans:
        assert snapshot.items(*span) == span_of(items, *span)
        assert snapshot.packed(*span) == b"".join(map(pack, span_of(items, *span)))
    if items:
        at = [cut % len(items) for cut in cuts]
        assert snapshot.bounds(at) == [(*items[rank][:2], 0) for rank in at]
        assert snapshot.ranks(snapshot.bounds(at)) == at


@st.composite
def cuts_of(draw: st.DrawFn, size: int) -> list[int]:
    return draw(st.lists(st.integers(0, size), max_size=4))


class AnIndexAgainstASortedList(RuleBasedStateMachine):
    """What happens in the life of an index, in any order."""

    @initialize(
        limits=st.sampled_from([TINY, ONE_LAYER, NEVER_MERGED]), lift=st.sampled_from([ADD128, XOR64])
    )
    def begin(self, limits: LayerLimits, lift: Lift) -> None:
        self.index = RangeIndex(lift, limits)
        self.snapshots = Snapshots(lift)
        self.held: dict[Log, int] = {}
        self.kept: list[tuple[RangeSnapshot, list[Item], Lift]] = []
        self.work: Callable[[], None] | None = None

    @rule(log=few_logs, height=heights)
    def a_log_grows_or_is_new(self, log: Log, height: int) -> None:
        self.index.raise_height(key_of(log), height)
        self.held[log] = max(self.held.get(log, 0), height)

    @rule(log=few_logs, height=st.one_of(st.just(0), heights))
    def a_log_is_set_or_removed(self, log: Log, height: int) -> None:
        self.index.set_height(key_of(log), height)
        self.held[log] = height
        if height == 0:
            del self.held[log]

    @rule(
        many=st.lists(st.tuples(few_logs, st.one_of(st.just(0), heights)), max_size=12), exact=st.booleans()
    )
    def many_come_at_once(self, many: list[tuple[Log, int]], exact: bool) -> None:
        keys, values = columns_of([(*log, height) for log, height in many])
        self.index.load(keys, values, exact=exact)
        for log in {log for log, _ in many}:
            greatest = max(height for other, height in many if other == log)
            self.held[log] = greatest if exact else max(self.held.get(log, 0), greatest)
            if self.held[log] == 0:
                del self.held[log]

    @precondition(lambda self: self.work is None)
    @rule()
    def merging_begins(self) -> None:
        self.work = self.index.merge_work()

    @precondition(lambda self: self.work is not None)
    @rule()
    def merging_ends(self) -> None:
        work, self.work = self.work, None
        assert work is not None
        work()

    @rule(lift=st.sampled_from(LIFTS))
    def a_session_takes_a_snapshot(self, lift: Lift) -> None:
        snapshot = self.snapshots.of([self.index], lift, salt_of(lift))
        self.kept = [*self.kept[-2:], (snapshot, as_items(self.held), lift)]

    @rule(asked=st.lists(bounds, max_size=6), data=st.data())
    def a_snapshot_answers_as_it_did_when_it_was_taken(self, asked: list[Item], data: st.DataObject) -> None:
        for snapshot, items, lift in self.kept:
            check(snapshot, items, lift, asked, data.draw(cuts_of(len(items))))

    @rule()
    def the_index_counts_what_is_held(self) -> None:
        # No invariant: to look at it puts what waits into the overlay.
        assert len(self.index) == len(self.held)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            for snapshot, items, lift in self.kept:
                check(snapshot, items, lift, [], [])
            last = self.snapshots.of([self.index], ADD128)
            check(last, as_items(self.held), ADD128, [], [])


AnIndexAgainstASortedList.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestAnIndexAgainstASortedList = AnIndexAgainstASortedList.TestCase


@given(
    st.lists(st.dictionaries(logs, heights, max_size=12), min_size=1, max_size=3),
    st.lists(st.tuples(logs, heights), max_size=8),
    st.lists(bounds, max_size=6),
    st.sampled_from(LIFTS),
    st.data(),
)
def test_several_schemas_are_one_sorted_set(
    schemas: list[dict[Log, int]],
    later: list[tuple[Log, int]],
    asked: list[Item],
    lift: Lift,
    data: st.DataObject,
) -> None:
    # A log belongs to one schema: the first that has it.
    owner: dict[Log, int] = {}
    for number, items in enumerate(schemas):
        for log in items:
            owner.setdefault(log, number)
    indexes = [RangeIndex(limits=NEVER_MERGED) for _ in schemas]
    expected = {log: schemas[number][log] for log, number in owner.items()}
    for number, index in enumerate(indexes):
        index.load(*columns_of((*log, expected[log]) for log in expected if owner[log] == number))
    snapshots = Snapshots()
    first, held_first = snapshots.of(indexes, lift, salt_of(lift)), as_items(expected)
    for log, height in later:
        number = owner.setdefault(log, data.draw(st.integers(0, len(schemas) - 1)))
        indexes[number].raise_height(key_of(log), height)
        expected[log] = max(expected.get(log, 0), height)
    second = snapshots.of(indexes, lift, salt_of(lift))
    check(second, as_items(expected), lift, asked, data.draw(cuts_of(len(expected))))
    check(first, held_first, lift, asked, data.draw(cuts_of(len(held_first))))


def test_a_set_of_schemas_is_merged_once_while_nothing_changes() -> None:
    indexes = [RangeIndex(), RangeIndex()]
    indexes[0].raise_height(key_of((AUTHORS[1], 1)), 3)
    indexes[1].raise_height(key_of((AUTHORS[2], 1)), 3)
    snapshots = Snapshots()
    first = snapshots.of(indexes, ADD128)
    assert snapshots.of(indexes, ADD128).base is first.base
    indexes[1].raise_height(key_of((AUTHORS[2], 1)), 4)
    second = snapshots.of(indexes, ADD128)
    assert second.base is first.base, "a grown log lies over the merged order, which stays"
    assert second.items(1, 1) == [(AUTHORS[2], 1, 4)]


def test_a_base_under_another_lift_is_kept_and_a_salted_one_is_not() -> None:
    index = RangeIndex()
    index.raise_height(key_of((AUTHORS[1], 1)), 3)
    snapshots = Snapshots()
    assert snapshots.of([index], ADD64).base is snapshots.of([index], ADD64).base
    salted = snapshots.of([index], SIPHASH128, bytes(16))
    assert snapshots.of([index], SIPHASH128, bytes(16)).base is not salted.base


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: lift.name)
def test_no_schemas_and_empty_schemas_are_the_empty_set(lift: Lift) -> None:
    for indexes in ([], [RangeIndex()], [RangeIndex(), RangeIndex()]):
        snapshot = Snapshots().of(indexes, lift, salt_of(lift))
        check(snapshot, [], lift, [(AUTHORS[1], 1, 1)], [])
        assert (snapshot.fingerprints([]), snapshot.ranks([]), snapshot.bounds([])) == ([], [], [])


@pytest.mark.parametrize("limits", [LayerLimits(), ONE_LAYER, NEVER_MERGED])
def test_a_log_that_was_cut_back_grows_from_there(limits: LayerLimits) -> None:
    index = RangeIndex(limits=limits)
    index.load(*columns_of([(AUTHORS[1], 0, 9)]))
    index.set_height(key_of((AUTHORS[1], 0)), 5)
    index.raise_height(key_of((AUTHORS[1], 0)), 7)
    index.raise_height(key_of((AUTHORS[1], 0)), 6)
    assert Snapshots().of([index], ADD128).items(0, 1) == [(AUTHORS[1], 0, 7)]


def test_what_changes_while_a_merge_runs_is_there_afterwards() -> None:
    index = RangeIndex(limits=TINY)
    index.load(*columns_of((AUTHORS[1], log_id, 5) for log_id in range(20)))
    for log_id in range(6):
        index.raise_height(key_of((AUTHORS[1], log_id)), 6)
    work = index.merge_work()
    assert work is not None
    changes = [(AUTHORS[1], 0, 7), (AUTHORS[1], 10, 7), (AUTHORS[2], 0, 1)]
    for author, log_id, height in changes:
        index.raise_height(key_of((author, log_id)), height)
    before = Snapshots().of([index], ADD128)
    work()
    after = Snapshots().of([index], ADD128)
    assert len(after.base) == 20, "the merge was taken"
    assert len(after.overlay) == len(changes), "what came meanwhile lies over it"
    assert after.items(0, 21) == before.items(0, 21)
    assert after.fingerprints([(0, 21)]) == before.fingerprints([(0, 21)])


def test_threads_that_update_merge_and_look_lose_nothing() -> None:
    index, snapshots = RangeIndex(limits=TINY), Snapshots()
    made = [(AUTHORS[number % 5], number // 5, 1 + number % 7) for number in range(600)]
    ended = threading.Event()

    def update(part: Sequence[Item]) -> None:
        for author, log_id, height in part:
            index.raise_height(key_of((author, log_id)), height)

    def merge() -> None:
        while not ended.is_set():
            if work := index.merge_work():
                work()
            seen = snapshots.of([index], ADD128)
            items = seen.items(0, len(seen))
            assert seen.fingerprints([(0, len(seen))]) == [ADD128.fingerprint(items)]

    with ThreadPoolExecutor(4) as threads:
        merging = threads.submit(merge)
        updating = [threads.submit(update, made[start::2]) for start in (0, 1)]
        updating.append(threads.submit(index.load, *columns_of(made[:300])))
        try:
            for future in updating:
                future.result()
        finally:
            ended.set()
        merging.result()
    final = snapshots.of([index], ADD128)
    assert final.items(0, len(final)) == sorted(made)


def test_work_of_a_merge_that_was_overtaken_changes_nothing() -> None:
    index = RangeIndex(limits=TINY)
    for log_id in range(40):
        index.raise_height(key_of((AUTHORS[1], log_id)), 1)
        if index.merge_is_due:
            break
    work = index.merge_work()
    assert work is not None
    assert index.merge_work() is None, "one merge at a time"
    index.set_height(key_of((AUTHORS[1], 0)), 0)
    assert len(index) == log_id
    work()
    assert len(index) == log_id
    assert Snapshots().of([index], ADD128).items(0, 1) == [(AUTHORS[1], 1, 1)]


@given(st.dictionaries(logs, st.integers(1, 100), max_size=20), st.sampled_from([0, 1, 4, 8, 16]))
def test_block_sums_are_the_sums_of_the_logs_of_each_block(
    log_heights: dict[Log, int], block_bits: int
) -> None:
    index = RangeIndex(limits=NEVER_MERGED)
    for log, height in log_heights.items():
        index.raise_height(key_of(log), 1)
        index.raise_height(key_of(log), height)
    sums = block_sums(Snapshots().of([index], ADD128), block_bits)
    assert len(sums) == 1 << block_bits
    blocks: dict[int, list[Item]] = {}
    for log, height in log_heights.items():
        blocks.setdefault(int.from_bytes(log[0][:2], "big") >> (16 - block_bits), []).append((*log, height))
    for block, members in blocks.items():
        assert sums.log_counts[block] == len(members)
        assert sums.entry_counts[block] == sum(height for _, _, height in members)
        assert tuple(sums.lanes[block].tolist()) == ADD128.total(map(ADD128.lanes, members))
    is_empty = np.ones(len(sums), bool)
    is_empty[list(blocks)] = False
    assert not any(column[is_empty].any() for column in (sums.log_counts, sums.entry_counts, sums.lanes))
