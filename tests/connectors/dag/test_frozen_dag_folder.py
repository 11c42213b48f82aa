"""A folder of DAGs that an earlier program has written is read as it was, and gone on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.dag.store.folder import DagFolder
from culm_models.testing.dag.replica import NOW
from tests.support import frozen
from tests.support.freeze import dag_folder


@pytest.mark.parametrize("name", dag_folder.NAMES)
def test_a_folder_of_an_earlier_program_is_read_as_it_was_and_its_spool_goes_on(
    name: str, tmp_path: Path
) -> None:
    folder = frozen.unpack(name, tmp_path)
    frozen.assert_as_kept(name, dag_folder.read(folder))
    dags = DagFolder(folder, clock_s=lambda: NOW)
    shard, data = dag_folder.spooled_shard()
    dags.spool(dag_folder.PEER, shard, 1_835_008, data[1_835_008:])
    assert dags.accept_spool(dag_folder.PEER, shard)
    dags.commit()
    assert dags.read_shard(shard, 0, len(data)) == data
    dags.close()
