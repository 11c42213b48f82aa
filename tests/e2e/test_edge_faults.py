"""Connectors that die, lose their index or stand still: what peers hold and what `logs` holds stays whole."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from tests.support.deployment.members import (
    audit,
    member,
    members,
    new_schema,
    publish_slowly,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_FROZEN_S = 4.0


async def test_a_connector_killed_in_mid_catch_up(world: World, tmp_path: Path) -> None:
    schema = new_schema("kill_catch_up")
    history = write_logs(1, schema, [60] * 40)
    own = write_logs(2, schema, [1, 1])
    async with members(tmp_path, schema, 3) as peers:
        for writer in history:
            await peers[0].add(writer.entries)
            await peers[1].add(writer.entries[:30])
        for peer, writer in zip(peers, own, strict=False):
            await peer.add(writer.entries)
        peers[2].dial(world.east)
        await world.until(lambda: peers[2].peer.driver.links.open, "a connection at the east")
        peers[0].dial(world.west)
        peers[1].dial(world.west)
        await world.until(lambda: sum(peers[2].peer.heights().values()) > 100, "the first entries")
        world.west.kill()
        assert sum(peers[2].peer.heights().values()) < 2_400, "killed in the middle"
        world.west.start()
        await audit(world, schema, history + own, peers)


async def test_a_connector_killed_in_live_mode(world: World, tmp_path: Path) -> None:
    schema = new_schema("kill_live")
    own = write_logs(1, schema, [1, 1])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        await until_all_hold(world, own, *peers)
        async with asyncio.TaskGroup() as group:
            for peer, writer in zip(peers, own, strict=True):
                group.create_task(publish_slowly(peer, writer, 100))
            await world.until(lambda: len(own[0].entries) >= 30, "entries to publish")
            world.west.kill()
            await world.until(lambda: len(own[0].entries) >= 60, "entries to publish")
            world.west.start()
        await audit(world, schema, own, peers)


@pytest.mark.parametrize(
    "fate",
    ["corrupted", *(pytest.param(fate, marks=pytest.mark.soak) for fate in ("deleted", "truncated"))],
)
async def test_an_index_lost_while_its_connector_was_down(world: World, tmp_path: Path, fate: str) -> None:
    schema = new_schema(fate)
    own = write_logs(1, schema, [40, 40])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_all_hold(world, own, *peers)
        world.west.kill()
        await peers[0].write(own[0], 20)
        await peers[1].write(own[1], 20)
        index = world.west.folder / INDEX_FOLDER
        data = index / DATA_FILE
        if fate == "deleted":
            shutil.rmtree(index)
        elif fate == "corrupted":
            with data.open("r+b") as file:
                # Every page but the first two, which say where the others are.
                file.seek(8_192)
                file.write(b"\xa5" * (data.stat().st_size - 8_192))
        else:
            with data.open("r+b") as file:
                file.truncate(data.stat().st_size // 2)
        world.west.start()
        await audit(world, schema, own, peers)
        async with member(tmp_path, "newcomer", [schema]) as newcomer:
            newcomer.dial(world.west)
            await audit(world, schema, own, [*peers, newcomer])


async def test_a_connector_that_stands_still_for_a_while(world: World, tmp_path: Path) -> None:
    schema = new_schema("frozen")
    own = write_logs(1, schema, [1, 1])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        with world.west.frozen():
            # The fault itself has a length: long enough to be taken for a dead one, or nearly so.
            await asyncio.gather(
                asyncio.sleep(_FROZEN_S),
                *(publish_slowly(peer, writer, 60) for peer, writer in zip(peers, own, strict=True)),
            )
        await audit(world, schema, own, peers)
