"""Files that commands write appear whole, and never at the expense of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.cli.logs.output import writer
from culm_infra.cli.new_paths import new_path
from culm_infra.cli.root import run
from culm_infra.errors import InfraError


def test_an_unfinished_export_of_logs_touches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "logs.jsonl.partial").symlink_to(tmp_path / "outside")
    (tmp_path / "logs.jsonl").write_text("old")
    with writer(tmp_path / "logs.jsonl"):
        assert (tmp_path / "logs.jsonl").read_text() == "old"
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "logs.jsonl.partial").is_symlink()
    assert (tmp_path / "logs.jsonl").read_text() == ""


def test_an_export_of_a_log_to_a_file_that_exists_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bamboo", "publish", "a", "--dir", str(tmp_path / "mine")]) == 0
    (tmp_path / "stick").write_text("old")
    assert run(["bamboo", "export", str(tmp_path / "stick"), "--dir", str(tmp_path / "mine")]) == 1
    told = capsys.readouterr().err
    assert "exists already" in told and "Errno" not in told
    assert (tmp_path / "stick").read_text() == "old"


def test_what_fails_leaves_nothing_and_what_came_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_path(tmp_path / "new") as path:
        path.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InfraError), new_path(tmp_path / "new") as path:
        path.write_text("late")
        (tmp_path / "new").write_text("first")
    assert (tmp_path / "new").read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["new"]


def test_a_directory_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with new_path(tmp_path / "new") as path:
        path.mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
