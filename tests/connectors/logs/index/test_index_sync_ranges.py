"""The sync range of the index: in memory what the file holds, through commits, corrections and reloads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.logs.index import IndexDamaged, IndexWriter, LmdbLogStore, layout, sync_ranges
from culm_connectors.logs.ranges import LayerLimits, RangeIndex
from culm_models.lifts import ADD128, LIFTS, Item, Lift, pack
from culm_models.p2panda.operations.operation import peek
from culm_topics.records import log_key
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

ALICE = author("alice")
BOB = author("bob")
BOTH = [SCHEMA, OTHER_SCHEMA]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path / "index")
    yield opened
    opened.close()


def shown(store: LmdbLogStore, schema_ids: list[str]) -> list[Item]:
    """What the sync range shows, checked to show what it sums."""
    snapshot = store.sync_range(schema_ids, ADD128)
    items = snapshot.items(0, len(snapshot))
    assert snapshot.fingerprints([(0, len(snapshot))]) == [ADD128.fingerprint(items)]
    return items


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: lift.name)
def test_the_sync_range_is_the_heights_of_the_schemas_with_fingerprints(
    store: LmdbLogStore, lift: Lift
) -> None:
    for key_pair in (ALICE, BOB):
        for log_id in (300, 0, 7):
            store.append(make_log(key_pair, log_id, 2, schema_id=SCHEMA if log_id % 2 else OTHER_SCHEMA))
    salt = bytes(range(lift.salt_bytes))
    for schema_ids in ([], [SCHEMA], [OTHER_SCHEMA], BOTH, ["blob_v1"]):
        snapshot = store.sync_range(schema_ids, lift, salt)
        heights = list(store.log_heights(schema_ids))
        assert snapshot.items(0, len(snapshot)) == heights
        assert snapshot.fingerprints([(0, len(heights))]) == [lift.fingerprint(heights, salt)]


def test_the_sync_range_follows_every_commit(store: LmdbLogStore) -> None:
    assert shown(store, BOTH) == []
    log = make_log(ALICE, 0, 9)
    store.append(log[:4])
    assert shown(store, BOTH) == [(ALICE.public_key, 0, 4)]
    before = store.sync_range(BOTH, ADD128)
    store.append([*log[4:], *make_log(BOB, 1, 2, schema_id=OTHER_SCHEMA)])
    assert shown(store, BOTH) == list(store.log_heights(BOTH))
    assert shown(store, [OTHER_SCHEMA]) == [(BOB.public_key, 1, 2)]
    assert before.items(0, 1) == [(ALICE.public_key, 0, 4)], "a session keeps what it began with"


def test_a_log_that_the_truth_cuts_back_is_shown_no_higher(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 0, 8)
    truth = make_log(ALICE, 0, 2, text="other", after=log[:3])
    store.append(log)
    assert shown(store, [SCHEMA]) == [(ALICE.public_key, 0, 8)]
    store.adopt(store.commit([truth[-2]], {}, truth=True))
    assert shown(store, [SCHEMA]) == list(store.log_heights([SCHEMA])) == [(ALICE.public_key, 0, 4)]


def test_a_log_that_begins_anew_under_another_schema_is_shown_there_alone(store: LmdbLogStore) -> None:
    store.append(make_log(ALICE, 0, 3))
    store.append(make_log(BOB, 0, 3))
    assert len(shown(store, [SCHEMA])) == 2
    assert shown(store, [OTHER_SCHEMA]) == []
    store.adopt(store.commit(make_log(ALICE, 0, 2, schema_id=OTHER_SCHEMA), {}, truth=True))
    for schema_id in BOTH:
        assert shown(store, [schema_id]) == list(store.log_heights([schema_id]))
    assert shown(store, [OTHER_SCHEMA]) == [(ALICE.public_key, 0, 2)]


def test_a_forgotten_log_is_not_shown(store: LmdbLogStore) -> None:
    store.append(make_log(ALICE, 0, 3))
    store.append(make_log(BOB, 0, 3))
    assert len(shown(store, [SCHEMA])) == 2
    store.adopt(store.forget([log_key(ALICE.public_key, 0)]))
    assert shown(store, [SCHEMA]) == [(BOB.public_key, 0, 3)]


def test_a_reopened_index_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that reading goes on from one chunk to the next, and ends at the next schema's first record.
    monkeypatch.setattr(sync_ranges, "_CHUNK_LOGS", 3)
    store = LmdbLogStore(peek, tmp_path / "index")
    for log_id in range(7):
        store.append(make_log(ALICE, log_id, 1))
        store.append(make_log(BOB, log_id, 2, schema_id=OTHER_SCHEMA))
    store.close()
    store = LmdbLogStore(peek, tmp_path / "index")
    for schema_ids in ([SCHEMA], [OTHER_SCHEMA], BOTH):
        assert shown(store, schema_ids) == list(store.log_heights(schema_ids))
    store.close()


def test_a_commit_that_comes_while_the_file_is_read_is_not_lost(
    store: LmdbLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(ALICE, 0, 4)
    store.append(log[:2])
    reading, go_on = threading.Event(), threading.Event()
    read = sync_ranges.read_heights

    def read_slowly(*arguments: object) -> object:
        pairs_read = read(*arguments)  # type: ignore[arg-type]
        reading.set()
        assert go_on.wait(60)
        return pairs_read

    monkeypatch.setattr("culm_connectors.logs.index.store.read_heights", read_slowly)
    loading = threading.Thread(target=store.ranges.load, args=([SCHEMA],))
    loading.start()
    assert reading.wait(60)
    store.append(log[2:])
    store.append(make_log(BOB, 5, 1))
    go_on.set()
    loading.join()
    assert shown(store, [SCHEMA]) == list(store.log_heights([SCHEMA]))


def test_raised_heights_are_shown_until_the_file_is_read_again(store: LmdbLogStore) -> None:
    store.append(make_log(ALICE, 0, 3))
    raised = [(ALICE.public_key, 0, 2), (ALICE.public_key, 9, 4), (BOB.public_key, 0, 7)]
    store.ranges.raise_heights(SCHEMA, b"".join(map(pack, raised)))
    assert shown(store, [SCHEMA]) == sorted([(ALICE.public_key, 0, 3), *raised[1:]])
    store.append(make_log(BOB, 0, 2))
    assert (BOB.public_key, 0, 7) in shown(store, [SCHEMA]), "what is read on the way does not lower it"
    store.ranges.reload([SCHEMA, OTHER_SCHEMA])
    assert shown(store, [SCHEMA]) == list(store.log_heights([SCHEMA]))


def test_blocks_of_a_schema_are_counted_and_summed(store: LmdbLogStore) -> None:
    store.append(make_log(ALICE, 0, 3))
    store.append(make_log(BOB, 0, 5))
    store.append(make_log(BOB, 1, 5, schema_id=OTHER_SCHEMA))
    counts = store.ranges.blocks(SCHEMA, 8)
    first, second = ALICE.public_key[0], BOB.public_key[0]
    assert first != second
    assert (counts.log_counts[first], counts.entry_counts[first]) == (1, 3)
    assert (counts.log_counts[second], counts.entry_counts[second]) == (1, 5)
    assert tuple(counts.lanes[second].tolist()) == ADD128.lanes((BOB.public_key, 0, 5))
    assert counts.log_counts.sum() == 2


def test_a_record_of_a_strange_length_is_damage(store: LmdbLogStore) -> None:
    store.append(make_log(ALICE, 0, 3))
    key = layout.U32.pack(0) + log_key(ALICE.public_key, 0)
    databases = store._databases
    store._environment.write(lambda writing: writing.put(key, b"short", db=databases[b"sync_range"]))
    with pytest.raises(IndexDamaged):
        store.sync_range([SCHEMA], ADD128)


async def test_the_writer_has_a_grown_range_merged_in_a_thread(
    store: LmdbLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = LayerLimits(pending=1, overlay=2, overlay_share=1, small=0, in_line=1_000)
    monkeypatch.setattr(sync_ranges, "RangeIndex", lambda: RangeIndex(limits=limits))
    store.append(make_log(ALICE, 0, 1))
    writer = IndexWriter(store)
    assert len(store.sync_range([SCHEMA], ADD128).overlay) == 0
    for log_id in range(1, 6):
        await writer.write(make_log(ALICE, log_id, 1))
    # Whatever was handed to the threads is done when they have ended.
    await asyncio.to_thread(writer.close)
    merged = store.sync_range([SCHEMA], ADD128)
    assert len(merged.base) >= 4
    assert shown(store, [SCHEMA]) == list(store.log_heights([SCHEMA]))


def test_a_commit_costs_nothing_for_the_schemas_that_it_does_not_concern(
    store: LmdbLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0

    def merge_is_due(_index: RangeIndex) -> bool:
        nonlocal looked_at
        looked_at += 1
        return False

    monkeypatch.setattr(RangeIndex, "merge_is_due", property(merge_is_due))
    store.ranges.load([SCHEMA, *(f"empty{number}_v1" for number in range(100))])
    store.append(make_log(ALICE, 0, 1))
    store.ranges.merge_work()
    store.ranges.merge_work()
    assert looked_at == 1


def test_a_schema_that_is_let_go_is_read_again_when_it_is_asked_for(store: LmdbLogStore) -> None:
    store.append([*make_log(ALICE, 0, 2), *make_log(BOB, 1, 2, schema_id=OTHER_SCHEMA)])
    before = shown(store, BOTH)
    kept, let_go = map(store.ranges.index, BOTH)
    store.ranges.keep_only({SCHEMA})
    assert store.ranges.index(SCHEMA) is kept
    assert store.ranges.index(OTHER_SCHEMA) is not let_go
    assert shown(store, BOTH) == before
