"""A local store that is full or damaged ends a command with a sentence, a code and the status 1."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from culm_connectors.dag.store.tables import DATABASE_FILE as DAG_FILE
from culm_connectors.local_store.lmdb_file import DATA_FILE, LmdbFile
from culm_infra.cli.root import _failure_in, run
from tests.support.process.full_disk import PAGE, Disk, lose_pages, made_disk

SCHEMA = "venue_0020" + "ab" * 32
COMMANDS = {
    "bamboo": ["bamboo", "publish", "--dir", "DIR", "hello"],
    "dag": ["dag", "put", "--dir", "DIR", "FILE"],
    "p2panda": ["p2panda", "peer", "publish", "create", "name=x", "--schema", SCHEMA, "--dir", "DIR"],
}
FILES = {"bamboo": "logs.sqlite", "dag": DAG_FILE, "p2panda": f"store/{DATA_FILE}"}


@pytest.fixture(params=list(COMMANDS))
def which(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def command(tmp_path: Path, which: str) -> list[str]:
    (tmp_path / "file").write_bytes(b"content")
    paths = {"DIR": str(tmp_path / "dir"), "FILE": str(tmp_path / "file")}
    if which == "p2panda":
        assert run(["p2panda", "peer", "init", "--dir", paths["DIR"]]) == 0
    return [paths.get(part, part) for part in COMMANDS[which]]


def test_a_full_disk_is_a_sentence(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk: Disk = made_disk(monkeypatch)
    disk.open_nothing(monkeypatch)
    disk.has_space = False
    assert run(command) == 1
    stderr = " ".join(capsys.readouterr().err.split())
    assert "error: " in stderr and ("full" in stderr or "No space left" in stderr), stderr


def test_a_damaged_file_is_a_sentence(
    tmp_path: Path, which: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 0
    path = tmp_path / "dir" / FILES[which]
    if which == "p2panda":
        lose_pages(path)
    else:
        path.write_bytes(path.read_bytes()[: 2 * PAGE] + b"\xa5" * (path.stat().st_size - 2 * PAGE))
    assert run(command) == 1
    stderr = " ".join(capsys.readouterr().err.split())
    assert "error: " in stderr and any(phrase in stderr for phrase in ("malformed", "damaged", "index.")), (
        stderr
    )


def test_what_a_store_meets_in_a_task_has_its_code() -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    torn = sqlite3.DatabaseError("database disk image is malformed")
    torn.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    for error, code in (
        (ExceptionGroup("tasks", [ValueError(), ExceptionGroup("more", [full])]), "local_store.full"),
        (torn, "local_store.damaged"),
        (OSError(errno.ENOSPC, "No space left on device", "inputs.0"), "local_store.full"),
    ):
        assert getattr(_failure_in(error), "code", None) == code
    assert "inputs.0" in str(_failure_in(OSError(errno.ENOSPC, "No space left on device", "inputs.0")))
    missing = FileNotFoundError(errno.ENOENT, "not there", "x")
    assert _failure_in(ExceptionGroup("tasks", [missing])) is missing
    assert _failure_in(ExceptionGroup("tasks", [ValueError("a defect")])) is None


def test_lmdb_maps_no_file_that_has_no_space_yet(tmp_path: Path) -> None:
    file = LmdbFile(tmp_path, [b"one"], map_size_bytes=1 << 20, max_size_bytes=1 << 20, full_hint="")
    lock = (tmp_path / "lock.mdb").stat()
    assert lock.st_blocks * 512 >= lock.st_size, "its first touch may kill the process otherwise"
    file.close()
