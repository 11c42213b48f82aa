"""The cache of jars: fetched once, checked against the table's SHA-256 sums, then used without a network.

A jar with a wrong sum is never used and never replaced automatically: the error names the file. A verified
sum is remembered with the file's size and modification time, so that the next check is quick.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from platformdirs import PlatformDirs

from culm_infra.stack import ivy
from culm_infra.stack.coordinates import JAR_SETS, Coordinate, JarSet, jar_set
from culm_infra.stack.errors import JarError, JarSumError
from culm_infra.stack.java import Java, find_java
from culm_infra.stack.lock import file_lock

JarState = Literal["present", "missing", "wrong sum"]
# Arguments: jars present, jars in total, name of the jar that has just arrived.
Progress = Callable[[int, int, str], None]

_FETCH_TIMEOUT_S = 600.0
_ATTEMPTS = 3
_CHECKED = "checked.json"


def cache_directory() -> Path:
    """Return the folder of the jars: CULM_JARS_DIR, else below the user's cache directory."""
    folder = os.environ.get("CULM_JARS_DIR")
    return Path(folder) if folder else Path(PlatformDirs("culm", appauthor=False).user_cache_dir) / "jars"


def ensure(
    name: JarSet,
    *,
    directory: Path | None = None,
    java: Java | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the paths of a set's jars in class path order; missing jars are fetched first.

    Safe to call from several processes at once. Raises `JarSumError`, `JarError`, `JavaNotFoundError`.
    """
    folder = directory or cache_directory()
    coordinates = jar_set(name)
    paths = [folder / coordinate.file_name for coordinate in coordinates]
    if not _missing(folder, coordinates):
        return paths
    # One fetch at a time: a later process finds everything present.
    with file_lock(folder / "fetch.lock", timeout_s=_ATTEMPTS * _FETCH_TIMEOUT_S):
        _discard_leftovers(folder)
        for attempt in range(_ATTEMPTS):
            missing = _missing(folder, coordinates)
            if not missing:
                break
            try:
                _fetch(missing, folder, java or find_java(), len(coordinates), progress)
            except JarSumError:
                raise
            except JarError:
                # A part may have arrived; another attempt requests only the rest.
                if attempt == _ATTEMPTS - 1 or len(_missing(folder, coordinates)) == len(missing):
                    raise
    return paths


def status(name: JarSet, *, directory: Path | None = None) -> list[tuple[Coordinate, JarState]]:
    """Return every jar of a set with its state in the cache; nothing is fetched."""
    folder = directory or cache_directory()
    remembered = _remembered(folder)
    return [(coordinate, _state(folder, coordinate, remembered)) for coordinate in jar_set(name)]


def _missing(folder: Path, coordinates: Sequence[Coordinate]) -> list[Coordinate]:
    """Return the missing jars, after verifying the sums of the others. Raises `JarSumError`."""
    remembered = _remembered(folder)
    before = dict(remembered)
    missing = []
    for coordinate in coordinates:
        state = _state(folder, coordinate, remembered)
        if state == "wrong sum":
            raise _wrong_sum(folder / coordinate.file_name)
        if state == "missing":
            missing.append(coordinate)
    if remembered != before:
        _remember(folder, remembered)
    return missing


def _fetch(
    missing: Sequence[Coordinate], folder: Path, java: Java, total: int, progress: Progress | None
) -> None:
    present = total - len(missing)

    def on_fetched(name: str) -> None:
        nonlocal present
        present += 1
        if progress is not None:
            progress(min(present, total), total, name)

    # Beside the cache's files, so that a rename moves a complete jar into place.
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    try:
        try:
            ivy.fetch(missing, java=java, work=work, timeout_s=_FETCH_TIMEOUT_S, on_fetched=on_fetched)
        finally:
            for coordinate in missing:
                jar = work / "jars" / coordinate.file_name
                if not jar.is_file():
                    continue
                if _sha256(jar) != coordinate.sha256:
                    raise _wrong_sum(jar, came=True)
                jar.replace(folder / coordinate.file_name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _discard_leftovers(folder: Path) -> None:
    # Left by fetches that were killed: the lock is held here, so no process uses them.
    for leftover in folder.glob(".fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)


Remembered = dict[str, list[int | str]]


def _state(folder: Path, coordinate: Coordinate, remembered: Remembered) -> JarState:
    """Return a jar's state; a newly verified sum is added to ``remembered``."""
    path = folder / coordinate.file_name
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "missing"
    mark: list[int | str] = [stat.st_size, stat.st_mtime_ns, coordinate.sha256]
    if remembered.get(coordinate.file_name) == mark:
        return "present"
    if _sha256(path) != coordinate.sha256:
        return "wrong sum"
    remembered[coordinate.file_name] = mark
    return "present"


def _wrong_sum(path: Path, *, came: bool = False) -> JarSumError:
    if came:
        return JarSumError(
            f"{path.name} as the repository sends it is not the jar of the table (its SHA-256 differs)",
            hint="the repository or something between is not to be trusted: check CULM_MAVEN_REPOSITORY",
        )
    return JarSumError(
        f"{path} is not the jar of the table (its SHA-256 differs)",
        hint="find out who changed it; then delete it and run `culm jars fetch`",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remembered(folder: Path) -> Remembered:
    try:
        rows = json.loads((folder / _CHECKED).read_text())
    except (OSError, ValueError):
        return {}  # every sum is then computed again
    return rows if isinstance(rows, dict) else {}


def _remember(folder: Path, remembered: Remembered) -> None:
    fresh = folder / f".{_CHECKED}.{os.getpid()}"
    try:
        fresh.write_text(json.dumps(remembered, indent=1, sort_keys=True))
        fresh.replace(folder / _CHECKED)
    except OSError:
        fresh.unlink(missing_ok=True)  # a read-only cache is verified again each time


__all__ = ["JAR_SETS", "JarSet", "JarState", "Progress", "cache_directory", "ensure", "status"]
