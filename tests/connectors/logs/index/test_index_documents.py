"""The document of a log: known whenever the operations that it follows come, and kept."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.logs.index import IndexWriter, LmdbLogStore, documents, upgrade
from culm_models.p2panda.operations.operation import CheckedOperation, OperationFacts, peek
from culm_models.p2panda.store import MemoryLogStore
from culm_topics.records import log_key
from tests.support.p2panda.histories import History, random_history, write_index
from tests.support.p2panda.logs import author

NAMES = ("ann", "bob", "cyn", "dan", "eve", "fay")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path / "index")
    yield opened
    opened.close()


def documents_of_logs(store: LmdbLogStore | MemoryLogStore, history: History) -> dict[str, bytes | None]:
    documents = {}
    for log in history.logs:
        info = store.log_info(*log)
        documents[f"{log[0].hex()}/{log[1]}"] = info.document_id if info else None
    return documents


def expected(history: History) -> dict[str, bytes | None]:
    return {
        f"{key.hex()}/{log_id}": history.document[entries[0].hash]
        for (key, log_id), entries in history.logs.items()
    }


def a_chain(length: int) -> History:
    """A create, and one log after the other that follows the operation before."""
    history = History()
    latest = history.write("author 0", 0)
    for number in range(1, length):
        latest = history.write(f"author {number}", 0, (latest,))
    return history


@pytest.mark.parametrize("make", [lambda path: LmdbLogStore(peek, path), lambda path: MemoryLogStore()])
def test_a_log_many_steps_from_the_create_has_its_document_when_the_create_comes_last(
    tmp_path: Path, make: Callable[[Path], LmdbLogStore | MemoryLogStore]
) -> None:
    store, history = make(tmp_path / "index"), a_chain(9)
    for checked in reversed(history.written):
        assert store.document_of(checked.hash) is None
        store.append([checked])
    assert documents_of_logs(store, history) == expected(history)
    create = history.written[0]
    assert {store.document_of(operation.hash) for operation in history.written} == {create.hash}
    assert store.log_of(author("author 8").public_key, create.hash) == 0


@pytest.mark.parametrize("make", [lambda path: LmdbLogStore(peek, path), lambda path: MemoryLogStore()])
@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_every_log_has_its_document_in_whatever_order_entries_come(
    make: Callable[[Path], LmdbLogStore | MemoryLogStore], seed: int, count: int
) -> None:
    rng = random.Random(seed)
    history = random_history(rng, count, NAMES)
    arrivals = list(history.arrivals(rng))
    with tempfile.TemporaryDirectory() as folder:
        store = make(Path(folder))
        while arrivals:
            size = rng.randint(1, 5)
            store.append(arrivals[:size])
            del arrivals[:size]
        assert documents_of_logs(store, history) == expected(history)
        assert all(
            store.document_of(operation.hash) == history.document[operation.hash]
            for operation in history.written
        )


def test_documents_found_out_later_are_kept(tmp_path: Path) -> None:
    store, history = LmdbLogStore(peek, tmp_path / "index"), a_chain(4)
    store.append(list(reversed(history.written)))
    store.close()
    again = LmdbLogStore(peek, store.folder)
    assert documents_of_logs(again, history) == expected(history)
    again.close()


def test_what_waits_is_settled_in_parts(store: LmdbLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_SETTLED", 3)
    history = History()
    created = history.write("ann", 0)
    for number in range(20):
        history.write(f"author {number}", 0, (created,))
    store.append(history.written[1:])
    store.adopt(store.commit(history.written[:1], {}))
    known = [document is not None for document in documents_of_logs(store, history).values()]
    assert sum(known) == 4
    store.append([])
    assert documents_of_logs(store, history) == expected(history)


async def test_a_writer_goes_on_until_all_that_waited_is_settled(
    store: LmdbLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_SETTLED", 3)
    history = a_chain(20)
    writer = IndexWriter(store)
    commits = [await writer.write(history.written[1:]), await writer.write(history.written[:1])]
    assert [commit.unsettled for commit in commits] == [False, True]
    # Further writes stand behind those that settle.
    for _ in range(20):
        await writer.write([])
    assert documents_of_logs(store, history) == expected(history)
    writer.close()


def test_a_log_that_was_cut_back_and_written_anew_has_the_document_of_its_new_first_entry(
    store: LmdbLogStore,
) -> None:
    history, other = History(), History()
    first, two = history.write("ann", 0), history.write("ann", 1)
    history.write("bob", 0, (first,))
    other.write("bob", 0, (two,))
    store.append([*history.written[2:], history.written[0], history.written[1]])
    store.adopt(store.commit(other.written, {}, truth=True))
    info = store.log_info(author("bob").public_key, 0)
    assert info is not None and info.document_id == two
    assert store.log_of(author("bob").public_key, first) is None
    assert store.log_of(author("bob").public_key, two) == 0


def test_a_forgotten_log_is_found_again_by_those_that_wait_for_it(store: LmdbLogStore) -> None:
    history = a_chain(3)
    store.append([history.written[2], history.written[1]])
    store.adopt(store.forget([log_key(*history.written[1].log)]))
    store.append(history.written[:2])
    assert documents_of_logs(store, history) == expected(history)


def test_the_deletes_of_a_document_are_known_by_log(store: LmdbLogStore) -> None:
    history = History()
    created = history.write("ann", 0)
    history.write("bob", 4, (created,))
    history.write("bob", 4, (created,), delete=True)
    history.write("bob", 4, (created,), delete=True)
    history.write("cyn", 2, (created,), delete=True)
    history.write("cyn", 3)
    # Those of logs that had to wait too.
    store.append(history.written[1:])
    assert list(store.deletes_of(created)) == []
    store.append(history.written[:1])
    bob, cyn = author("bob").public_key, author("cyn").public_key
    assert dict(store.deletes_of(created)) == {(bob, 4): 2, (cyn, 2): 1}
    assert list(store.deletes_of(history.written[-1].hash)) == []
    store.adopt(store.forget([log_key(cyn, 2)]))
    assert dict(store.deletes_of(created)) == {(bob, 4): 2}


def test_an_operation_id_that_none_can_have_is_not_taken_for_one_that_is_held(store: LmdbLogStore) -> None:
    history = History()
    created = history.write("ann", 0)
    store.append(history.written)
    assert store.document_of(b"\x00\x21" + created[2:]) is None


# Indexes of the format before.


def histories_document(entries: Sequence[CheckedOperation]) -> dict[bytes, bytes]:
    document_of: dict[bytes, bytes] = {}
    while len(document_of) < len(entries):
        for entry in entries:
            if entry.facts.previous is None:
                document_of[entry.hash] = entry.hash
            elif entry.facts.previous[0] in document_of:
                document_of[entry.hash] = document_of[entry.facts.previous[0]]
    return document_of


@pytest.mark.parametrize("at_once", [3, 20_000])
def test_an_index_of_format_1_learns_the_documents_that_it_did_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(upgrade, "_AT_ONCE", at_once)
    folder = tmp_path / "index"
    entries = write_index(folder, 1)
    store = LmdbLogStore(peek, folder)
    assert store.counts() == (len({entry.log for entry in entries}), len(entries))
    document = histories_document(entries)
    for entry in entries:
        info = store.log_info(*entry.log)
        assert info is not None and info.document_id == document[entry.hash]
        assert store.document_of(entry.hash) == document[entry.hash]
        assert store.entry_hash(*entry.log, entry.entry.seq_num) == entry.hash
        entry_place = store.place_of(entry.hash)
        assert entry_place is not None and (entry_place.log, entry_place.seq_num) == (
            entry.log,
            entry.entry.seq_num,
        )
    deleted = {document[entry.hash] for entry in entries if entry.facts.action == "delete"}
    assert deleted == {
        document_id for document_id in set(document.values()) if list(store.deletes_of(document_id))
    }
    assert store.offsets() == {("culm.logs", 0): len(entries)}
    store.close()
    again = LmdbLogStore(peek, folder)
    assert again.document_of(entries[-1].hash) == document[entries[-1].hash]
    again.close()


def test_an_upgrade_that_was_interrupted_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    entries = write_index(folder, 1)
    monkeypatch.setattr(upgrade, "_AT_ONCE", 5)
    calls = itertools.count()

    def interrupted(operation: bytes) -> OperationFacts:
        if next(calls) == 12:
            raise KeyboardInterrupt
        return peek(operation)

    with pytest.raises(KeyboardInterrupt):
        LmdbLogStore(interrupted, folder)
    store = LmdbLogStore(peek, folder)
    document = histories_document(entries)
    assert {entry.hash: store.document_of(entry.hash) for entry in entries} == document
    store.close()
