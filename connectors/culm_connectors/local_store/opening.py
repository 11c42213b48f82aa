"""Opens a local store only if it can be trusted; otherwise the store is dropped with a warning in the log.

A local store is a cache of topics, so dropping it costs time and no data. It is dropped when its file is
damaged or of an unknown format, and when it was filled from another Kafka cluster or from a topic that was
created again since.

Closing a store leaves a mark with the digest of the file, which opening compares and removes. A file without
a mark was not closed (the process was killed, the machine went down): every page is walked, and the owner
checks the records, before the file is trusted.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from blake3 import blake3

from culm_connectors.local_store.errors import (
    STORE_ERRORS,
    ErrorFamily,
    LocalStoreError,
    StoreDamaged,
    StoreForeign,
)
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.local_store.lmdb_file import DATA_FILE, lock_store

logger = logging.getLogger(__name__)

_STATE_FILE = "state.json"
_WALKED_BYTES_A_SECOND = 25 * 1024**2


Store = TypeVar("Store")


class Closable(Protocol):
    """An `LmdbFile`, or a store over one."""

    @property
    def folder(self) -> Path:
        """The folder that holds the file."""
        ...

    def close(self, then: Callable[[], None] = ...) -> None:
        """Flush and close; `then` is called unless a flush has failed."""
        ...


def open_or_drop(
    folder: Path,
    open_store: Callable[[FolderLock, bool], Store],
    *,
    what: str,
    errors: ErrorFamily = STORE_ERRORS,
) -> Store:
    """Return the store of this folder if it can be trusted, else an empty store in its place.

    The folder is locked before anything in it is read or removed: another process may be using it.
    `open_store` receives that lock and whether the file is in doubt; it raises `StoreDamaged` or
    `StoreForeign`, with the file closed, if the contents cannot be trusted. `what` is the log's description
    of the dropped store and of its source. Raises `errors.busy`, and the errors of opening an empty store.
    """
    lock = lock_store(folder, errors)
    try:
        if _state(folder).get("condemned"):
            raise errors.damaged("its last user met damage in it, or found it to contradict its topic")
        doubt = in_doubt(folder, errors)
        mark_open(folder)
        return open_store(lock, doubt)
    except (StoreDamaged, StoreForeign) as error:
        # Closing a store that cannot be trusted has released it.
        lock.take()
        logger.warning("%s: %s (%s)", what, error, error.code)
        drop(folder)
        return open_store(lock, False)
    except BaseException:
        lock.release()
        raise


def in_doubt(folder: Path, errors: ErrorFamily = STORE_ERRORS) -> bool:
    """Return whether the file must be checked before it is trusted because it was not closed.

    Raises `errors.damaged` if it was closed and has changed since.
    """
    data = folder / DATA_FILE
    if not data.exists() or not data.stat().st_size:
        return False
    closed_with = _state(folder).get("closed_with")
    if closed_with is None:
        size = data.stat().st_size
        logger.info(
            "%s was not closed: all of it is looked through, some %d s", data, size // _WALKED_BYTES_A_SECOND
        )
        return True
    if closed_with != _digest(data):
        raise errors.damaged(f"{data} was changed since it was closed")
    return False


def mark_open(folder: Path) -> None:
    """Remove the mark of a closed store, since the file may change from now on."""
    mark = folder / _STATE_FILE
    if _state(folder).get("condemned") or not mark.exists():
        return
    mark.unlink(missing_ok=True)
    # A mark that came back after a power failure would describe another state of the file.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_marked(store: Closable) -> None:
    """Flush and close the store, and write the mark with the digest of the file."""
    folder = store.folder

    def mark() -> None:
        if not _state(folder).get("condemned"):
            (folder / _STATE_FILE).write_text(json.dumps({"closed_with": _digest(folder / DATA_FILE)}))

    try:
        store.close(mark)
    except (LocalStoreError, OSError) as error:
        # As after a crash: without a complete mark the next opening checks the whole file.
        logger.warning("%s is not marked as closed: %s", folder, error)


def _digest(data: Path) -> str:
    """Return the BLAKE3 of the file (half a gigabyte per second and more)."""
    return blake3(max_threads=blake3.AUTO).update_mmap(data).hexdigest()


def condemn(folder: Path) -> None:
    """Make the next opening drop the store because it is damaged or contradicts its topic."""
    try:
        (folder / _STATE_FILE).write_text(json.dumps({"condemned": True}))
    except OSError as error:
        logger.warning("%s cannot be marked for the next start, so it is dropped now: %s", folder, error)
        drop(folder)


def drop(folder: Path) -> None:
    """Remove the store's files, and nothing else in the folder."""
    for name in (DATA_FILE, "lock.mdb", _STATE_FILE):
        (folder / name).unlink(missing_ok=True)


def _state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / _STATE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
