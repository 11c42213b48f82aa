"""The bytes that authors and peers take, counted in the transaction of the entries that they are of."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.logs.index import LmdbLogStore, layout, upgrade
from culm_connectors.logs.index.commit import author_name, peer_name
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from tests.support.index_formats import write_index
from tests.support.logs import author, make_log

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
    found: Counter[bytes] = Counter()
    with store._environment.read() as transaction:
        for key, value in transaction.cursor(db=store._databases[b"entries"]):
            size = sum(map(len, layout.unpack_entry(value)))
            found[author_name(key[:32])] += size
            place = key[: layout.LOG_KEY_SIZE], layout.U64.unpack(key[layout.LOG_KEY_SIZE :])[0]
            if place in brought_by:
                found[peer_name(brought_by[place])] += size
    return dict(found)


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
            key = layout.log_key(*log[0].log)
            if kind == "forget":
                done = store.forget([key])
                brought_by = {place: peer for place, peer in brought_by.items() if place[0] != key}
            else:
                entries = log[first : first + count]
                peers = [peer_id] * len(entries) if kind == "peer" else []
                done = store.commit(entries, {}, truth=kind == "truth", brought_by=peers)
                for cut, cut_at in done.truncated:
                    brought_by = {
                        place: peer
                        for place, peer in brought_by.items()
                        if place[0] != cut or place[1] < cut_at
                    }
                if peers:
                    brought_by |= {(key, one.entry.seq_num): peer_id for one in done.stored}
            store.adopt(done)
            assert usage(store) == recount(store, brought_by)
        store.adopt(store.forget([layout.log_key(*log[0].log) for log, _ in LOGS]))
        assert usage(store) == {}
        assert store._environment.count(b"brought") == 0
        store.close()


def test_an_entry_counts_for_the_peer_that_brought_it_first(store: LmdbLogStore) -> None:
    log = LOGS[0][0]
    sizes = [one.size_bytes for one in log]
    store.adopt(store.commit(log[:2], {}))
    store.adopt(store.commit(log[:4], {}, brought_by=[PEERS[0]] * 4))
    store.adopt(store.commit(log, {}, brought_by=[PEERS[1]] * LENGTH))
    assert store.usage(ANNA.public_key, PEERS[0]) == (sum(sizes), sum(sizes[2:4]))
    assert store.usage(BEN.public_key, PEERS[1]) == (0, sum(sizes[4:]))


@pytest.mark.parametrize("found", [1, 2])
@pytest.mark.parametrize("at_once", [3, 20_000])
def test_an_index_of_an_earlier_format_counts_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: int, at_once: int
) -> None:
    monkeypatch.setattr(upgrade, "_AT_ONCE", at_once)
    write_index(tmp_path, found)
    for _ in range(2):
        store = LmdbLogStore(peek, tmp_path)
        assert store.counts() == (16, 34)
        assert len(usage(store)) > 1
        assert usage(store) == recount(store, {})
        with store._environment.read() as transaction:
            documents = dict(transaction.cursor(db=store._databases[b"documents"]))
        assert len(documents) == 16
        store.close()
