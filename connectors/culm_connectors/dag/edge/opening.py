"""Opening the folder of an edge: of these topics, or refused; damaged, and then made anew from the topics."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.dag.edge.edge_folder import EdgeFolder, EdgeQuotas
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.local_store.refilled_folder import begin_from, open_or_refill
from culm_topics.kafka.origin import Origin


def open_edge_folder(
    folder: Path, origin: Origin, settings: DagFolderSettings, quotas: EdgeQuotas
) -> EdgeFolder:
    """The folder of an edge; what is damaged is dropped, to be read from Kafka.

    Raises `DagFolderError`: it belongs to other topics, or to a newer Culm.
    """

    def open_once() -> EdgeFolder:
        dags = EdgeFolder(folder, settings, quotas)
        try:
            begin_from(folder, dags.tables.topics, origin, DagFolderError, export="culm dag export")
            dags.begin()
            dags.commit()
        except BaseException:
            dags.close()
            raise
        return dags

    return open_or_refill(folder, open_once, DagFolderError)
