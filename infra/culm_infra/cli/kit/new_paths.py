"""New files and directories: written in a private place, and renamed once they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_infra.errors import InfraError

_CONTENT: Final = "content"


@contextmanager
def new_path(target: Path, *, replaces_file: bool = False) -> Iterator[Path]:
    """Yield a path for a new file or directory, which is renamed to `target` at the end of the block.

    The path is in a new directory beside `target` that only this user can enter, so it never meets a path
    that another program made. If the block raises, nothing is left. Raises `InfraError` if `target` exists;
    with `replaces_file` a regular file is replaced, and no symbolic link is followed to one.
    """
    target = target.absolute()
    _check_target(target, replaces_file=replaces_file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=target.parent, prefix=".culm-")
    except OSError as error:
        raise InfraError(f"nothing can be written into {target.parent}: {error.strerror}") from error
    with folder as private:
        path = Path(private) / _CONTENT
        yield path
        _check_target(target, replaces_file=replaces_file)
        path.rename(target)


def _check_target(target: Path, *, replaces_file: bool) -> None:
    if not os.path.lexists(target):
        return
    if replaces_file and target.is_file() and not target.is_symlink():
        return
    raise InfraError(f"{target} exists already", hint="name a path that does not exist yet")
