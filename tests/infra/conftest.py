"""Fixtures of the tests of settings, the command line and the demos."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings come from an empty file, and not from the environment of the test run."""
    empty = tmp_path / "culm.toml"
    empty.write_text("")
    monkeypatch.setenv("CULM_CONFIG", str(empty))
    for name in ("CULM_BOOTSTRAP", "CULM_JOB__SHARDS", "CULM_KAFKA"):
        monkeypatch.delenv(name, raising=False)
