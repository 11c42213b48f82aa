"""A damaged index gives nothing that was not stored, and a full disk is no damage."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_connectors.local_store.opening import in_doubt
from culm_connectors.logs.index import (
    IndexDamaged,
    IndexFull,
    IndexUnusable,
    IndexWriter,
    LmdbLogStore,
    close_index,
    open_index,
)
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka.origin import Origin
from tests.support.p2panda.logs import author, make_log, pairs
from tests.support.process.waiting import until

ORIGIN = Origin("cluster-1", {"culm.logs": "topic-1"})
ROOT = Path(__file__).parents[4]
LOGS = [make_log(author(name), log_id, 12) for name in ("ann", "bob") for log_id in range(6)]


def filled(folder: Path) -> bytes:
    """An index that was closed; returns its file."""
    store = open_index(peek, folder, ORIGIN)
    for log in LOGS:
        store.append(log)
    close_index(store)
    return (folder / DATA_FILE).read_bytes()


def damage(folder: Path, sound: bytes, seed: int) -> None:
    """Overwrite some of what was there."""
    rng = random.Random(seed)
    broken = bytearray(sound)
    for _ in range(rng.choice((1, 1, 4, 64))):
        at, size = rng.randrange(len(broken)), rng.choice((1, 8, 200))
        broken[at : at + size] = rng.randbytes(len(broken[at : at + size]))
    (folder / DATA_FILE).write_bytes(broken)


def test_a_closed_index_in_which_anything_has_changed_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound = filled(tmp_path)
    mark = (tmp_path / "state.json").read_text()
    for seed in range(8):
        damage(tmp_path, sound, seed)
        (tmp_path / "state.json").write_text(mark)
        store = open_index(peek, tmp_path, ORIGIN)
        assert store.counts() == (0, 0)
        store.close()
    assert caplog.text.count("changed since it was closed") == 8


# In a process of its own: what is read here was not written by lmdb.
_READ = """
import json, sys
from pathlib import Path
from culm_connectors.logs.index import IndexDamaged, open_index
from tests.connectors.logs.index.test_index_damage import LOGS, ORIGIN, damage
from culm_models.p2panda.operations.operation import peek
from tests.support.p2panda.logs import pairs
folder, sound = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
verdicts = []
for seed in range(int(sys.argv[3])):
    (folder / "state.json").unlink(missing_ok=True)
    damage(folder, sound, seed)
    store = open_index(peek, folder, ORIGIN)
    verdict = "whole"
    if store.counts() == (0, 0):
        verdict = "dropped"
    else:
        for log in LOGS:
            try:
                key, log_id = log[0].log
                held = list(store.entries(key, log_id, 1, 99))
                hashes = [store.entry_hash(key, log_id, number) for number in range(1, len(log) + 1)]
                if held != pairs(log) or hashes != [one.hash for one in log]:
                    verdict = "wrong"
            except IndexDamaged:
                verdict = "noticed" if verdict == "whole" else verdict
    verdicts.append(verdict)
    store.close()
print(json.dumps(verdicts))
"""


def run(program: str, *arguments: object) -> str:
    """Run a program that must succeed; returns what it printed, and after that what it logged."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout + done.stderr


def test_an_index_that_was_not_closed_gives_nothing_that_was_not_stored(tmp_path: Path) -> None:
    kept = tmp_path / "sound"
    kept.write_bytes(filled(tmp_path / "index"))
    verdicts = json.loads(run(_READ, tmp_path / "index", kept, 16).splitlines()[0])
    assert "wrong" not in verdicts
    assert {"dropped", "noticed"} <= set(verdicts)


async def test_damage_that_only_a_reader_met_ends_the_connector(tmp_path: Path) -> None:
    filled(tmp_path)
    data = tmp_path / DATA_FILE
    data.write_bytes(data.read_bytes().replace(LOGS[0][4].payload_bytes, LOGS[0][5].payload_bytes))
    store = LmdbLogStore(peek, tmp_path)
    writer = IndexWriter(store, flush_interval_s=0.01)
    flushing = asyncio.ensure_future(writer.flush_now_and_then())
    assert list(store.entries(*LOGS[0][0].log, 1, 4)) == pairs(LOGS[0])[:4]
    await asyncio.sleep(0)
    assert not flushing.done()
    with pytest.raises(IndexDamaged, match="not what was stored"):
        list(store.entries(*LOGS[0][0].log, 1, 12))
    with pytest.raises(IndexDamaged, match="not what was stored"):
        await flushing
    writer.close()
    store.close()


def test_an_index_that_may_not_grow_is_full_and_stays_whole(tmp_path: Path) -> None:
    store = LmdbLogStore(peek, tmp_path, map_size_bytes=256 * 1024, max_size_bytes=256 * 1024)
    with pytest.raises(IndexFull, match="262144 bytes") as refused:
        for log_id in range(100):
            store.append(make_log(author("ann"), log_id, 20))
    assert refused.value.hint is not None
    logs, entries = store.counts()
    assert logs and entries == 20 * logs
    store.close()
    again = LmdbLogStore(peek, tmp_path, check=True)
    assert again.counts() == (logs, entries)
    assert not again.contradictions()
    again.close()


