"""`culm connector status` and `culm job status` of a deployment with peers, and of killed jobs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployment.members import audit, members, new_schema, until_live, write_logs
from tests.support.deployment.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


async def culm(world: World, *arguments: object) -> tuple[int, str, str]:
    """Run a command beside the deployment; returns its exit status, and what it printed."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "culm_infra", *map(str, arguments)],
        env=os.environ | {"CULM_STACK__DIRECTORY": str(world.folder / "stack")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


async def documents(world: World, *arguments: object) -> list[dict[str, Any]]:
    _, shown, _ = await culm(world, *arguments, "--json")
    return [json.loads(line) for line in shown.splitlines()]


async def test_running_processes_are_shown_with_peers_and_progress(world: World, tmp_path: Path) -> None:
    schema = new_schema("status")
    own = write_logs(2, schema, [3, 4])
    async with members(tmp_path, schema, 2) as peers:
        for peer, writer, edge in zip(peers, own, world.edges, strict=True):
            await peer.add(writer.entries)
            peer.dial(edge)
        await until_live(world, schema, *peers)
        await audit(world, schema, own, peers)

        (connector,) = await documents(world, "connector", "status", "--dir", world.west.folder)
        assert (connector["pid"], connector["ready"]) == (world.west.process.pid, True)
        protocol = connector["protocols"]["p2panda"]
        assert world.west.peer_id.hex() == connector["peer_id"]
        assert f"127.0.0.1:{world.west.port}" in protocol["doors"].values()
        assert [peer["peer"] for peer in protocol["peers"]] == [peers[0].peer.key_pair.public_key.hex()]
        assert protocol["connections"] == 1 and connector["last_progress_ms"] is not None
        assert set(protocol["lag"]) >= {f"{world.kafka.prefix}logs", f"{world.kafka.prefix}entries"}
        status, shown, _ = await culm(world, "connector", "status", "--dir", world.west.folder)
        assert status == 0 and f"peer {peers[0].peer.key_pair.public_key.hex()} 127.0.0.1:" in shown

    (run,) = await documents(world, "job", "status", "logs")
    assert (run["pid"], run["which"], run["state"]) == (world.jobs.pid, "all", "running")
    queries = {query["job"]: query for query in run["queries"]}
    assert set(queries) == {"logs", "version-vectors", "blocks"} == set(run["jobs"])
    assert queries["logs"]["rows_in"] >= 7 and queries["logs"]["latest_batch"]["duration_ms"] > 0
    assert queries["logs"]["checkpoint"] == str(world.folder / "checkpoints" / "logs")
    status, shown, _ = await culm(world, "job", "status")
    assert "jobs all: " in shown and "micro-batch " in shown

    world.kill_jobs()
    status, shown, remark = await culm(world, "job", "status")
    assert (status, shown) == (3, "") and "culm job run" in remark
    world.jobs.start()
    pid = world.jobs.pid
    while not (job_documents := await documents(world, "job", "status")):
        world.check()
        await asyncio.sleep(0.2)
    assert job_documents[0]["pid"] == pid
