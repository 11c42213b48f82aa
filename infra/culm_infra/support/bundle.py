"""The archive: every part is a text of bounded size without secrets; missing parts are listed."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_infra.support.redaction import Redaction
from culm_models.errors import CulmError

FOLDER: Final = "culm-support"
MISSING: Final = "missing.txt"
MAX_PART_CHARACTERS: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the archive; ``text`` computes its content, and may raise the reason why there is none."""

    name: str
    text: Callable[[], str]


class PartMissing(Exception):
    """A part cannot be had; the text is the reason."""


def missing(name: str, reason: str) -> Part:
    """Return a part that cannot be had."""

    def text() -> str:
        raise PartMissing(reason)

    return Part(name, text)


@dataclass(frozen=True, slots=True)
class BundleContents:
    """Names of the files in an archive, and of missing parts."""

    files: tuple[str, ...]
    missing: tuple[str, ...]


def write(path: Path, parts: Iterable[Part], redaction: Redaction) -> BundleContents:
    """Write an archive (tar, gzip) of these parts to a new file."""
    files: list[str] = []
    reasons: dict[str, str] = {}
    with tarfile.open(path, "x:gz") as archive:
        for part in parts:
            try:
                text = part.text()
            except Exception as error:
                own = isinstance(error, PartMissing | CulmError)
                reasons[part.name] = str(error) if own else f"{type(error).__name__}: {error}"
                continue
            # Before the cut, which could leave half of a secret that is not recognised.
            _add(archive, part.name, _bounded(redaction.apply(text)))
            files.append(part.name)
        lines = [f"{name}: {' '.join(reason.split())}\n" for name, reason in reasons.items()]
        _add(archive, MISSING, _bounded(redaction.apply("".join(lines) or "nothing is missing\n")))
    path.chmod(0o600)
    return BundleContents((*files, MISSING), tuple(reasons))


def _bounded(text: str) -> str:
    """Keep the end of a text that is too long: in a log, that is the latest."""
    if len(text) <= MAX_PART_CHARACTERS:
        return text
    left_out = len(text) - MAX_PART_CHARACTERS
    return f"(the first {left_out} characters are left out)\n{text[left_out:]}"


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode(errors="replace")
    member = tarfile.TarInfo(f"{FOLDER}/{name}")
    member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
    archive.addfile(member, io.BytesIO(data))
