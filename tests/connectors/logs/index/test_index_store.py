"""The index: what it holds, in which order it gives it, and what one transaction covers."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.logs.index import IndexBusy, IndexConflict, IndexGap, IndexWriter, LmdbLogStore
from culm_models.p2panda.operations.operation import peek
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs

ALICE = author("alice")
BOB = author("bob")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path / "index")
    yield opened
    opened.close()


def reopened(store: LmdbLogStore) -> LmdbLogStore:
    store.close()
    return LmdbLogStore(peek, store.folder)


def test_an_empty_index_holds_nothing(store: LmdbLogStore) -> None:
    assert store.height(ALICE.public_key, 0) == 0
    assert store.entry_hash(ALICE.public_key, 0, 1) is None
    assert store.log_info(ALICE.public_key, 0) is None
    assert list(store.log_heights([SCHEMA])) == []
    assert list(store.entries(ALICE.public_key, 0, 1, 5)) == []
    assert store.offsets() == {}
    assert store.next_log_id(ALICE.public_key) == 0


def test_a_log_is_given_back_byte_for_byte(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 3, 20)
    store.append(log)
    assert store.height(ALICE.public_key, 3) == 20
    assert list(store.entries(ALICE.public_key, 3, 1, 20)) == pairs(log)
    assert list(store.entries(ALICE.public_key, 3, 7, 9)) == pairs(log)[6:9]
    assert [store.entry_hash(ALICE.public_key, 3, n) for n in range(1, 21)] == [e.hash for e in log]
    assert store.entry_hash(ALICE.public_key, 3, 21) is None


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    store = LmdbLogStore(peek, tmp_path / "index")
    log = make_log(ALICE, 0, 5)
    store.append(log)
    store.adopt(store.commit([], {("culm.logs", 2): 77}))
    store = reopened(store)
    assert list(store.entries(ALICE.public_key, 0, 1, 5)) == pairs(log)
    assert store.offsets() == {("culm.logs", 2): 77}
    info = store.log_info(ALICE.public_key, 0)
    assert info is not None
    assert (info.schema_id, info.document_id) == (SCHEMA, log[0].hash)
    assert store.document_of(log[4].hash) == log[0].hash
    assert store.log_of(ALICE.public_key, log[0].hash) == 0
    store.close()


def test_heights_come_in_the_order_of_the_sync_range_across_schemas(store: LmdbLogStore) -> None:
    expected = []
    for key_pair in (ALICE, BOB):
        for log_id in (300, 0, 7, 2**64 - 2):
            schema_id = SCHEMA if log_id % 2 else OTHER_SCHEMA
            store.append(make_log(key_pair, log_id, 2, schema_id=schema_id))
            expected.append((key_pair.public_key, log_id, 2))
    assert list(store.log_heights([SCHEMA, OTHER_SCHEMA])) == sorted(expected)
    assert [log for _, log, _ in store.log_heights([SCHEMA])] == [7, 7]
    assert list(store.log_heights(["blob_v1"])) == []


def test_entries_and_the_offsets_that_cover_them_are_one_transaction(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 0, 3)
    broken = [*log[:2], None]
    with pytest.raises(AttributeError):
        store.commit(broken, {("culm.logs", 0): 3})  # type: ignore[arg-type]
    assert store.offsets() == {}
    assert store.height(ALICE.public_key, 0) == 0
    store.adopt(store.commit(log, {("culm.logs", 0): 3}))
    assert store.offsets() == {("culm.logs", 0): 3}
    assert store.height(ALICE.public_key, 0) == 3


def test_repeats_are_skipped_and_gaps_and_conflicts_are_left_out(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 0, 6)
    fork = make_log(ALICE, 0, 1, text="other", after=log[:3])
    done = store.commit([*log[:4], *log[:2], log[5], fork[0]], {})
    assert done.stored == tuple(log[:4])
    assert done.gaps == (log[5],)
    assert done.conflicts == (fork[0],)
    store.adopt(done)
    with pytest.raises(IndexGap):
        store.append([log[5]])
    with pytest.raises(IndexConflict):
        store.append(fork)
    assert list(store.entries(ALICE.public_key, 0, 1, 9)) == pairs(log[:4])


def test_the_truth_cuts_a_log_back_to_where_they_agree(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 0, 8)
    fork = make_log(ALICE, 0, 3, text="other", after=log[:4])
    store.append(log)
    done = store.commit(fork, {("culm.logs", 0): 9}, truth=True)
    store.adopt(done)
    assert done.truncated == ((log[0].log, 5),)
    assert done.stored == tuple(fork)
    assert list(store.entries(ALICE.public_key, 0, 1, 9)) == pairs(log[:4] + fork)
    assert store.document_of(log[6].hash) is None
    assert store.document_of(fork[2].hash) == log[0].hash
    assert list(store.log_heights([SCHEMA])) == [(ALICE.public_key, 0, 7)]


def test_the_truth_can_replace_a_whole_log(store: LmdbLogStore) -> None:
    stored, true = make_log(ALICE, 0, 3), make_log(ALICE, 0, 1, text="other", schema_id=OTHER_SCHEMA)
    store.append(stored)
    store.adopt(store.commit(true, {}, truth=True))
    assert list(store.log_heights([SCHEMA])) == []
    assert list(store.log_heights([OTHER_SCHEMA])) == [(ALICE.public_key, 0, 1)]
    assert store.log_of(ALICE.public_key, stored[0].hash) is None
    assert store.log_of(ALICE.public_key, true[0].hash) == 0
    assert store.counts() == (1, 1)


def test_a_second_author_of_a_document_is_found_by_it(store: LmdbLogStore) -> None:
    from culm_connectors.p2panda.reference_peer.authoring import Author, Draft, document_tips
    from culm_models.p2panda.ingest import Ingest

    log = make_log(ALICE, 0, 2)
    store.append(log)
    assert document_tips(store, log[0].hash) == (log[1].hash,)
    update = Draft("update", SCHEMA, {"name": "b"}, document_id=log[0].hash, previous=(log[1].hash,))
    (signed,) = Author(BOB, store, Ingest(store)).sign([update])
    store.append([signed])
    assert store.log_of(BOB.public_key, log[0].hash) == 0
    assert store.document_of(signed.hash) == log[0].hash
    assert document_tips(store, log[0].hash) == (signed.hash,)


def test_the_map_grows_when_it_is_full(tmp_path: Path) -> None:
    store = LmdbLogStore(peek, tmp_path / "index", map_size_bytes=256 * 1024)
    log = make_log(ALICE, 0, 40)
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(store.read_chunk(ALICE.public_key, 0, 1, 40)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        store.append(log)
        for number in range(1, 60):
            store.append(make_log(ALICE, number, 40 if number == 1 else 2, text="x" * 2_000))
    finally:
        stop.set()
        reader.join()
    assert store.size_bytes() > 256 * 1024
    assert list(store.entries(ALICE.public_key, 0, 1, 40)) == pairs(log)
    assert set(seen) <= {0, 40}
    store.close()


def test_two_writers_of_one_folder_are_refused(store: LmdbLogStore) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from culm_connectors.logs.index import LmdbLogStore, IndexBusy\n"
        "from culm_models.p2panda.operations.operation import peek\n"
        "try: LmdbLogStore(peek, Path(sys.argv[1]))\nexcept IndexBusy: sys.exit(42)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(store.folder)], check=False).returncode == 42
    with pytest.raises(IndexBusy):
        LmdbLogStore(peek, store.folder)


def test_new_schemas_of_two_commits_under_way_get_different_numbers(store: LmdbLogStore) -> None:
    first = store.commit(make_log(ALICE, 0, 1), {})
    second = store.commit(make_log(ALICE, 1, 1, schema_id=OTHER_SCHEMA), {})
    store.adopt(first)
    store.adopt(second)
    assert list(store.log_heights([SCHEMA])) == [(ALICE.public_key, 0, 1)]
    assert list(store.log_heights([OTHER_SCHEMA])) == [(ALICE.public_key, 1, 1)]


def test_logs_in_any_interleaving_give_the_same_index(tmp_path: Path) -> None:
    logs = [make_log(key_pair, log_id, 6) for key_pair in (ALICE, BOB) for log_id in (0, 1)]
    contents = []
    for seed in range(5):
        chance = random.Random(seed)
        cursors = [0] * len(logs)
        order = []
        while any(cursor < 6 for cursor in cursors):
            number = chance.choice([i for i, cursor in enumerate(cursors) if cursor < 6])
            order.append(logs[number][cursors[number]])
            cursors[number] += 1
        store = LmdbLogStore(peek, tmp_path / str(seed))
        while order:
            size = chance.randrange(1, 6)
            store.append(order[:size])
            order = order[size:]
        heights = list(store.log_heights([SCHEMA]))
        contents.append((heights, [list(store.entries(*log[:2], 1, 9)) for log in heights]))
        store.close()
    assert all(content == contents[0] for content in contents)


async def test_the_writer_makes_a_commit_visible_even_when_its_caller_gave_up(store: LmdbLogStore) -> None:
    import asyncio

    writer = IndexWriter(store)
    log = make_log(ALICE, 0, 3)
    assert store.height(ALICE.public_key, 0) == 0
    task = asyncio.ensure_future(writer.write(log, {("culm.logs", 0): 3}))
    await asyncio.sleep(0)
    task.cancel()
    deadline = asyncio.get_running_loop().time() + 10
    while store.height(ALICE.public_key, 0) != 3:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
    assert await writer.read_ranges([(ALICE.public_key, 0, 1, 3)], 1) == [pairs(log)[:1]]
    writer.close()


def test_ranges_read_together_are_whole_except_the_last(store: LmdbLogStore) -> None:
    logs = [make_log(ALICE, log_id, 30) for log_id in range(5)]
    store.append([entry for log in logs for entry in log])
    size = sum(len(entry) + len(operation) for entry, operation in pairs(logs[0]))
    for max_bytes in range(1, 3 * size, 97):
        ranges = [(ALICE.public_key, log_id, 1, 30) for log_id in range(5)]
        chunks = store.read_ranges(ranges, max_bytes)
        assert all(chunk == pairs(log) for chunk, log in zip(chunks[:-1], logs, strict=False))
        assert chunks[-1] == pairs(logs[len(chunks) - 1])[: len(chunks[-1])]
        assert chunks[-1]
    assert store.read_ranges([(BOB.public_key, 0, 1, 9), (ALICE.public_key, 0, 30, 30)]) == [
        [],
        pairs(logs[0])[29:],
    ]


def test_a_committed_log_of_a_new_schema_is_known_before_it_is_adopted(store: LmdbLogStore) -> None:
    log = make_log(ALICE, 0, 3)
    store.commit(log, {})
    info = store.log_info(ALICE.public_key, 0)
    assert info is not None
    assert info.schema_id == SCHEMA
