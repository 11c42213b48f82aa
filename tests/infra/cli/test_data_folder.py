"""Data folders: in the user's data directory unless ``--dir`` names another one; the first use says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.cli.kit.data_folder import data_folder, make_data_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "culm"


def test_the_default_is_below_the_users_data_directory(home: Path) -> None:
    assert data_folder("thing", None) == home / "thing"
    assert not home.exists()


def test_another_folder_can_be_chosen(home: Path, tmp_path: Path) -> None:
    assert data_folder("thing", tmp_path / "mine") == tmp_path / "mine"
    assert make_data_folder("thing", tmp_path / "mine") == tmp_path / "mine"
    assert not home.exists()


def test_the_first_use_says_where_and_the_second_is_silent(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_data_folder("thing", None)
    printed = capsys.readouterr()
    assert f"{home / 'thing'} (another one: --dir)" in printed.err
    assert not printed.out
    assert make_data_folder("thing", None) == folder
    assert not capsys.readouterr().err


def test_only_its_user_can_enter_a_new_folder(home: Path) -> None:
    assert make_data_folder("thing", None).stat().st_mode & 0o077 == 0
