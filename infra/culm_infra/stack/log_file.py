"""Reading of the broker's own log while it is written and rolled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_POLL_S = 0.2
_TAIL_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, from at most its last MiB; empty if there is no log."""
    try:
        with path.open("rb") as file:
            return _last_lines(file, count)
    except FileNotFoundError:
        return []


def follow(path: Path, count: int, *, stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the last ``count`` lines, then each new line as it is written, until ``stopped``.

    A missing log is waited for; after a rolled log, its successor is followed.
    """
    while not stopped():
        try:
            file = path.open("rb")
        except FileNotFoundError:
            time.sleep(_POLL_S)
            continue
        with file:
            yield from _last_lines(file, count)
            count = _TAIL_BYTES  # all lines of a successor
            yield from _new_lines(file, path, stopped)


def _new_lines(file: BinaryIO, path: Path, stopped: Callable[[], bool]) -> Iterator[str]:
    rest = b""
    while not stopped():
        chunk = file.read(_CHUNK_BYTES)
        if chunk:
            # A line without an end is yielded in pieces once it is longer than the limit.
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (_text(line) for line in lines)
            if len(rest) > _TAIL_BYTES:
                yield _text(rest)
                rest = b""
        elif _replaced(file, path):
            return
        else:
            time.sleep(_POLL_S)


def _replaced(file: BinaryIO, path: Path) -> bool:
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _last_lines(file: BinaryIO, count: int) -> list[str]:
    """Return the last complete lines and leave the file's position right after them."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    data = file.read(_TAIL_BYTES)
    whole, _, rest = data.rpartition(b"\n")
    file.seek(-len(rest), os.SEEK_CUR)
    return [_text(line) for line in whole.split(b"\n")][-count:] if whole and count > 0 else []


def _text(line: bytes) -> str:
    """Make a line safe for a terminal: control characters are replaced."""
    text = line.decode(errors="replace").replace("\t", "    ")
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
