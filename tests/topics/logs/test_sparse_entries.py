"""Logs with gaps and bare logs without Kafka: what is new, missing or proved, and who gets what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.keys import KeyPair
from culm_topics.errors import RecordError
from culm_topics.logs.consumer import LogCoverage, LogEntry
from culm_topics.logs.consumer.entry import Selection
from culm_topics.logs.consumer.heights import LogHeights
from culm_topics.logs.consumer.problems import Problems
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.sparse import SparseEntries
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

KEY, OTHER = bytes(40), bytes(39) + b"\x01"
AUTHOR = KeyPair.generate(bytes(32))


def new_sequencer(selection: Selection, *, sparse: bool = False) -> Sequencer:
    return Sequencer(
        selection, Problems(None, strict=True), gap_wait_seconds=0, remember_changes=False, sparse=sparse
    )


def push(sequencer: Sequencer, key: bytes, record: LogRecord) -> LogEntry | None:
    return sequencer.push(key, record.encode(), partition=0, offset=0, timestamp_ms=0, learns=False, now_s=0)


@given(st.lists(st.integers(1, 60)), st.integers(0, 40))
def test_what_was_seen_and_what_is_missing_make_up_the_log(numbers: list[int], height: int) -> None:
    heights = LogHeights()
    sparse = SparseEntries(heights)
    seen: set[int] = set()
    for number in numbers:
        assert sparse.add(KEY, number, 0) == (number not in seen)
        seen.add(number)
    heights.raise_to(KEY, height, 0) if height else None
    standing = sparse.coverage(KEY)
    seen |= set(range(1, height + 1))
    assert standing.highest == max(seen, default=0)
    assert all(start < end for start, end in standing.missing)
    missing = {number for start, end in standing.missing for number in range(start, end)}
    assert missing == set(range(1, standing.highest + 1)) - seen
    assert {number for number in range(70) if standing.has(number)} == seen


@given(st.integers(1, 3_000), st.booleans())
def test_an_entry_is_proved_by_its_certificate_pool_and_by_nothing_less(seq_num: int, later: bool) -> None:
    sparse = SparseEntries(LogHeights())
    pool = {*lower_pool(seq_num), *(upper_pool(seq_num) if later else ())}
    for number in pool:
        sparse.add(KEY, number, 0)
    assert sparse.coverage(KEY).is_provable(seq_num)
    for absent in pool - {max(pool)}:
        lacking = SparseEntries(LogHeights())
        for number in pool - {absent}:
            lacking.add(KEY, number, 0)
        standing = lacking.coverage(KEY)
        assert standing.missing_of_pool(seq_num) == (absent,)
        assert not standing.is_provable(seq_num)


def test_nothing_is_proved_of_a_log_that_nobody_saw() -> None:
    assert not LogCoverage(0).is_provable(1)
    assert not LogCoverage(3).is_provable(0)
    assert LogCoverage(3).is_provable(3) and LogCoverage(3).missing == ()


def test_what_the_log_has_reached_is_no_fragment_any_more() -> None:
    sequencer = new_sequencer(Selection(), sparse=True)
    assert sequencer.sparse is not None
    assert sequencer.sparse.add(log_key(bytes(32), 0), 2, 0)
    assert len(sequencer.sparse) == 1
    for number in (1, 2):
        assert (
            push(sequencer, log_key(bytes(32), 0), LogRecord(number, b"e", b"o", bytes(34), "s")) is not None
        )
    assert len(sequencer.sparse) == 0
    assert not sequencer.sparse.add(log_key(bytes(32), 0), 2, 0)
    assert sequencer.coverage(log_key(bytes(32), 0)) == LogCoverage(2)


def test_memory_has_an_end_and_entries_are_handed_out_beyond_it() -> None:
    sparse = SparseEntries(LogHeights(), max_runs=2)
    assert all(sparse.add(KEY, number, 0) for number in (2, 4, 6, 6))
    assert len(sparse) == 2
    assert sparse.coverage(KEY).sparse == ((2, 3), (4, 5))


def test_the_fragments_of_a_partition_that_is_given_up_are_forgotten() -> None:
    sparse = SparseEntries(LogHeights())
    sparse.add(KEY, 3, 0)
    sparse.add(OTHER, 3, 1)
    sparse.drop([0])
    assert (len(sparse), sparse.coverage(KEY)) == (1, LogCoverage(0))
    assert sparse.coverage(OTHER).sparse == ((3, 4),)


RECORDS = {
    "operation": (log_key(bytes(32), 0), LogRecord(1, b"e", b"o", bytes(34), "s")),
    "bare": (log_key(bytes(32), 1), LogRecord(1, b"e", b"o", bytes(34), "")),
    "yamf": (log_key(bytes(32), 0, YAMF), LogRecord(1, b"e", b"o", bytes(66), "")),
}


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection.of(), {"operation"}),
        (Selection.of(["s"]), {"operation"}),
        (Selection.of(bare_logs=True), {"operation", "bare", "yamf"}),
        (Selection.of([], bare_logs=True), {"bare", "yamf"}),
        (Selection.of(["t"]), set()),
        (Selection.of(logs=[(bytes(32), 0)]), {"operation"}),
        (Selection.of(logs=[(bytes(32), 0)], bare_logs=True), {"operation", "yamf"}),
        (Selection.of(public_keys=[bytes(32)], bare_logs=True), {"operation", "bare", "yamf"}),
    ],
)
def test_bare_logs_come_to_who_asks_for_them(selection: Selection, wanted: set[str]) -> None:
    sequencer = new_sequencer(selection)
    assert {name for name, record in RECORDS.items() if push(sequencer, *record) is not None} == wanted


def test_the_kept_heights_of_who_asks_for_no_bare_logs_stay_of_use() -> None:
    assert Selection.of().fingerprint() == Selection().fingerprint()
    assert Selection.of(bare_logs=True).fingerprint() != Selection.of().fingerprint()


def test_a_record_whose_hash_is_of_the_other_flavour_is_none() -> None:
    sequencer = new_sequencer(Selection.of(bare_logs=True))
    with pytest.raises(RecordError, match="66 bytes in a yasmf log"):
        push(sequencer, log_key(bytes(32), 0), RECORDS["yamf"][1])
    with pytest.raises(RecordError):
        push(sequencer, bytes(40) + b"\x02", RECORDS["yamf"][1])


def test_logs_of_two_flavours_are_two_logs_though_author_and_number_are_one() -> None:
    sequencer = new_sequencer(Selection.of(bare_logs=True))
    for name in ("operation", "yamf"):
        entry = push(sequencer, *RECORDS[name])
        assert entry is not None
        assert (entry.key, entry.flavour) == (RECORDS[name][0], YAMF if name == "yamf" else YASMF)


@pytest.mark.parametrize(
    ("payload", "inline", "expected"), [(b"p", b"p", b"p"), (b"p", b"", None), (b"", b"", b"")]
)
def test_an_entry_says_whether_its_payload_is_there(
    payload: bytes, inline: bytes, expected: bytes | None
) -> None:
    entry_bytes = sign_entry(AUTHOR, 0, 1, payload, flavour=YAMF)
    record = LogRecord(1, entry_bytes, inline, YAMF.hash(entry_bytes), "")
    entry = push(new_sequencer(Selection.of(bare_logs=True)), log_key(AUTHOR.public_key, 0, YAMF), record)
    assert entry is not None
    assert entry.is_bare and entry.payload == expected
    assert entry.entry().payload_hash == YAMF.hash(payload)


def test_the_payload_of_an_operation_is_the_operation() -> None:
    entry = push(new_sequencer(Selection()), *RECORDS["operation"])
    assert entry is not None
    assert not entry.is_bare and entry.payload == b"o"
