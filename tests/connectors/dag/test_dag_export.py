"""An export says all that a folder holds, with the same bytes each time, and comes back (reference 9)."""

from __future__ import annotations

import contextlib
import random
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.errors import DagExportError
from culm_connectors.dag.store.exporting import NODES_FILE, export_dags, import_dags
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import DAG_CBOR, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car import write_car
from culm_models.dag.errors import DagError
from culm_models.dag.validation_rules import ValidationRules
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SPACES, DagScenario
from tests.models.dag.signers import LINK, publish

from .test_dag_folder import draw_mixed


def filled(path: Path, scenario: DagScenario, order: int) -> DagFolder:
    folder = DagFolder(path, create=True)
    rng = random.Random(order)
    for space, _, block in rng.sample(scenario.nodes, len(scenario.nodes)):
        folder.put_blocks(space, [block], received_at=1_700_000_000)
    for space, cid, data in rng.sample(scenario.shards, len(scenario.shards)):
        folder.add_shard(space, cid, data)
    folder.commit()
    return folder


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("seed", range(6))
def test_the_same_store_exports_the_same_bytes_and_an_import_is_the_same_store(
    seed: int, tmp_path: Path
) -> None:
    scenario = draw_mixed(seed)
    folders = [filled(tmp_path / str(n), scenario, n) for n in range(2)]
    exports = [tmp_path / f"export-{n}" for n in range(3)]
    for folder, export in zip(folders, exports, strict=False):
        export_dags(folder, export)
    imported = DagFolder(tmp_path / "imported", create=True)
    outcome = import_dags(imported, exports[0])
    export_dags(imported, exports[2])
    assert files(exports[0]) == files(exports[1]) == files(exports[2])
    assert outcome.refused == []
    for space in SPACES:
        assert imported.published(space) == folders[0].published(space)
        assert imported.dag_heads(space) == folders[0].dag_heads(space)
        assert {cid for cid, _ in imported.queries.nodes(space)} <= {
            cid for cid, _ in folders[0].queries.nodes(space)
        }
    again = import_dags(imported, exports[0])
    assert (again.blocks, again.shards) == (0, 0)
    for folder in (*folders, imported):
        folder.close()


def test_the_receipts_that_stand_are_exported_whichever_came_first(tmp_path: Path) -> None:
    node = publish(exp=NOW + 5)
    exports = []
    for number, times in enumerate(permutations((NOW, NOW + 1, NOW + 9))):
        folder = DagFolder(tmp_path / str(number), create=True)
        for time in times:
            folder.put_blocks(None, [node.data], received_at=time, recorded=True)
        assert folder.valid_receipts(node.cid) == [NOW, NOW + 1]
        exports.append(tmp_path / f"export-{number}")
        export_dags(folder, exports[-1])
        folder.close()
    imported = DagFolder(tmp_path / "imported", create=True)
    import_dags(imported, exports[0])
    assert imported.receipts(node.cid) == [NOW, NOW + 1]
    imported.close()
    assert len({files(export)[NODES_FILE] for export in exports}) == 1


def test_what_is_no_export_is_not_imported(tmp_path: Path) -> None:
    scenario = draw_mixed(1)
    export = tmp_path / "export"
    folder = filled(tmp_path / "folder", scenario, 1)
    export_dags(folder, export)
    with pytest.raises(DagExportError, match="not empty"):
        export_dags(folder, export)
    folder.close()
    other = DagFolder(tmp_path / "other", DagFolderSettings(verdict=ValidationRules("bearer")), create=True)
    with pytest.raises(DagExportError, match="policy"):
        import_dags(other, export)
    other.close()
    empty = DagFolder(tmp_path / "empty", create=True)
    with pytest.raises(DagExportError, match="cannot be read"):
        import_dags(empty, tmp_path)
    data = (export / NODES_FILE).read_bytes()
    for changed in (b"", data[: len(data) // 2], data[:200] + b"\0" + data[201:]):
        (export / NODES_FILE).write_bytes(changed)
        with pytest.raises((DagExportError, DagError)):
            import_dags(empty, export)
    empty.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"publishes": [[LINK, "now"]]},
        {"publishes": [[LINK, -1]]},
        {"publishes": [[LINK, True]]},
        {"nodes": [[b"short", LINK]]},
        {"nodes": [[LINK, bytes(32)]]},
        {"shards": [1]},
        {"version": 2},
    ],
)
def test_a_manifest_of_other_values_is_refused_before_anything_is_taken(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    settings = ValidationRules().as_map()
    good = {"version": 1, "settings": settings, "nodes": [], "publishes": [], "ucans": [], "shards": []}
    manifest = encode_dag_cbor({**good, **changed})
    root = cid_of(DAG_CBOR, manifest)
    (tmp_path / NODES_FILE).write_bytes(write_car([root], [(root, manifest)]))
    folder = DagFolder(tmp_path / "folder", create=True)
    with contextlib.closing(folder), pytest.raises(DagExportError):
        import_dags(folder, tmp_path)
