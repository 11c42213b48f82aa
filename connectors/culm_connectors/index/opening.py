"""Opens a connector's index with doubt: what is not surely ours and whole is dropped, loudly.

The index is a cache of the `logs` topic, so dropping it costs time and no data. It is dropped when its
file is damaged or of another format, when it was filled from another Kafka cluster, or when one of the
topics that its offsets count in was created anew since.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from culm_connectors.index.environment import DATA_FILE
from culm_connectors.index.errors import IndexDamaged, IndexForeign
from culm_connectors.index.store import DEFAULT_MAP_SIZE_BYTES, LmdbLogStore
from culm_topics.origin import Origin

logger = logging.getLogger(__name__)

_STATE_FILE = "state.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Walking this much takes a second or two: cheap enough to do at every start.
_ALWAYS_CHECKED_BYTES = 64 * 1024**2
_ORIGIN = "origin"


def open_index(folder: Path, origin: Origin, *, map_size_bytes: int = DEFAULT_MAP_SIZE_BYTES) -> LmdbLogStore:
    """The index of this folder if it can be trusted, else an empty one in its place.

    Raises IndexBusy when another process has it.
    """
    try:
        if _state(folder).get("condemned"):
            raise IndexDamaged("its last user found it to contradict the logs topic")
        store = LmdbLogStore(folder, map_size_bytes=map_size_bytes, check=in_doubt(folder))
        try:
            check_origin(store, origin)
        except BaseException:
            store.close()
            raise
    except (IndexDamaged, IndexForeign) as error:
        logger.warning(
            "the index is dropped and will be rebuilt from the logs topic: %s (%s)", error, error.code
        )
        drop(folder)
        store = LmdbLogStore(folder, map_size_bytes=map_size_bytes)
        store.set_meta(_ORIGIN, origin.encode())
    mark_open(folder)
    return store


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
    """Whether the file must be walked before it is trusted.

    A killed process leaves the file whole (the kernel has it), a machine that went down may not: a file
    that was neither closed nor opened since this boot is walked, and so is every small one.
    """
    data = folder / DATA_FILE
    if not data.exists():
        return False
    if data.stat().st_size <= _ALWAYS_CHECKED_BYTES:
        return True
    state = _state(folder)
    return not (state.get("closed") is True or state.get("boot_id") == _boot_id())


def mark_open(folder: Path) -> None:
    """Remember that the file is in use in this boot of the machine."""
    _write_state(folder, closed=False)


def close_index(store: LmdbLogStore) -> None:
    """Flush, close and remember that this was done."""
    folder = store.folder
    store.close()
    if not _state(folder).get("condemned"):
        _write_state(folder, closed=True)


def condemn(folder: Path) -> None:
    """Have the next opening drop the index: this process met damage in it, or what `logs` contradicts."""
    (folder / _STATE_FILE).write_text(json.dumps({"condemned": True}))


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


def _write_state(folder: Path, *, closed: bool) -> None:
    (folder / _STATE_FILE).write_text(json.dumps({"closed": closed, "boot_id": _boot_id()}))


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"
