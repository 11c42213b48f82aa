"""What `tests/fixtures` holds: folders that an earlier program has written, and lists of names."""

from __future__ import annotations

import difflib
import io
import itertools
import json
import lzma
import tarfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
_MOST_BYTES = 40
_MOST_LINES = 100


def pack(folder: Path, name: str) -> None:
    """Keep a folder as the fixture `name`: the same bytes for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            head = archive.gettarinfo(path, str(path.relative_to(folder)))
            head.mtime, head.uid, head.gid, head.uname, head.gname = 0, 0, 0, "", ""
            if path.is_file():
                with path.open("rb") as file:
                    archive.addfile(head, file)
            else:
                archive.addfile(head)
    (FIXTURES / f"{name}.tar.xz").write_bytes(lzma.compress(packed.getvalue()))


def unpack(name: str, folder: Path) -> Path:
    """Write the folder of a fixture anew; returns it."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def keep(name: str, value: Any) -> None:
    """Keep what a fixture is to be read as."""
    (FIXTURES / f"{name}.json").write_text(_text(value))


def assert_as_kept(name: str, contents: Any) -> None:
    """What is read now is what was read when the fixture was made."""
    difference = _difference((FIXTURES / f"{name}.json").read_text(), _text(contents))
    assert not difference, f"{name} is read otherwise than it was:\n{difference}"


def assert_list(name: str, lines: list[str], *, accept: str = "lists") -> None:
    """A list is the one that was accepted last; fails with the difference, and with how to accept it."""
    difference = _difference((FIXTURES / f"{name}.txt").read_text(), "\n".join(lines))
    assert not difference, (
        f"{difference}\n\nOthers rely on this list. Where it is to change, say so in CHANGELOG.md "
        f"and accept it with `.venv/bin/python -m tests.support.freeze {accept}`"
    )


def keep_list(name: str, lines: list[str]) -> None:
    """Accept a list."""
    (FIXTURES / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def kept_list(name: str) -> list[str]:
    """A list as it was accepted."""
    return (FIXTURES / f"{name}.txt").read_text().splitlines()


def _difference(kept: str, current: str) -> str:
    lines = difflib.unified_diff(kept.splitlines(), current.splitlines(), "kept", "found", lineterm="", n=1)
    return "\n".join(itertools.islice(lines, _MOST_LINES))


def _text(value: Any) -> str:
    return json.dumps(_plain(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """As JSON gives it back: bytes as hex, long ones as their hash, tuples as lists, names as text."""
    if isinstance(value, bytes):
        long = len(value) > _MOST_BYTES
        return f"{len(value)} bytes {blake2b(value, digest_size=16).hexdigest()}" if long else value.hex()
    if isinstance(value, Mapping):
        return {_name(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _name(key: Any) -> str:
    if isinstance(key, tuple):
        return "/".join(map(_name, key))
    return key.hex() if isinstance(key, bytes) else str(key)
