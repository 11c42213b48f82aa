"""The lock of a folder's connections: one process at a time holds connections over a folder."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.bamboo_p2p.errors import FolderInUse
from culm_connectors.local_store.folder_lock import FolderLock


def lock_connections(folder: Path) -> FolderLock:
    """Lock a folder for the one process that holds connections over it. Raises `FolderInUse`."""
    return FolderLock(
        folder,
        lambda: FolderInUse(
            f"another process holds connections over {folder}",
            hint="publish, import and drop work beside it; end it to sync or serve",
        ),
        file_name="connections.lock",
    )
