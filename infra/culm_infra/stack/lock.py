"""A lock between processes: a file that the operating system unlocks when its holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from culm_infra.stack.errors import LockTimeoutError

_POLL_S = 0.05


@contextmanager
def file_lock(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of ``path``, which is created if it is missing.

    Raises `LockTimeoutError` if another process or thread has held it for ``timeout_s`` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise LockTimeoutError(
                    f"{path} has been locked by another process for {timeout_s:g} s",
                    hint="another culm command is at work on the same directory: wait for it, or end it",
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
