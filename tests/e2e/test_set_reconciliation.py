"""Set reconciliation and the start from `blocks` in a whole deployment: connectors, Kafka, Spark, peers."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.replicated_logs import INDEX_FOLDER
from culm_models.p2panda.operations.operation import peek
from culm_topics.logs.blocks import read_blocks
from culm_topics.records import log_key
from tests.connectors.edge.test_edge_commands import culm
from tests.support.deployment.members import (
    Member,
    audit,
    heights,
    member,
    members,
    new_schema,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def modes(member: Member) -> set[int]:
    return set(member.peer.driver.metrics.sessions_by_mode)


async def until_in_blocks(world: World, schema: str, entries: int) -> None:
    """Wait until `blocks` tells of this many entries of a schema."""

    def told() -> int:
        return sum(block.entry_count for block in read_blocks(world.kafka, [schema]))

    while await asyncio.to_thread(told) < entries:
        world.check()
        await asyncio.sleep(0.5)


async def test_peers_with_different_parts_end_up_with_all_by_ranges(world: World, tmp_path: Path) -> None:
    schema = new_schema("ranges")
    history = write_logs(1, schema, [1 + number % 5 for number in range(60)])
    async with members(tmp_path, schema, 4) as peers:
        for number, writer in enumerate(history):
            await peers[number % 4].add(writer.entries)
            await peers[(number + 1) % 4].add(writer.entries[: len(writer.entries) // 2])
        for number, peer in enumerate(peers):
            peer.dial(world.edges[number % 2])
        await audit(world, schema, history, peers)
        assert all(modes(peer) == {1} for peer in peers)
        # What everybody holds costs one exchange of fingerprints, and no entry.
        await until_in_blocks(world, schema, sum(heights(history).values()))
        async with member(tmp_path, "again", [schema]) as again:
            for writer in history:
                await again.add(writer.entries)
            again.dial(world.east)
            await until_live(world, schema, again)
            metrics = again.peer.driver.metrics
            assert (metrics.entries_out, metrics.entries_in) == (0, 0)
            assert metrics.reconciliation_rounds == 2


async def test_a_connector_that_lost_its_index_starts_from_blocks(world: World, tmp_path: Path) -> None:
    schema = new_schema("from_blocks")
    history = write_logs(1, schema, [1 + number % 7 for number in range(80)])
    count = sum(heights(history).values())
    async with (
        member(tmp_path, "writer", [schema]) as writer,
        member(tmp_path, "newcomer", [schema]) as newcomer,
        member(tmp_path, "plain", [schema], mode="heights") as plain,
    ):
        for log in history:
            await writer.add(log.entries)
        writer.dial(world.west)
        await audit(world, schema, history, [writer])
        await until_in_blocks(world, schema, count)
        world.east.kill()
        shutil.rmtree(world.east.folder / INDEX_FOLDER, ignore_errors=True)
        world.east.start()
        await world.until_serving()
        newcomer.dial(world.east)
        plain.dial(world.east)
        await until_all_hold(world, history, newcomer, plain)
        assert (modes(newcomer), modes(plain)) == ({1}, {0})
        assert "`blocks` has" in world.east.process.log.read_text()
        await audit(world, schema, history, [writer, newcomer, plain])


async def test_a_damaged_index_is_found_told_and_repaired(world: World, tmp_path: Path) -> None:
    schema = new_schema("damaged")
    history = write_logs(1, schema, [6] * 40)
    async with (
        member(tmp_path, "writer", [schema]) as writer,
        member(tmp_path, "newcomer", [schema]) as newcomer,
    ):
        for log in history:
            await writer.add(log.entries)
        writer.dial(world.west)
        await audit(world, schema, history, [writer])
        await until_in_blocks(world, schema, 240)
        await world.until(lambda: world.west.process.is_running, "the west")
        world.west.process.stop()
        store = LmdbLogStore(peek, world.west.folder / INDEX_FOLDER)
        lost = [log for log in history if log.key_pair.public_key[0] % 4 == 0]
        store.adopt(store.forget(log_key(log.key_pair.public_key, log.log_id) for log in lost))
        store.close()
        where = ("--bootstrap", world.kafka.bootstrap, "--prefix", world.kafka.prefix)
        command = ("logs", "index", "verify", "--dir", world.west.folder, *where, "--json")
        done = await asyncio.to_thread(culm, *command, check=False)
        report = json.loads(done.stdout)
        assert (done.returncode, report["damaged_logs"]) == (3, len(lost))
        world.west.start()
        await world.until_serving()
        newcomer.dial(world.west)
        await audit(world, schema, history, [writer, newcomer])
        await world.until(
            lambda: f"{len(lost)} logs were read from `logs` again" in world.west.process.log.read_text(),
            "the repair of the logs that were lost",
        )