# The limit on the size of files stands for a full disk: there is room when it is lifted.
_FULL = """
import asyncio, logging, resource, sys
from pathlib import Path
from culm_connectors.logs.index import IndexWriter, close_index, open_index
from culm_topics.kafka.origin import Origin
from culm_models.p2panda.operations.operation import peek
from tests.support.p2panda.logs import author, make_log
logging.basicConfig(level=logging.INFO)
log = make_log(author("ann"), 0, 120)

async def main(folder, room_bytes):
    store = open_index(peek, folder, Origin("cluster-1", {"culm.logs": "topic-1"}))
    writer = IndexWriter(store, retry_interval_s=0.01)
    await writer.write(log[:10])
    limit = store.size_bytes() + room_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    large, small = (asyncio.ensure_future(writer.write(part)) for part in (log[10:119], log[119:]))
    while writer.full is None and not large.done():
        await asyncio.sleep(0.001)
    assert not large.done() and not small.done() and store.height(*log[0].log) == 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert len((await large).stored) == 109 and not (await small).gaps and writer.full is None
    writer.close()
    close_index(store)

# Room for a part of a page: lmdb reports a write that was cut short in other words than one that was refused.
for room_bytes in (0, 6_000):
    asyncio.run(main(Path(sys.argv[1]) / str(room_bytes), room_bytes))
"""


def test_a_full_disk_is_reported_and_waited_for_in_order(tmp_path: Path) -> None:
    logged = run(_FULL, tmp_path)
    assert logged.count("index.full") == logged.count("room again") == 2
    for folder in tmp_path.iterdir():
        assert not in_doubt(folder)
        store = open_index(peek, folder, ORIGIN)
        log = make_log(author("ann"), 0, 120)
        assert list(store.entries(*log[0].log, 1, 500)) == pairs(log)
        store.close()


async def test_a_writer_that_waits_for_room_can_be_cancelled_and_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = LmdbLogStore(peek, tmp_path, map_size_bytes=1 << 18, max_size_bytes=1 << 18)
    writer = IndexWriter(store, retry_interval_s=3_600.0)
    # Any log of this size is larger than the map.
    log = [entry for log_id in range(100) for entry in make_log(author("ann"), log_id, 8)]
    writing = asyncio.ensure_future(writer.write(log))
    with caplog.at_level(logging.ERROR):
        await until(lambda: writer.full is not None)
    writing.cancel()
    await asyncio.wait({writing})
    assert writing.cancelled()
    assert caplog.text.count("index.full") == 1
    writer.close()
    close_index(store)
    assert not in_doubt(tmp_path)


class _Failing:
    """An lmdb environment, one method of which fails."""

    def __init__(self, inner: Any, name: str, error: lmdb.Error) -> None:
        self._inner, self._name, self._error = inner, name, error

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            return getattr(self._inner, name)

        def fail(*_: object, **__: object) -> Any:
            raise self._error

        return fail


@contextmanager
def failing(store: LmdbLogStore, name: str, error: lmdb.Error) -> Iterator[None]:
    environment: Any = store._environment
    inner = environment._env
    environment._env = _Failing(inner, name, error)
    try:
        yield
    finally:
        environment._env = inner


def test_what_could_not_be_flushed_is_looked_through_when_it_is_opened(tmp_path: Path) -> None:
    filled(tmp_path)
    store = open_index(peek, tmp_path, ORIGIN)
    with failing(store, "sync", lmdb.DiskError("sync: No space left on device")), pytest.raises(IndexFull):
        store.sync()
    store.sync()
    close_index(store)
    assert in_doubt(tmp_path)
    again = open_index(peek, tmp_path, ORIGIN)
    assert again.counts() == (len(LOGS), 12 * len(LOGS))
    close_index(again)
    assert not in_doubt(tmp_path)


def test_a_file_that_must_be_opened_anew_is_not_damaged(tmp_path: Path) -> None:
    filled(tmp_path)
    store = open_index(peek, tmp_path, ORIGIN)
    panic = lmdb.PanicError("MDB_PANIC: Update of meta page failed or environment had fatal error")
    with failing(store, "begin", panic), pytest.raises(IndexUnusable):
        store.append(make_log(author("cyn"), 0, 1))
    assert store.damage is None
    close_index(store)
    assert in_doubt(tmp_path)


def test_a_disk_too_full_for_the_mark_costs_a_look_through_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_index(peek, tmp_path, ORIGIN)
    store.append(LOGS[0])

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        close_index(store)
    assert "not marked as closed" in caplog.text
    again = open_index(peek, tmp_path, ORIGIN)
    assert again.counts() == (1, 12)
    again.close()


def test_an_entry_that_is_gone_from_below_its_logs_height_is_damage(tmp_path: Path) -> None:
    store = open_index(peek, tmp_path, ORIGIN)
    log = make_log(author("ann"), 0, 3)
    store.append(log)
    entries = store._environment.databases[b"entries"]

    def lose_the_first(transaction: Any) -> None:
        with transaction.cursor(db=entries) as cursor:
            assert cursor.first() and cursor.delete()

    store._environment.write(lose_the_first)
    with pytest.raises(IndexDamaged, match="entry 1"):
        store.append(log[:1])
    close_index(store)
