"""Exports a folder to files, which have the same bytes for the same store, and imports them (reference 9).

`nodes.car` has the manifest as its root and first section, followed by every node and UCAN; the shards are
`shards/<CID>.car`. Lists of the manifest ascend by text (nodes: by link, then space).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from culm_connectors.dag.errors import DagExportError
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import DagBlockKind, RefusedBlock
from culm_connectors.dag.store.shard_table import verify_shard
from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.car import car_header, car_section
from culm_models.dag.car.reader import CarStream, Section
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.validation_rules import ValidationRules, decode_rules, rule_differences
from culm_models.dag.wire.messages import SPACE_SIZE, AckStatus

NODES_FILE: Final = "nodes.car"
SHARDS: Final = "shards"
VERSION: Final = 1
_KEYS: Final = {"version", "settings", "nodes", "publishes", "ucans", "shards"}
_PIECE_BYTES: Final = 1_048_576
_TIME_MAX: Final = (1 << 53) - 1
# An export is the owner's own: it may be as large as the store was.
_BOUNDS: Final = replace(DEFAULT_BOUNDS, car=1 << 50, block=1 << 32, sections=1 << 40)


@dataclass(slots=True)
class ImportedDags:
    """Result of an import; data that was already here does not count."""

    blocks: int = 0
    """Number of nodes and UCANs."""
    shards: int = 0
    refused: list[RefusedBlock] = field(default_factory=list)


def export_dags(folder: DagFolder, target: Path) -> Cid:
    """Write all of it into an empty or new folder; returns the manifest's CID. Raises `DagExportError`."""
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise DagExportError(f"{target} exists and is not empty", hint="export into a folder of its own")
    (target / SHARDS).mkdir(parents=True, exist_ok=True)
    nodes: set[tuple[Cid, bytes]] = set()
    publishes: dict[Cid, list[int]] = {}
    ucans: set[Cid] = set()
    for space, cid, kind in folder.queries.placed():
        if kind is DagBlockKind.UCAN:
            ucans.add(cid)
        elif kind is DagBlockKind.PUBLISH:
            # Receipts refused for their time are left out: which of them are here depends on the order of
            # arrival.
            if valid := folder.valid_receipts(cid):
                publishes[cid] = valid
        elif space is not None:
            nodes.add((cid, space))
    shards = sorted(folder.all_shards())
    for shard in shards:
        path = folder.shard_path(shard)
        if path is None or not folder.is_sound(shard):
            raise DagExportError(f"{shard} was dropped meanwhile, or is damaged", hint="export again")
        shutil.copyfile(path, target / SHARDS / path.name)
    manifest = encode_dag_cbor(
        {
            "version": VERSION,
            "settings": folder.settings.verdict.as_map(),
            "nodes": [[space, cid] for cid, space in sorted(nodes)],
            "publishes": [[cid, time] for cid in sorted(publishes) for time in publishes[cid]],
            "ucans": sorted(ucans),
            "shards": shards,
        }
    )
    root = cid_of(DAG_CBOR, manifest)
    cids = [*dict.fromkeys(cid for cid, _ in sorted(nodes)), *sorted(publishes), *sorted(ucans)]
    with (target / NODES_FILE).open("wb") as file:
        file.write(car_header([root]))
        file.write(car_section(root, manifest, bounds=_BOUNDS))
        for cid in cids:
            block = folder.read_node(cid)
            if block is None:
                raise DagExportError(f"{cid} was refused meanwhile", hint="export again")
            file.write(car_section(cid, block))
    return root


def import_dags(folder: DagFolder, source: Path) -> ImportedDags:
    """Verify and put in all of an export, with its receipts. Raises `DagExportError`, `DagError`."""
    imported = ImportedDags()
    sections = _sections(source / NODES_FILE)
    manifest = _manifest(sections)
    own, exported = folder.settings.verdict, _rules_of(manifest)
    if different := rule_differences(own, exported):
        raise DagExportError(
            f"the export was validated by other rules: {', '.join(different)}",
            hint="import into a folder of its own",
        )
    spaces: dict[Cid, list[bytes]] = {}
    for space, cid in manifest["nodes"]:
        spaces.setdefault(cid, []).append(space)
    receipts: dict[Cid, list[int]] = {}
    for cid, received_at in manifest["publishes"]:
        receipts.setdefault(cid, []).append(received_at)
    for section in sections:
        for home in spaces.get(section.cid, [None]):
            for received_at in receipts.get(section.cid, [0]):
                _put(folder, imported, home, bytes(section.data), received_at)
    _place_proofs(folder, list(receipts))
    folder.commit()
    for shard in manifest["shards"]:
        imported.shards += _add_shard(folder, shard, source / SHARDS / f"{shard.text}.car")
        folder.commit()
    return imported


