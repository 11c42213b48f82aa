"""An index that cannot be trusted is dropped; one that can is kept."""

from __future__ import annotations

import json
import logging
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_connectors.local_store.opening import in_doubt
from culm_connectors.logs.index import IndexBusy, IndexDamaged, LmdbLogStore, close_index, condemn, open_index
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka.origin import Origin
from tests.support.p2panda.logs import author, make_log

ALICE = author("alice")
ORIGIN = Origin("cluster-1", {"culm.logs": "topic-1"})


def filled(folder: Path) -> int:
    store = open_index(peek, folder, ORIGIN)
    for log_id in range(40):
        store.append(make_log(ALICE, log_id, 10))
    store.adopt(store.commit([], {("culm.logs", 0): 400}))
    close_index(store)
    return 400


def entries_after_reopening(folder: Path, origin: Origin = ORIGIN) -> int:
    store = open_index(peek, folder, origin)
    _, entries = store.counts()
    assert (store.offsets() == {}) == (entries == 0)
    close_index(store)
    return entries


def test_a_sound_index_is_kept(tmp_path: Path) -> None:
    assert filled(tmp_path) == entries_after_reopening(tmp_path)


@pytest.mark.parametrize(
    "origin",
    [Origin("cluster-2", {"culm.logs": "topic-1"}), Origin("cluster-1", {"culm.logs": "topic-2"})],
    ids=["another cluster", "a topic created anew"],
)
def test_an_index_of_other_offsets_is_dropped_loudly(
    tmp_path: Path, origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert entries_after_reopening(tmp_path, origin) == 0
    assert "index.foreign" in caplog.text
    assert entries_after_reopening(tmp_path, origin) == 0


def test_an_index_that_names_a_topic_more_is_of_the_same_offsets(tmp_path: Path) -> None:
    store = open_index(peek, tmp_path, Origin("cluster-1", {"culm.logs": "topic-1", "culm.other": "topic-9"}))
    store.append(make_log(ALICE, 0, 10))
    store.adopt(store.commit([], {("culm.logs", 0): 10}))
    close_index(store)
    assert entries_after_reopening(tmp_path) == 10


def _truncate(data: Path) -> None:
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size // 2)


def _overwrite_start(data: Path) -> None:
    with data.open("r+b") as file:
        file.write(random.Random(1).randbytes(8192))


def _overwrite_middle(data: Path) -> None:
    with data.open("r+b") as file:
        file.seek(data.stat().st_size // 2 // 4096 * 4096)
        file.write(random.Random(2).randbytes(16 * 4096))


def _overwrite_all(data: Path) -> None:
    data.write_bytes(random.Random(3).randbytes(data.stat().st_size))


def _empty(data: Path) -> None:
    data.write_bytes(b"")


def _replace_by_text(data: Path) -> None:
    data.unlink()
    data.write_text("not a database")


@pytest.mark.parametrize(
    "damage", [_truncate, _overwrite_start, _overwrite_middle, _overwrite_all, _replace_by_text]
)
def test_a_damaged_index_is_dropped_loudly(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    damage(tmp_path / DATA_FILE)
    with caplog.at_level(logging.WARNING):
        assert entries_after_reopening(tmp_path) == 0
    assert "index.damaged" in caplog.text


def test_an_emptied_file_is_a_new_index(tmp_path: Path) -> None:
    filled(tmp_path)
    _empty(tmp_path / DATA_FILE)
    assert entries_after_reopening(tmp_path) == 0


def test_a_file_shorter_than_it_says_is_refused_without_walking_it(tmp_path: Path) -> None:
    filled(tmp_path)
    _truncate(tmp_path / DATA_FILE)
    with pytest.raises(IndexDamaged, match="ends after"):
        LmdbLogStore(peek, tmp_path, check=False)


def test_an_unknown_format_is_damage(tmp_path: Path) -> None:
    import lmdb

    filled(tmp_path)
    with lmdb.open(str(tmp_path), max_dbs=8, map_size=1 << 30) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", b"\xff\xff\xff\xff", db=meta)
    with pytest.raises(IndexDamaged, match="format"):
        LmdbLogStore(peek, tmp_path)
    assert entries_after_reopening(tmp_path) == 0


def test_an_index_without_a_mark_of_its_closing_is_looked_through_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    assert not in_doubt(tmp_path)
    for mark in ("torn", json.dumps({"closed": True, "boot_id": "a mark of an earlier version"})):
        (tmp_path / "state.json").write_text(mark)
        with caplog.at_level(logging.INFO):
            assert entries_after_reopening(tmp_path) == 400
        assert "was not closed" in caplog.text
        assert not in_doubt(tmp_path)


def test_a_condemned_index_is_dropped_once(tmp_path: Path) -> None:
    filled(tmp_path)
    store = open_index(peek, tmp_path, ORIGIN)
    condemn(tmp_path)
    close_index(store)
    assert entries_after_reopening(tmp_path) == 0
    filled(tmp_path)
    assert entries_after_reopening(tmp_path) == 400


_KILLED = """
import os, signal, sys
from pathlib import Path
from culm_connectors.logs.index import open_index
from culm_topics.kafka.origin import Origin
from culm_models.p2panda.operations.operation import peek
from tests.support.p2panda.logs import author, make_log
store = open_index(peek, Path(sys.argv[1]), Origin("cluster-1", {"culm.logs": "topic-1"}))
log = make_log(author("alice"), 0, 500)
for number in range(0, 500, 5):
    store.adopt(store.commit(log[number:number + 5], {("culm.logs", 0): number + 5}))
    print(number + 5, flush=True)
    if number == 300:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_nothing_that_it_committed(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path)], check=False, capture_output=True, text=True, cwd=root
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    acknowledged = int(done.stdout.split()[-1])
    store = open_index(peek, tmp_path, ORIGIN)
    assert store.offsets() == {("culm.logs", 0): acknowledged}
    assert store.height(ALICE.public_key, 0) == acknowledged
    store.close()


def test_an_index_that_another_process_uses_is_not_touched(tmp_path: Path) -> None:
    filled(tmp_path)
    store = open_index(peek, tmp_path, ORIGIN)
    # As its user does on damage: the next opening drops it, once the folder is free.
    condemn(tmp_path)
    with pytest.raises(IndexBusy):
        open_index(peek, tmp_path, ORIGIN)
    assert (tmp_path / DATA_FILE).exists()
    store.close()
    assert entries_after_reopening(tmp_path) == 0


def test_a_folder_that_could_not_be_opened_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("culm_connectors.logs.index.opening.check_origin", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            open_index(peek, tmp_path, ORIGIN)
    close_index(open_index(peek, tmp_path, ORIGIN))
