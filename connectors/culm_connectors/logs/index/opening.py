"""Opens a connector's index, or drops it with a log line if it may be foreign or damaged.

The index is a cache of the `logs` topic, so dropping it costs time and no data. An index that was not closed
is trusted only if its records agree with each other. `culm_connectors.local_store.opening` does this for
every local store.
"""

from __future__ import annotations

import struct
from pathlib import Path

from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.local_store.opening import close_marked, condemn, mark_open, open_or_drop
from culm_connectors.local_store.sizes import DEFAULT_MAP_SIZE_BYTES, MAX_SIZE_BYTES
from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.logs.index.errors import INDEX_ERRORS, IndexDamaged, IndexForeign
from culm_connectors.logs.index.store import LmdbLogStore
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

__all__ = ["check_origin", "close_index", "condemn", "mark_open", "open_index"]

_ORIGIN = "origin"


def open_index(
    read_facts: ReadFacts,
    folder: Path,
    origin: Origin,
    *,
    map_size_bytes: int = DEFAULT_MAP_SIZE_BYTES,
    max_size_bytes: int = MAX_SIZE_BYTES,
) -> LmdbLogStore:
    """Open the index of this folder if it can be trusted, else an empty index in its place.

    Raises `IndexBusy` if another process uses it, `IndexFull` if the disk is full, `IndexUnusable`.
    """

    def open_store(lock: FolderLock, doubt: bool) -> LmdbLogStore:
        store = LmdbLogStore(
            read_facts,
            folder,
            map_size_bytes=map_size_bytes,
            max_size_bytes=max_size_bytes,
            check=doubt,
            lock=lock,
        )
        try:
            if doubt:
                _check_records(store)
            check_origin(store, origin)
        except BaseException:
            store.close()
            raise
        return store

    what = "the index is dropped and will be rebuilt from the logs topic"
    return open_or_drop(folder, open_store, what=what, errors=INDEX_ERRORS)


def _check_records(store: LmdbLogStore) -> None:
    try:
        contradictory = store.contradictions()
        store.offsets()
    except (ValueError, struct.error) as error:
        raise IndexDamaged(f"{store.folder}: malformed record: {error}") from error
    if contradictory:
        raise IndexDamaged(f"{store.folder}: the records of {len(contradictory)} logs contradict each other")


def check_origin(store: LmdbLogStore, origin: Origin) -> None:
    """Raise `IndexForeign` if an index was filled from another Kafka. An empty index adopts this origin.

    Topics that only the index names, as earlier versions did, are ignored: its offsets do not belong to them.
    """
    kept = store.meta(_ORIGIN)
    if kept is None and store.counts() == (0, 0):
        store.set_meta(_ORIGIN, origin.encode())
    elif kept is None or not _is_of(kept, origin):
        raise IndexForeign(
            f"{store.folder} was filled from {kept.decode(errors='replace') if kept else 'nowhere known'}, "
            f"Kafka is now {origin.encode().decode()}"
        )


def _is_of(kept: bytes, origin: Origin) -> bool:
    try:
        return not origin.differences(Origin.decode(kept))
    except RecordError:
        return False


def close_index(store: LmdbLogStore) -> None:
    """Flush and close the store, and record that it was closed and with which file contents."""
    close_marked(store)
