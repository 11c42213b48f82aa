"""Opening the folder of an edge: of these topics, or refused; damaged, and then made anew from the topics."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path

from culm_connectors.dag.edge.edge_folder import EdgeFolder, EdgeQuotas
from culm_connectors.dag.edge.tables import EDGE_FORMAT
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)


def open_edge_folder(
    folder: Path, origin: Origin, settings: DagFolderSettings, quotas: EdgeQuotas
) -> EdgeFolder:
    """The folder of an edge; what is damaged is dropped, to be read from Kafka.

    Raises `DagFolderError`: it belongs to other topics, or to a newer Culm.
    """
    try:
        return _open(folder, origin, settings, quotas)
    except (sqlite3.DatabaseError, DagFolderError, RecordError) as error:
        if not _is_damage(error):
            raise
        logger.error("%s is damaged (%s): it is dropped, and filled from the topics again", folder, error)
        shutil.rmtree(folder)
        return _open(folder, origin, settings, quotas)


def _is_damage(error: BaseException) -> bool:
    """Whether it is the database's own contents that are wrong: a full disk is not that."""
    cause = error.__cause__ if isinstance(error, DagFolderError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return False
    return isinstance(cause, sqlite3.DatabaseError | RecordError)


def _open(folder: Path, origin: Origin, settings: DagFolderSettings, quotas: EdgeQuotas) -> EdgeFolder:
    opened = EdgeFolder(folder, settings, quotas)
    try:
        found = opened.tables.origin()
        if found is None:
            opened.tables.make(origin)
        else:
            _check(folder, found, origin)
        opened.load_outbox()
        opened.commit()
    except BaseException:
        opened.close()
        raise
    return opened


def _check(folder: Path, found: tuple[int, Origin], origin: Origin) -> None:
    number, former = found
    if number != EDGE_FORMAT:
        raise DagFolderError(
            f"{folder} has the format {number} of edges, and this program reads {EDGE_FORMAT}"
        )
    if changed := former.differences(origin):
        raise DagFolderError(
            f"{folder} belongs to other topics: {'; '.join(changed)}",
            hint="give the connector another folder; what this one holds may be taken from it with "
            "`culm dag export`",
        )
