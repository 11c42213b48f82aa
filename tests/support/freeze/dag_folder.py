"""A folder of DAGs: all that it can hold, and what it is read as."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.errors import DagError
from culm_models.dag.replica.codec import encode_append
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, draw_scenario

NAME = "dag-folder-2"
NAMES = ("dag-folder-1", NAME)
PEER = SEEDS[3]
_SEED = 17


def spooled_shard() -> tuple[Cid, bytes]:
    """A shard of three chunks, all alike, so that the fixture is small."""
    block = bytes(1_900_000)
    data = car_header([]) + car_section(cid_of(RAW, block), block) + car_section(cid_of(RAW, b"end"), b"end")
    return cid_of(CAR, data), data


def make(folder: Path) -> None:
    """Nodes, publishes that wait, nodes that were refused, shards, a spool, what is blocked."""
    dags = DagFolder(folder, create=True, clock_s=lambda: NOW)
    scenario = draw_scenario(random.Random(_SEED))
    for number, (space, _, block) in enumerate(scenario.nodes):
        dags.put_blocks(space, [block], received_at=NOW + number)
    for space, cid, data in scenario.shards[1:]:
        dags.add_shard(space, cid, data)
    publish = next(cid for _, cid, block in scenario.nodes if b"publish" in block)
    dags.put_blocks(SPACES[0], [encode_append([], publish).data], received_at=NOW)
    shard, data = spooled_shard()
    dags.reserve(PEER, SPACES[0], shard, len(data))
    for offset in (917_504, 0):
        dags.spool(PEER, shard, offset, data[offset : offset + 917_504])
    dags.set_blocked(SPACES[3], "a space that nobody wants")
    dags.commit()
    dags.close()


def read(folder: Path) -> dict[str, Any]:
    """Everything that is in a folder."""
    dags = DagFolder(folder, clock_s=lambda: NOW)
    shard, _ = spooled_shard()
    try:
        return {
            "spaces": {space.hex(): _space(dags, space) for space in dags.queries.spaces()},
            "spool": dags.spooled(PEER, shard),
            "blocked": dags.blocked(SPACES[3]),
        }
    except DagError as error:
        raise AssertionError(f"the fixture is not read: {error.code}") from error
    finally:
        dags.close()


def _space(dags: DagFolder, space: bytes) -> dict[str, Any]:
    published = dags.published(space)
    return {
        "nodes": {cid.text: block for cid, block in dags.queries.nodes(space)},
        "receipts": {cid.text: dags.receipts(cid) for cid, _ in dags.queries.nodes(space)},
        "heads": [cid.text for cid in dags.dag_heads(space)],
        "publish_heads": [cid.text for cid in dags.publish_heads(space)],
        "missing": [cid.text for cid in dags.missing_nodes(space, 1_000)],
        "order": [[node.cid.text, node.state.value] for node in published.order],
        "waiting": [cid.text for cid in published.waiting],
        "shards": {cid.text: dags.read_shard(cid, 0, size) for cid, size in dags.shards(space)},
    }
