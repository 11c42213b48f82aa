"""Opens a connector's index with doubt: what is not surely ours and whole is dropped, loudly.

The index is a cache of the `logs` topic, so dropping it costs time and no data. It is dropped when its
file is damaged or of an unknown format, when it was filled from another Kafka cluster, or when one of the
topics that its offsets count in was created anew since.

Closing the index leaves a mark with the digest of the file, which opening compares and removes. A file
without a mark was not closed (the process was killed, the machine went down): every page of it is walked, and
its records are compared with each other, before any of it is believed.
"""

from __future__ import annotations

import json
import logging
import os
import struct
from pathlib import Path
from typing import Any

from blake3 import blake3

from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.logs.index.environment import DATA_FILE, MAX_SIZE_BYTES
from culm_connectors.logs.index.errors import IndexDamaged, IndexForeign, IndexStoreError
from culm_connectors.logs.index.store import DEFAULT_MAP_SIZE_BYTES, LmdbLogStore
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)

_STATE_FILE = "state.json"
_WALKED_BYTES_A_SECOND = 25 * 1024**2
_ORIGIN = "origin"


def open_index(
    read_facts: ReadFacts,
    folder: Path,
    origin: Origin,
    *,
    map_size_bytes: int = DEFAULT_MAP_SIZE_BYTES,
    max_size_bytes: int = MAX_SIZE_BYTES,
) -> LmdbLogStore:
    """The index of this folder if it can be trusted, else an empty one in its place.

    Raises IndexBusy when another process has it, IndexFull when the disk is full, IndexUnusable.
    """

    def open_store(*, check: bool = False) -> LmdbLogStore:
        return LmdbLogStore(
            read_facts, folder, map_size_bytes=map_size_bytes, max_size_bytes=max_size_bytes, check=check
        )

    try:
        if _state(folder).get("condemned"):
            raise IndexDamaged("its last user found it to contradict the logs topic")
        doubt = in_doubt(folder)
        mark_open(folder)
        store = open_store(check=doubt)
        try:
            if doubt:
                _check_records(store)
            check_origin(store, origin)
        except BaseException:
            store.close()
            raise
    except (IndexDamaged, IndexForeign) as error:
        logger.warning(
            "the index is dropped and will be rebuilt from the logs topic: %s (%s)", error, error.code
        )
        drop(folder)
        store = open_store()
        store.set_meta(_ORIGIN, origin.encode())
    return store


def _check_records(store: LmdbLogStore) -> None:
    try:
        contradictory = store.contradictions()
        store.offsets()
    except (ValueError, struct.error) as error:
        raise IndexDamaged(f"{store.folder}: a record is none of ours: {error}") from error
    if contradictory:
        raise IndexDamaged(f"{store.folder}: the records of {len(contradictory)} logs contradict each other")


def check_origin(store: LmdbLogStore, origin: Origin) -> None:
    """Raise IndexForeign where an index was filled from another Kafka; an empty one is of this one now."""
    kept = store.meta(_ORIGIN)
    if kept is None and store.counts() == (0, 0):
        store.set_meta(_ORIGIN, origin.encode())
    elif kept != origin.encode():
        raise IndexForeign(
            f"{store.folder} was filled from {kept.decode(errors='replace') if kept else 'nowhere known'}, "
            f"Kafka is now {origin.encode().decode()}"
        )


def in_doubt(folder: Path) -> bool:
    """Whether the file must be looked through before it is trusted: it was not closed.

    Raises IndexDamaged where it was closed and is not what it was then.
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
        raise IndexDamaged(f"{data} was changed since it was closed")
    return False


def mark_open(folder: Path) -> None:
    """From now on the file is not what it was when it was closed."""
    mark = folder / _STATE_FILE
    if _state(folder).get("condemned") or not mark.exists():
        return
    mark.unlink(missing_ok=True)
    # A mark that came back after a power failure would be of another state of the file.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_index(store: LmdbLogStore) -> None:
    """Flush, close and remember that this was done, and with what in the file."""
    folder = store.folder

    def mark() -> None:
        if not _state(folder).get("condemned"):
            (folder / _STATE_FILE).write_text(json.dumps({"closed_with": _digest(folder / DATA_FILE)}))

    try:
        store.close(mark)
    except (IndexStoreError, OSError) as error:
        # As after a crash: without a whole mark the next opening looks through all of it.
        logger.warning("%s is not marked as closed: %s", folder, error)


def _digest(data: Path) -> str:
    """BLAKE3 of the file: half a gigabyte a second and more."""
    return blake3(max_threads=blake3.AUTO).update_mmap(data).hexdigest()


def condemn(folder: Path) -> None:
    """Have the next opening drop the index: this process met damage in it, or what `logs` contradicts."""
    try:
        (folder / _STATE_FILE).write_text(json.dumps({"condemned": True}))
    except OSError as error:
        logger.warning("%s cannot be marked for the next start, so it is dropped now: %s", folder, error)
        drop(folder)


def drop(folder: Path) -> None:
    """Remove the index's files, and nothing else in the folder."""
    for name in (DATA_FILE, "lock.mdb", _STATE_FILE):
        (folder / name).unlink(missing_ok=True)


def _state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / _STATE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
