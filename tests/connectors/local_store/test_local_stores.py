"""Stores that cannot be written or are damaged are worked on no more; those of earlier programs are read."""

from __future__ import annotations

import errno
import logging
import random
import sqlite3
from pathlib import Path

import pytest

from culm_connectors.edge.keyfile import load_key
from culm_connectors.errors import ConnectorError
from culm_connectors.local_store.errors import LocalStoreError, StoreDamaged, StoreFull
from culm_connectors.local_store.refilled_folder import condemn_folder, open_or_refill
from culm_connectors.local_store.store_guard import StoreGuard, has_space
from culm_connectors.logs.index import close_index, layout, open_index
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_models.p2panda.operations.operation import peek
from tests.support.freeze import frozen, stores
from tests.support.p2panda.histories import random_history
from tests.support.p2panda.logs import SCHEMA, author
from tests.support.process.waiting import while_working

PAGE = 4_096


def database(folder: Path) -> sqlite3.Connection:
    folder.mkdir(exist_ok=True)
    opened = sqlite3.connect(folder / "store.sqlite", isolation_level=None, check_same_thread=False)
    opened.execute("CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, data BLOB)")
    return opened


def fill(store: sqlite3.Connection, rows: int) -> None:
    store.executemany("INSERT INTO kept (data) VALUES (?)", [(bytes(PAGE),)] * rows)


async def failure_of(guard: StoreGuard) -> LocalStoreError:
    with pytest.raises(LocalStoreError) as raised:
        async with while_working():
            await guard.failed()
    return raised.value


async def test_a_store_without_space_does_no_further_step(tmp_path: Path) -> None:
    store, damage = database(tmp_path / "store"), list[str]()
    store.execute("PRAGMA max_page_count = 20")
    guard = StoreGuard(tmp_path, lambda: damage.append("met"))
    with pytest.raises(StoreFull, match="database or disk is full"), guard.watching():
        fill(store, 100)
    with pytest.raises(StoreFull), guard.watching():
        pytest.fail("a step behind the failure")
    assert isinstance(await failure_of(guard), StoreFull)
    assert damage == []
    store.close()


async def test_damage_is_known_at_the_step_that_meets_it(tmp_path: Path) -> None:
    folder, damage = tmp_path / "store", list[str]()
    store = database(folder)
    fill(store, 50)
    store.close()
    damage_pages(folder / "store.sqlite")
    store = database(folder)
    guard = StoreGuard(folder, lambda: damage.append("met"))
    with pytest.raises(StoreDamaged), guard.watching():
        store.execute("SELECT sum(length(data)) FROM kept").fetchall()
    assert isinstance(await failure_of(guard), StoreDamaged)
    assert damage == ["met"]
    store.close()


async def test_a_file_that_the_disk_does_not_take_is_as_a_full_store(tmp_path: Path) -> None:
    guard = StoreGuard(tmp_path, lambda: None)
    with pytest.raises(StoreFull, match="No space left"), guard.watching():
        raise OSError(errno.ENOSPC, "no space")


async def test_other_errors_are_left_as_they_are(tmp_path: Path) -> None:
    guard = StoreGuard(tmp_path, lambda: None)
    for error in (
        FileNotFoundError(errno.ENOENT, "gone"),
        sqlite3.ProgrammingError("a defect"),
        ValueError(),
    ):
        with pytest.raises(type(error)), guard.watching():
            raise error
    assert guard.error is None


def test_a_condemned_folder_is_set_aside_with_its_database_and_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for rows in (5, 3):
        store = open_or_refill(folder, lambda: database(folder), ConnectorError)
        assert store.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        fill(store, rows)
        store.close()
        condemn_folder(folder)
    open_or_refill(folder, lambda: database(folder), ConnectorError).close()
    aside = sqlite3.connect(tmp_path / "store.damaged" / "store.sqlite")
    assert aside.execute("SELECT count(*) FROM kept").fetchone() == (3,)
    aside.close()


def test_space_is_tried_out(tmp_path: Path) -> None:
    assert has_space(tmp_path)
    assert not has_space(tmp_path / "nowhere")


def damage_pages(path: Path) -> None:
    """Overwrite every page but the first two, as a disk that lost a write does."""
    data = bytearray(path.read_bytes())
    data[2 * PAGE :] = b"\xa5" * (len(data) - 2 * PAGE)
    path.write_bytes(data)


def test_a_kept_index_of_this_format_gives_back_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert layout.FORMAT == 3, "make the fixture anew, and keep this one beside those of earlier formats"
    with caplog.at_level(logging.INFO):
        store = open_index(peek, frozen.unpack("lmdb-index", tmp_path), stores.ORIGIN)
    assert not caplog.records, "neither in doubt, nor dropped, nor upgraded"
    frozen.assert_as_kept("lmdb-index", stores.index_as_read(store))
    close_index(store)


def test_a_kept_index_goes_on_where_it_stood(tmp_path: Path) -> None:
    history = random_history(random.Random(13), 90, stores.NAMES, deletes=0.2)
    (missing, *_) = [log for log, entries in history.logs.items() if entries[0].facts.action == "create"]
    create = history.logs[missing][0].hash
    in_document = [operation for operation in history.written if history.document[operation.hash] == create]
    others = [operation for operation in in_document if operation.log != missing]
    store = open_index(peek, frozen.unpack("lmdb-index", tmp_path), stores.ORIGIN)
    assert others and {store.document_of(operation.hash) for operation in others} == {None}
    revision = store.revision
    store.append(history.logs[missing])
    assert {store.document_of(operation.hash) for operation in others} == {create}
    create_place = store.place_of(create)
    assert create_place is not None and create_place.revision > revision
    assert store.contradictions() == {}
    close_index(store)


async def test_a_kept_peer_is_the_same_and_writes_on(tmp_path: Path) -> None:
    home = frozen.unpack("peer", tmp_path)
    assert load_key(home).public_key == author("peer").public_key
    async with ReferencePeer(home) as peer:
        (log,) = peer.heights()
        assert peer.heights() == {log: 7}
        document_id = peer.store.log_info(*log).document_id  # type: ignore[union-attr]
        (update,) = await peer.publish([Draft("update", SCHEMA, {"name": "on"}, document_id=document_id)])
        assert (update.log, update.entry.seq_num) == (log, 8)
