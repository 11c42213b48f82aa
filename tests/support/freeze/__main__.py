"""`python -m tests.support.freeze NAME...`: makes fixtures anew; their README says when."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.freeze import (
    bamboo_folder,
    chotki_export,
    chotki_job,
    chotki_state,
    chotki_store,
    connector,
    dag_folder,
    documents_job,
    frozen,
    jobs,
    lists,
    stores,
)

Make = Callable[[Path], object]


def store(name: str, make: Make, read: Callable[[Path], Any] | None = None) -> Make:
    """A maker of one fixture: its folder, and what a copy of it is read as."""

    def made(folder: Path) -> None:
        source = folder / name
        source.mkdir()
        make(source)
        frozen.pack(source, name)
        if read is not None:
            frozen.keep(name, read(frozen.unpack(name, folder / "copy")))

    return made


MAKE: dict[str, Make] = {
    "lmdb-index": store("lmdb-index", stores.make_index, stores.read_index),
    "peer": store("peer", stores.make_peer),
    "sds-index": store("sds-index", stores.make_sds_index, stores.read_sds_index),
    "participants": store("participants", stores.make_participants, stores.read_participants),
    "consumer-heights": store("consumer-heights", stores.make_heights, stores.read_heights),
    dag_folder.NAME: store(dag_folder.NAME, dag_folder.make, dag_folder.read),
    bamboo_folder.NAME: store(bamboo_folder.NAME, bamboo_folder.make, bamboo_folder.read),
    bamboo_folder.BUNDLE: store(bamboo_folder.BUNDLE, bamboo_folder.make_bundle, bamboo_folder.read_bundle),
    chotki_export.NAME: store(chotki_export.NAME, chotki_export.make, chotki_export.read),
    chotki_state.NAME: store(chotki_state.NAME, chotki_state.make, chotki_state.read),
    chotki_store.NAME: store(chotki_store.NAME, chotki_store.make, chotki_store.read),
    "stack": store("stack", stores.make_stack),
    connector.NAME: connector.make_connector,
    jobs.NAME: jobs.make_jobs,
    chotki_job.CHECKPOINT.name: chotki_job.CHECKPOINT.make,
    documents_job.CHECKPOINT.name: documents_job.CHECKPOINT.make,
    "lists": lambda _: lists.accept(),
    connector.METRICS: connector.accept_metrics,
}

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(f"which? {', '.join(MAKE)}")
    for fixture in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as temporary:
            MAKE[fixture](Path(temporary))
