"""Where a reader is in each log: what was handed out as runs, what waits, and what is missing by number."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.logs.consumer import LogCoverage, LogEntry, LogPosition
from culm_topics.logs.consumer.entry import Selection
from culm_topics.logs.consumer.heights import LogHeights
from culm_topics.logs.consumer.problems import Problems
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.sparse import SparseEntries, log_position
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

AUTHOR = bytes(32)


def new_sequencer(*, sparse: bool = True) -> Sequencer:
    return Sequencer(
        Selection.of(None, None, None, bare_logs=True),
        Problems(lambda _: None, strict=False),
        gap_wait_seconds=0,
        remember_changes=False,
        sparse=sparse,
    )


def push(
    sequencer: Sequencer, log_id: int, *numbers: int, flavour: HashFlavour = YASMF, partition: int = 0
) -> None:
    """Records of a log, and all that they let out."""
    for number in numbers:
        record = LogRecord(number, b"e", b"o", bytes(flavour.size), "").encode()
        key = log_key(AUTHOR, log_id, flavour)
        entry: LogEntry | None = sequencer.push(
            key, record, partition=partition, offset=number, timestamp_ms=0, learns=False, now_s=0
        )
        while entry is not None:
            entry = sequencer.pull()


def fragments(sequencer: Sequencer, log_id: int, *numbers: int, flavour: HashFlavour = YASMF) -> None:
    """Fragments of a log."""
    assert sequencer.sparse is not None
    for number in numbers:
        sequencer.sparse.add(log_key(AUTHOR, log_id, flavour), number, 0)


def positions(sequencer: Sequencer) -> dict[tuple[int, str], LogPosition]:
    """By log number and flavour."""
    listed = [sequencer.position(key) for key in sequencer.log_keys()]
    named = {(position.log[1], position.flavour.name): position for position in listed}
    assert len(named) == len(listed), "each log once"
    assert all(position.log[0] == AUTHOR for position in listed)
    return named


def test_a_log_without_gaps_is_one_run_and_lacks_nothing() -> None:
    sequencer = new_sequencer(sparse=False)
    push(sequencer, 0, 1, 2, 3)
    (position,) = positions(sequencer).values()
    assert position == LogPosition((AUTHOR, 0), YASMF, LogCoverage(3))
    assert position.handed_out == ((1, 4),) and position.is_whole


def test_fragments_are_runs_and_what_lies_between_is_missing() -> None:
    sequencer = new_sequencer()
    push(sequencer, 0, 1, 2)
    fragments(sequencer, 0, 5, 6, 9)
    position = positions(sequencer)[0, "yasmf"]
    assert position.handed_out == ((1, 3), (5, 7), (9, 10))
    assert position.missing == ((3, 5), (7, 9))
    assert not position.is_whole and not position.is_set_aside


def test_a_log_of_which_there_are_fragments_alone_lacks_its_beginning() -> None:
    sequencer = new_sequencer()
    fragments(sequencer, 0, 4)
    position = positions(sequencer)[0, "yasmf"]
    assert (position.handed_out, position.missing) == (((4, 5),), ((1, 4),))


def test_what_waits_is_not_handed_out_and_what_it_waits_for_is_missing() -> None:
    sequencer = new_sequencer(sparse=False)
    push(sequencer, 0, 1, 3, 4, 7)
    position = positions(sequencer)[0, "yasmf"]
    assert position.handed_out == ((1, 2),)
    assert position.waiting == ((3, 5), (7, 8))
    assert position.missing == ((2, 3), (5, 7))
    push(sequencer, 0, 2)
    assert positions(sequencer)[0, "yasmf"].handed_out == ((1, 5),)
    assert positions(sequencer)[0, "yasmf"].missing == ((5, 7),)


def test_what_waits_among_fragments_is_neither_missing_nor_handed_out() -> None:
    sequencer = new_sequencer()
    push(sequencer, 0, 1, 4)
    fragments(sequencer, 0, 6)
    position = positions(sequencer)[0, "yasmf"]
    assert position.handed_out == ((1, 2), (6, 7))
    assert position.waiting == ((4, 5),)
    assert position.missing == ((2, 4), (5, 6))


def test_a_log_set_aside_names_the_entry_with_which_it_goes_on() -> None:
    sequencer = new_sequencer(sparse=False)
    push(sequencer, 0, 3)
    sequencer.set_aside(sequencer.early.holes[0])
    position = positions(sequencer)[0, "yasmf"]
    assert position.is_set_aside and position.handed_out == ()
    assert position.missing == ((1, 2),)
    push(sequencer, 0, 1)
    assert not positions(sequencer)[0, "yasmf"].is_set_aside
    assert positions(sequencer)[0, "yasmf"].handed_out == ((1, 2),)


def test_logs_of_two_flavours_and_all_that_is_known_of_any_way_are_named_once() -> None:
    sequencer = new_sequencer()
    push(sequencer, 0, 1)
    push(sequencer, 0, 1, flavour=YAMF)
    fragments(sequencer, 0, 5)
    fragments(sequencer, 1, 5)
    push(sequencer, 2, 4)
    assert set(positions(sequencer)) == {(0, "yasmf"), (0, "yamf"), (1, "yasmf"), (2, "yasmf")}


def test_logs_of_a_partition_that_is_given_up_are_not_named() -> None:
    sequencer = new_sequencer()
    push(sequencer, 0, 1)
    push(sequencer, 1, 1, 3, partition=1)
    sequencer.forget(frozenset({1}))
    assert set(positions(sequencer)) == {(0, "yasmf")}


def test_fragments_for_which_there_is_no_memory_are_counted() -> None:
    sparse = SparseEntries(LogHeights(), max_runs=2)
    for number in (2, 4, 6, 8):
        sparse.add(log_key(AUTHOR, 0), number, 0)
    assert sparse.not_remembered == 2


def test_walking_over_positions_takes_eight_bytes_a_log() -> None:
    sequencer = new_sequencer()
    for log_id in range(20_000):
        sequencer.heights.raise_to(log_key(AUTHOR, log_id), 7, 0)
    tracemalloc.start()
    for key in sequencer.log_keys():
        assert sequencer.position(key).handed_out == ((1, 8),)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 30


numbers = st.sets(st.integers(1, 40))


@given(st.integers(0, 20), numbers, numbers, st.none() | st.integers(1, 40))
def test_what_is_handed_out_waits_or_is_missing_is_the_log_to_its_highest_known_entry(
    height: int, beyond: set[int], waits: set[int], lacking: int | None
) -> None:
    heights = LogHeights()
    sparse = SparseEntries(heights)
    if height:
        heights.raise_to(log_key(AUTHOR, 0), height, 0)
    for number in beyond:
        sparse.add(log_key(AUTHOR, 0), number, 0)
    handed_out = {*range(1, height + 1), *beyond}
    waiting = waits - handed_out
    coverage = sparse.coverage(log_key(AUTHOR, 0))
    position = log_position((AUTHOR, 0), YASMF, coverage, waiting, lacking)
    expected = {*range(1, max(handed_out | waiting, default=0) + 1)} - handed_out - waiting
    if lacking is not None:
        expected |= {lacking} - handed_out - waiting
    for runs, numbers in (
        (position.handed_out, handed_out),
        (position.waiting, waiting),
        (position.missing, expected),
    ):
        assert {number for start, end in runs for number in range(start, end)} == numbers
        assert all(start < end for start, end in runs)
