"""What was committed reaches the database beside the commits, and nobody takes that for a change."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.store.checkpoints import Checkpoints

TABLE = "CREATE TABLE numbers (number INTEGER)"


def rows_without_log(path: Path) -> int:
    """How many rows the database has without its write-ahead log."""
    alone = path.with_suffix(".alone")
    shutil.copyfile(path, alone)
    database = sqlite3.connect(alone)
    try:
        return int(database.execute("SELECT count(*) FROM numbers").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not even the table has come
    finally:
        database.close()


@pytest.mark.parametrize(("commits", "rows"), [(31, 0), (32, 32)])
def test_every_32nd_commit_is_followed_by_a_checkpoint(tmp_path: Path, commits: int, rows: int) -> None:
    path = tmp_path / "numbers.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(TABLE)
    checkpoints = Checkpoints(database, path)
    version = database.execute("PRAGMA data_version").fetchone()
    for number in range(commits):
        database.execute("INSERT INTO numbers VALUES (?)", (number,))
        checkpoints.count_commit()
    checkpoints.close()
    assert rows_without_log(path) == rows
    assert database.execute("PRAGMA data_version").fetchone() == version
    database.close()
