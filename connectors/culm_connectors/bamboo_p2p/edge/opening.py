"""Opening the folder of an edge: of these topics, or refused; damaged, and then made anew from the topics."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path

from culm_connectors.bamboo_p2p.edge.tables import EDGE_FORMAT, EdgeTables
from culm_connectors.bamboo_p2p.errors import FolderError
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.hashes import HashFlavour
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)


def open_edge_folder(
    folder: Path, flavour: HashFlavour, origin: Origin, *, spool_bytes: int
) -> tuple[FolderStore, EdgeTables]:
    """The logs of an edge and what is kept beside them; what is damaged is dropped, to be read from Kafka.

    Raises `FolderError`: it belongs to other topics, or to a newer Culm.
    """
    try:
        return _open(folder, flavour, origin, spool_bytes)
    except (sqlite3.DatabaseError, FolderError, RecordError) as error:
        if not _is_damage(error):
            raise
        logger.error("%s is damaged (%s): it is dropped, and filled from the topics again", folder, error)
        shutil.rmtree(folder)
        return _open(folder, flavour, origin, spool_bytes)


def _is_damage(error: BaseException) -> bool:
    """Whether it is the database's own contents that are wrong: a full disk is not that."""
    cause = error.__cause__ if isinstance(error, FolderError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return False
    return isinstance(cause, sqlite3.DatabaseError | RecordError)


def _open(
    folder: Path, flavour: HashFlavour, origin: Origin, spool_bytes: int
) -> tuple[FolderStore, EdgeTables]:
    store = FolderStore(folder, flavour, spool_bytes=spool_bytes)
    try:
        tables = EdgeTables(store.transaction)
        found = tables.origin()
        if found is None:
            tables.make(origin)
        else:
            _check(folder, found, origin)
        store.commit()
    except BaseException:
        store.close()
        raise
    return store, tables


def _check(folder: Path, found: tuple[int, Origin], origin: Origin) -> None:
    number, former = found
    if number != EDGE_FORMAT:
        raise FolderError(f"{folder} has the format {number} of edges, and this program reads {EDGE_FORMAT}")
    if changed := former.differences(origin):
        raise FolderError(
            f"{folder} belongs to other topics: {'; '.join(changed)}",
            hint="give the connector another folder; what this one holds may be taken from it with "
            "`culm bamboo export`",
        )
