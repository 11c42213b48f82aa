"""Opening the folder of an edge: of these topics, or refused; damaged, and then made anew from the topics."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.bamboo_p2p.edge.tables import EdgeTables
from culm_connectors.bamboo_p2p.errors import FolderError
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.local_store.refilled_folder import begin_from, open_or_refill
from culm_models.bamboo.hashes import HashFlavour
from culm_topics.kafka.origin import Origin


def open_edge_folder(
    folder: Path,
    flavour: HashFlavour,
    origin: Origin,
    *,
    max_spool_bytes: int,
    max_spool_bytes_per_peer: int | None = None,
    max_spool_bytes_per_address: int | None = None,
) -> tuple[FolderStore, EdgeTables]:
    """The logs of an edge and what is kept beside them; what is damaged is dropped, to be read from Kafka.

    Raises `FolderError`: it belongs to other topics, or to a newer Culm.
    """

    def open_once() -> tuple[FolderStore, EdgeTables]:
        store = FolderStore(
            folder,
            flavour,
            max_spool_bytes=max_spool_bytes,
            max_spool_bytes_per_peer=max_spool_bytes_per_peer,
            max_spool_bytes_per_address=max_spool_bytes_per_address,
        )
        try:
            tables = EdgeTables(store.transaction)
            begin_from(folder, tables.topics, origin, FolderError, export="culm bamboo export")
            store.commit()
        except BaseException:
            store.close()
            raise
        return store, tables

    return open_or_refill(folder, open_once, FolderError)
