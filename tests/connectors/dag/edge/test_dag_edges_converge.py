"""Edges that get nodes and shards in any order, from anybody, and are closed at any time, say the same."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.edge.edge_folder import EdgeQuotas
from culm_connectors.dag.edge.opening import open_edge_folder
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.dag.store.tables import DATABASE_FILE
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.scenario import SEEDS, DagScenario, draw_scenario
from culm_topics.kafka.origin import Origin
from tests.support.dag_edge import EdgeParts, ListedTopics, edge_parts

NAMES = ("one", "two", "three")


def _pieces(rng: random.Random, scenario: DagScenario) -> list[tuple[str, tuple[Any, ...]]]:
    """What is brought, in any order, some of it more than once."""
    found: list[tuple[str, tuple[Any, ...]]] = [("node", one) for one in scenario.nodes]
    found += [("shard", one) for one in scenario.shards]
    found += rng.choices(found, k=len(found) // 3)
    rng.shuffle(found)
    return found


async def _bring(edge: EdgeParts, what: str, one: tuple[Any, ...], peer: bytes) -> None:
    space, cid, data = one
    if what == "node":
        (outcome,) = await edge.room.receive(space, [data], peer)
        assert outcome.status in (AckStatus.DURABLE, AckStatus.HAD)
        return
    part = None
    for offset in range(0, len(data), CHUNK_SIZE):
        part = await edge.room.spool_part(
            space, cid, len(data), offset, data[offset : offset + CHUNK_SIZE], peer
        )
    assert part is not None and part.status in (AckStatus.DURABLE, AckStatus.HAD)


async def _said(edge: EdgeParts, scenario: DagScenario) -> list[object]:
    def step(_: object) -> list[object]:
        folder = edge.folder
        return [
            (
                [cid for cid, _ in folder.nodes(space)],
                sorted(folder.shards(space)),
                folder.dag_heads(space),
                folder.published(space),
                edge.folder.usage(space),
            )
            for space in scenario.spaces
        ]

    return await edge.room.work(step)


@pytest.mark.parametrize("seed", range(12))
async def test_edges_come_to_say_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    scenario, topics = draw_scenario(rng), ListedTopics()
    pieces = _pieces(rng, scenario)
    while pieces:
        # Edges come and go: each time one of them is open for a while, and reads what it has missed or not.
        async with edge_parts(tmp_path / rng.choice(NAMES), topics) as edge:
            if rng.random() < 0.7:
                await edge.follow(again=rng.random() < 0.3)
            count = min(len(pieces), rng.randint(1, 8))
            for what, one in (pieces.pop() for _ in range(count)):
                bringing = asyncio.create_task(_bring(edge, what, one, rng.choice(SEEDS)))
                if rng.random() < 0.1:
                    # Whoever brought it is gone before it heard of it, and comes again later.
                    await asyncio.sleep(0)
                    bringing.cancel()
                    pieces.insert(0, (what, one))
                with contextlib.suppress(asyncio.CancelledError):
                    await bringing
    for name in NAMES:
        # What was left over in an outbox is published.
        async with edge_parts(tmp_path / name, topics) as edge:
            await edge.room.until_idle()
    said: list[list[object]] = []
    for name in (*NAMES, "new"):
        async with edge_parts(tmp_path / name, topics) as edge:
            await edge.follow()
            said.append(await _said(edge, scenario))
            assert not edge.folder.waiting
    assert all(one == said[0] for one in said)


async def test_a_folder_of_other_topics_is_refused_and_a_damaged_one_is_filled_anew(tmp_path: Path) -> None:
    rng = random.Random(4)
    scenario, topics = draw_scenario(rng), ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        for one in scenario.nodes:
            await _bring(edge, "node", one, SEEDS[0])
        await edge.follow()
        said = await _said(edge, scenario)
    with pytest.raises(DagFolderError, match="belongs to other topics"):
        open_edge_folder(tmp_path, Origin("other", {}), DagFolderSettings(), EdgeQuotas())
    database = tmp_path / DATABASE_FILE
    database.write_bytes(b"\0" * 4_096 + database.read_bytes()[4_096:])
    async with edge_parts(tmp_path, topics) as edge:
        await edge.follow()
        assert await _said(edge, scenario) == said
