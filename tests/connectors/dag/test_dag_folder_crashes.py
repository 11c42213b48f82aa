"""A folder of DAGs is killed at every step of the file system, loses its power, and has files that rot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import write_car
from culm_models.dag.errors import DagError
from culm_models.dag.walk.shard_blocks import open_shard
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, large_shard

SPACE, PEER, OTHER = SPACES[0], SEEDS[0], SEEDS[1]
LARGE, LARGE_BYTES = large_shard(0)


def small_shard(number: int) -> tuple[Cid, bytes]:
    block = bytes([number]) * 100
    data = write_car([], [(cid_of(RAW, block), block)])
    return cid_of(CAR, data), data


SHARDS = dict(small_shard(number) for number in range(4)) | {LARGE: LARGE_BYTES}
FIRST, SECOND, *_ = SHARDS


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DagFolder]:
    made = DagFolder(tmp_path / "dags", create=True, clock_s=lambda: NOW)
    yield made
    made.close()


def reopened(folder: DagFolder) -> DagFolder:
    folder.close()
    return DagFolder(folder.folder, clock_s=lambda: NOW)


def spool_all(folder: DagFolder, peer: bytes, shard: Cid) -> None:
    data = SHARDS[shard]
    folder.reserve(peer, SPACE, shard, len(data))
    for offset in range(0, len(data), CHUNK_SIZE):
        folder.spool(peer, shard, offset, data[offset : offset + CHUNK_SIZE])


def assert_sound(folder: DagFolder) -> set[Cid]:
    """Each shard has its bytes, each block of it is read, and no file lies there without one."""
    here = set(folder.all_shards())
    for shard in here:
        data = SHARDS[shard]
        assert folder.read_shard(shard, 0, len(data) + 1) == data
        for cid, block in open_shard(shard, data).blocks.items():
            assert folder.block(cid) == bytes(block)
    files = {path.name for path in (folder.folder / "shards").iterdir()}
    assert files == {f"{shard.text}.car" for shard in here}
    return here


class Killer:
    """Copies a folder as it would be left by a kill, before and behind each step of the file system."""

    def __init__(self, folder: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.found: list[Path] = []
        self._copies = copies
        for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync"), (os, "pwrite")):
            monkeypatch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            self.copy()
            result = step(*args, **named)
            self.copy()
            return result

        return run

    def copy(self) -> None:
        copy = self._copies / str(len(self.found))
        shutil.copytree(self.folder, copy)
        self.found.append(copy)


def test_at_every_kill_what_was_committed_is_there_and_nothing_else_is_left(
    folder: DagFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[set[Cid]] = [set()]
    with monkeypatch.context() as patched:
        killer = Killer(folder.folder, tmp_path / "copies", patched)
        points = [0]

        def commit(*here: Cid) -> None:
            folder.commit()
            committed.append(set(here))
            points.append(len(killer.found))

        folder.add_shard(SPACE, FIRST, SHARDS[FIRST])
        commit(FIRST)
        spool_all(folder, PEER, LARGE)
        assert folder.accept_spool(PEER, LARGE)
        commit(FIRST, LARGE)
        folder.drop_shard(FIRST)
        commit(LARGE)
        # Dropped, and here again before that was committed.
        folder.add_shard(SPACE, SECOND, SHARDS[SECOND])
        folder.drop_shard(LARGE)
        folder.add_shard(SPACE, LARGE, SHARDS[LARGE])
        commit(LARGE, SECOND)
        points.append(len(killer.found) + 1)
    assert assert_sound(folder) == committed[-1]
    for number, copy in enumerate(killer.found):
        stage = next(at for at in range(len(points)) if number < points[at + 1])
        left = DagFolder(copy, clock_s=lambda: NOW)
        may_be = [committed[stage], *committed[stage + 1 : stage + 2]]
        assert assert_sound(left) in may_be, number
        # It goes on as any other: what is not there comes, and is there.
        for shard in SHARDS:
            left.add_shard(SPACE, shard, SHARDS[shard])
        left.commit()
        left = reopened(left)
        assert assert_sound(left) == set(SHARDS)
        left.close()


@pytest.mark.parametrize("damage", [b"", b"cut", None, "zeros"])
def test_a_damaged_file_is_as_a_shard_that_never_came(folder: DagFolder, damage: Any) -> None:
    for shard in (FIRST, SECOND):
        folder.add_shard(SPACE, shard, SHARDS[shard])
    folder.commit()
    path = folder.shard_path(FIRST)
    assert path is not None
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(bytes(len(SHARDS[FIRST])) if damage == "zeros" else damage)
    folder = reopened(folder)
    assert folder.read_shard(FIRST, 0, 10) == b""
    (block,) = open_shard(FIRST, SHARDS[FIRST]).blocks
    assert folder.block(block) is None
    folder.commit()
    assert assert_sound(folder) == {SECOND}
    folder.add_shard(SPACE, FIRST, SHARDS[FIRST])
    folder.commit()
    assert assert_sound(reopened(folder)) == {FIRST, SECOND}


def test_a_block_of_a_damaged_shard_is_read_from_another_one(folder: DagFolder) -> None:
    block = b"in two shards"
    cid = cid_of(RAW, block)
    both = [write_car([], [(cid, block)]), write_car([cid], [(cid, block)])]
    for data in both:
        folder.add_shard(SPACE, cid_of(CAR, data), data)
    folder.commit()
    path = folder.shard_path(cid_of(CAR, both[0]))
    assert path is not None
    path.write_bytes(bytes(len(both[0])))
    folder = reopened(folder)
    assert folder.block(cid) == block
    assert folder.all_shards() == [cid_of(CAR, both[1])]


def test_what_a_failed_step_has_renamed_is_where_it_was(folder: DagFolder) -> None:
    spool_all(folder, PEER, LARGE)
    folder.commit()
    assert folder.accept_spool(PEER, LARGE)
    folder.rollback()
    assert folder.all_shards() == []
    assert folder.accept_spool(PEER, LARGE)
    folder.commit()
    folder.drop_shard(LARGE)
    folder.add_shard(SPACE, LARGE, LARGE_BYTES)
    folder.rollback()
    assert assert_sound(folder) == {LARGE}


def test_a_spool_that_lost_its_bytes_with_the_power_is_no_fault_of_its_peer(folder: DagFolder) -> None:
    spool_all(folder, PEER, LARGE)
    folder.commit()
    (path,) = (folder.folder / "spools").iterdir()
    path.write_bytes(bytes(len(LARGE_BYTES)))
    folder = reopened(folder)
    assert folder.is_spool_of_before(PEER, LARGE)
    assert folder.refuse_spool(PEER, LARGE, DagError("hash")) == (AckStatus.LATER, None)
    # It comes again, and now whoever sends something else is told so.
    folder.reserve(PEER, SPACE, LARGE, 4)
    folder.spool(PEER, LARGE, 0, b"lies")
    assert folder.refuse_spool(PEER, LARGE, DagError("hash"))[0] is AckStatus.REFUSED


def test_two_processes_never_give_a_spool_the_same_file(tmp_path: Path) -> None:
    first = DagFolder(tmp_path / "dags", create=True)
    second = DagFolder(tmp_path / "dags", DagFolderSettings())
    spool_all(first, PEER, LARGE)
    first.commit()
    first.drop_spool(PEER, LARGE)
    # The row is gone, and its file goes later, when another process has begun a spool.
    first.transaction().execute("COMMIT")
    spool_all(second, OTHER, LARGE)
    second.commit()
    first.transaction()
    first.commit()
    assert second.accept_spool(OTHER, LARGE)
    second.commit()
    assert assert_sound(first) == {LARGE}
    first.close()
    second.close()
