"""What the shell completes for `culm chotki`, and which modes its edges take."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.cli.chotki import completion
from culm_infra.cli.root import run
from culm_topics.kafka.clients import KafkaSettings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(completion, "_folder", lambda: tmp_path / "names")
    return tmp_path / "names"


def test_names_of_every_deployment_that_was_read_complete(folder: Path) -> None:
    assert completion.complete_name("") == []
    completion.remember_names(KafkaSettings(bootstrap="one:1"), ["ann", "person"])
    completion.remember_names(KafkaSettings(bootstrap="two:1"), ["anna"])
    assert completion.complete_name("an") == ["ann", "anna"]
    completion.remember_names(KafkaSettings(bootstrap="two:1"), ["ben"])
    assert completion.complete_name("") == ["ann", "ben", "person"]


def test_a_file_that_is_none_or_cannot_be_written_disturbs_nobody(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("no folder")
    completion.remember_names(KafkaSettings(bootstrap="one:1"), ["ann"])
    assert completion.complete_name("a") == []
    folder.unlink()
    folder.mkdir()
    (folder / "broken.json").write_text("{")
    assert completion.complete_name("a") == []


def test_addresses_modes_and_ways_complete() -> None:
    assert completion.complete_url("t") == ["tcp://", "tls://"]
    assert completion.complete_mode("rw") == ["rw", "rwl"]
    assert completion.complete_compat("") == ["default", "go"]


@pytest.mark.parametrize("mode", ["8", "x", "lr", "-1"])
def test_a_mode_that_is_none_is_an_error_of_usage(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chotki", "listen", "tcp://127.0.0.1:0", f"--mode={mode}", "--bootstrap", "nowhere:1"]) == 2
    assert "rwl" in capsys.readouterr().err