def exported_rules(source: Path) -> ValidationRules:
    """Return the settings by which an export was validated. Raises `DagExportError`, `DagError`."""
    return _rules_of(_manifest(_sections(source / NODES_FILE)))


def _rules_of(manifest: dict[str, Any]) -> ValidationRules:
    return decode_rules(encode_dag_cbor(manifest["settings"]))


def _put(
    folder: DagFolder, imported: ImportedDags, space: bytes | None, block: bytes, received_at: int
) -> None:
    (outcome,) = folder.put_blocks(space, [block], received_at=received_at, recorded=True)
    imported.blocks += outcome.status is AckStatus.DURABLE
    if outcome.status is AckStatus.REFUSED:
        imported.refused.append(RefusedBlock(outcome.cid, outcome.code or ""))


def _place_proofs(folder: DagFolder, publishes: list[Cid]) -> None:
    """Put the UCANs below each publish into the space of its id."""
    for publish in publishes:
        block = folder.read_node(publish)
        if block is None:
            continue
        space = decode_dag_cbor(block)["change"]["id"]
        stack, seen = [(publish, block)], {publish}
        while stack:
            for need in needs_of_block(*stack.pop(), legacy=folder.settings.verdict.legacy):
                ucan = folder.read_ucan(need)
                if ucan is not None and need not in seen:
                    seen.add(need)
                    stack.append((need, ucan))
                    folder.put_blocks(space, [ucan], received_at=0)


def _sections(path: Path) -> Iterator[Section]:
    stream = CarStream(bounds=_BOUNDS)
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield from stream.feed(piece)
        stream.finish()
    except OSError as error:
        raise DagExportError(f"{path} cannot be read: {error}") from error


def _manifest(sections: Iterator[Section]) -> dict[str, Any]:
    """Return the manifest, which is the first section. Raises `DagExportError`."""
    value: Any = None
    if (first := next(sections, None)) is not None:
        try:
            value = decode_dag_cbor(bytes(first.data))
        except DagError as error:
            raise DagExportError(f"the manifest is no DAG-CBOR: {error}") from error
    if not isinstance(value, dict) or value.keys() != _KEYS or value["version"] != VERSION:
        raise DagExportError("there is no manifest of version 1", hint="give a folder that was exported")
    if not all(isinstance(value[key], list) for key in _KEYS - {"version", "settings"}):
        raise DagExportError("the manifest is malformed")
    pairs = [*value["nodes"], *value["publishes"]]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise DagExportError("the manifest is malformed")
    cids = [cid for _, cid in value["nodes"]] + [cid for cid, _ in value["publishes"]] + value["shards"]
    spaces = [space for space, _ in value["nodes"]]
    if not (
        all(isinstance(cid, Cid) for cid in cids)
        and all(isinstance(space, bytes) and len(space) == SPACE_SIZE for space in spaces)
        and all(type(time) is int and 0 <= time <= _TIME_MAX for _, time in value["publishes"])
    ):
        raise DagExportError("the manifest is malformed")
    return value


def _add_shard(folder: DagFolder, shard: Cid, source: Path) -> bool:
    if folder.shard_path(shard) is not None:
        return False
    descriptor, name = tempfile.mkstemp(dir=folder.folder, prefix=".adding-")
    os.close(descriptor)
    path = Path(name)
    try:
        shutil.copyfile(source, path)
        return folder.add_verified(None, verify_shard(path, shard, folder.settings.verdict), path)
    except OSError as error:
        raise DagExportError(f"{source} cannot be read: {error}") from error
    finally:
        path.unlink(missing_ok=True)
