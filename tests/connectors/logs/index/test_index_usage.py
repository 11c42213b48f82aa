"""The bytes that authors and peers take, and logs that are taken out of the index."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.logs.index import LmdbLogStore, layout, upgrade
from culm_connectors.logs.index.commit import author_name, peer_name
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from culm_topics.records import LOG_KEY_SIZE, log_key
from tests.support.p2panda.histories import write_index
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

ANNA, BEN = author("anna"), author("ben")
PEERS = (b"p" * 32, b"q" * 32)
LENGTH = 6


def branches(name: str, log_id: int) -> tuple[list[CheckedOperation], list[CheckedOperation]]:
    """Two logs of one author that agree in their first two entries."""
    log = make_log(author(name), log_id, LENGTH)
    return log, make_log(author(name), log_id, LENGTH - 2, text="other", after=log[:2])


LOGS = [branches(name, log_id) for name in ("anna", "ben") for log_id in (0, 1)]


def usage(store: LmdbLogStore) -> dict[bytes, int]:
    with store._environment.read() as transaction:
        records = dict(transaction.cursor(db=store._databases[b"usage"]))
    return {name: layout.U64.unpack(value)[0] for name, value in records.items()}


def recount(store: LmdbLogStore, brought_by: dict[tuple[bytes, int], bytes]) -> dict[bytes, int]:
    """What `usage` should hold: every entry weighed, with who brought it."""
    totals: Counter[bytes] = Counter()
    with store._environment.read() as transaction:
        for key, value in transaction.cursor(db=store._databases[b"entries"]):
            size = sum(map(len, layout.unpack_entry(value)))
            totals[author_name(key[:32])] += size
            entry_key = key[:LOG_KEY_SIZE], layout.U64.unpack(key[LOG_KEY_SIZE:])[0]
            if entry_key in brought_by:
                totals[peer_name(brought_by[entry_key])] += size
    return dict(totals)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path / "index")
    yield opened
    opened.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["peer", "peer", "live", "truth", "forget"]),
        st.sampled_from(range(len(LOGS))),
        st.sampled_from([0, 1]),
        st.integers(0, LENGTH - 1),
        st.integers(1, LENGTH),
        st.sampled_from(PEERS),
    ),
    max_size=24,
)


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_what_is_counted_is_what_is_held(steps: list[tuple[str, int, int, int, int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LmdbLogStore(peek, Path(folder))
        brought_by: dict[tuple[bytes, int], bytes] = {}
        for kind, number, branch, first, count, peer_id in steps:
            log = LOGS[number][branch]
            key = log_key(*log[0].log)
            if kind == "forget":
                done = store.forget([key])
                brought_by = {
                    entry_key: peer for entry_key, peer in brought_by.items() if entry_key[0] != key
                }
            else:
                entries = log[first : first + count]
                peers = [peer_id] * len(entries) if kind == "peer" else []
                done = store.commit(entries, {}, truth=kind == "truth", brought_by=peers)
                for cut, cut_at in done.truncated:
                    brought_by = {
                        entry_key: peer
                        for entry_key, peer in brought_by.items()
                        if entry_key[0] != log_key(*cut) or entry_key[1] < cut_at
                    }
                if peers:
                    brought_by |= {(key, entry.entry.seq_num): peer_id for entry in done.stored}
            store.adopt(done)
            assert usage(store) == recount(store, brought_by)
        store.adopt(store.forget([log_key(*log[0].log) for log, _ in LOGS]))
        assert usage(store) == {}
        assert store._environment.count(b"brought") == 0
        store.close()


def test_an_entry_counts_for_the_peer_that_brought_it_first(store: LmdbLogStore) -> None:
    log = LOGS[0][0]
    sizes = [entry.size_bytes for entry in log]
    store.adopt(store.commit(log[:2], {}))
    store.adopt(store.commit(log[:4], {}, brought_by=[PEERS[0]] * 4))
    store.adopt(store.commit(log, {}, brought_by=[PEERS[1]] * LENGTH))
    assert store.usage(ANNA.public_key, PEERS[0]) == (sum(sizes), sum(sizes[2:4]))
    assert store.usage(BEN.public_key, PEERS[1]) == (0, sum(sizes[4:]))


@pytest.mark.parametrize("index_format", [1, 2])
@pytest.mark.parametrize("at_once", [3, 20_000])
def test_an_index_of_an_earlier_format_counts_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index_format: int, at_once: int
) -> None:
    monkeypatch.setattr(upgrade, "_AT_ONCE", at_once)
    write_index(tmp_path, index_format)
    for _ in range(2):
        store = LmdbLogStore(peek, tmp_path)
        assert store.counts() == (16, 34)
        assert len(usage(store)) > 1
        assert usage(store) == recount(store, {})
        with store._environment.read() as transaction:
            documents = dict(transaction.cursor(db=store._databases[b"documents"]))
        assert len(documents) == 16
        store.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path)
    yield opened
    opened.close()


HELD = [
    make_log(author("a"), 0, 5),
    make_log(author("a"), 1, 3, schema_id=OTHER_SCHEMA),
    make_log(author("b"), 0, 1),
]
KEYS = [log_key(*log[0].log) for log in HELD]


def fill(kept: LmdbLogStore) -> None:
    for log in HELD:
        kept.append(log)


def contents(kept: LmdbLogStore) -> dict[bytes, dict[bytes, bytes]]:
    with kept._environment.read() as transaction:
        records = {name: dict(transaction.cursor(db=database)) for name, database in kept._databases.items()}
    # The revision that brought an operation is another one each time.
    records[b"operations"] = {
        key: packed_place[: -layout.U64.size] for key, packed_place in records[b"operations"].items()
    }
    return records


def test_a_forgotten_log_leaves_nothing_and_can_be_stored_again(kept: LmdbLogStore, tmp_path: Path) -> None:
    kept.append(HELD[1])
    without = contents(kept)
    kept.append(HELD[0])
    whole = contents(kept)
    kept.adopt(kept.forget([KEYS[0]]))
    assert contents(kept) | {b"schemas": {}} == without | {b"schemas": {}}
    assert kept.height(*HELD[0][0].log) == 0
    assert kept.log_info(*HELD[0][0].log) is None
    assert list(kept.log_heights([SCHEMA])) == []
    kept.append(HELD[0])
    assert contents(kept) == whole


def delete(database: bytes, key: bytes) -> Callable[[LmdbLogStore, Any], None]:
    return lambda kept, transaction: transaction.delete(key, db=kept._databases[database])


def put(database: bytes, key: bytes, value: bytes) -> Callable[[LmdbLogStore, Any], None]:
    return lambda kept, transaction: transaction.put(key, value, db=kept._databases[database])


def test_a_whole_index_contradicts_itself_nowhere(kept: LmdbLogStore) -> None:
    fill(kept)
    assert kept.contradictions() == {}


@pytest.mark.parametrize(
    "damage",
    [
        delete(b"entries", KEYS[0] + layout.U64.pack(1)),
        delete(b"entries", KEYS[0] + layout.U64.pack(3)),
        delete(b"entries", KEYS[0] + layout.U64.pack(5)),
        delete(b"logs", KEYS[0]),
        delete(b"sync_range", layout.U32.pack(0) + KEYS[0]),
        put(b"sync_range", layout.U32.pack(0) + KEYS[0], layout.U64.pack(4)),
        put(b"logs", KEYS[0], b"none of ours"),
        put(b"entries", KEYS[0] + layout.U64.pack(9), layout.pack_entry(b"e", b"o")),
    ],
)
def test_a_log_that_contradicts_itself_is_found_and_forgotten(
    kept: LmdbLogStore, damage: Callable[[LmdbLogStore, Any], None]
) -> None:
    fill(kept)
    kept._environment.write(lambda transaction: damage(kept, transaction))
    assert set(kept.contradictions()) == {KEYS[0]}
    kept.adopt(kept.forget([KEYS[0]]))
    assert kept.contradictions() == {}
    assert kept.counts() == (2, 4)
    kept.append(HELD[0])
    assert kept.contradictions() == {}
    assert [list(kept.entries(*log[0].log, 1, 9)) for log in HELD] == [
        [(entry.entry_bytes, entry.payload_bytes) for entry in log] for log in HELD
    ]
