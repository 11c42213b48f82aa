"""`culm console` beside a real connector, which is killed and starts again; its start line, log and end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from culm_infra.demo.kit.processes import CulmProcess, environment, running
from culm_infra.stack.ports import free_ports
from culm_topics.kafka.clients import KafkaSettings

pytestmark = [pytest.mark.kafka]

PATIENCE_S = 120.0
SHOWN_WITHIN_S = 10.0


async def states(events: Any) -> Any:
    async for line in events.aiter_lines():
        if line.startswith("data: "):
            overview = json.loads(line.removeprefix("data: "))
            yield {edge["name"]: edge for edge in overview["edges"]}


async def test_a_killed_edge_is_down_within_ten_seconds_and_ready_after_its_restart(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    (metrics_port,) = free_ports(1)
    variables = environment(kafka) | {"CULM_STACK__DIRECTORY": str(tmp_path / "stack")}
    edge = CulmProcess(
        "the edge",
        (
            *("connector", "run", "--listen", "127.0.0.1:0", "--dir", str(tmp_path / "edge-a")),
            *("--serve-at-once", "--metrics-port", str(metrics_port)),
        ),
        variables,
        tmp_path / "edge.log",
    )
    both = {"edge-a": "ready", f"127.0.0.1:{metrics_port}": "ready"}
    command = (
        *(sys.executable, "-m", "culm_infra", "console", "--json", "--listen", "127.0.0.1:0"),
        *("--target", f"unix:{tmp_path}/edge-a/status.sock", "--target", f"http://127.0.0.1:{metrics_port}"),
    )
    with (
        running([edge]),
        subprocess.Popen(  # noqa: ASYNC220
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as console,
    ):
        assert console.stdout is not None and console.stderr is not None
        try:
            edge.start()
            edge.wait_for_log("serving peers", PATIENCE_S)
            line = json.loads(await asyncio.to_thread(console.stdout.readline))
            assert line["url"] == f"http://{line['address']}/?token={line['token']}"
            async with (
                httpx.AsyncClient(
                    base_url=f"http://{line['address']}", headers={"Authorization": f"Bearer {line['token']}"}
                ) as client,
                client.stream("GET", "/api/events", timeout=PATIENCE_S) as events,
            ):
                watched = states(events)
                shown = await _until(watched, both)
                assert len({each["version"] for each in shown.values()}) == 1
                assert {each["name"] for each in shown["edge-a"]["protocols"]} >= {"p2panda"}
                edge.kill()
                killed_s = time.time()
                shown = await _until(watched, dict.fromkeys(both, "down"))
                for each in shown.values():
                    assert each["severity"] == 3
                    # By the console's clock: how long the machine took to deliver the event does not count.
                    assert each["since_ms"] / 1000 - killed_s < SHOWN_WITHIN_S
                edge.start()
                await _until(watched, both)
        finally:
            console.send_signal(signal.SIGTERM)
            _, said = await asyncio.to_thread(console.communicate)
        assert console.returncode == 0
        assert f"unix:{tmp_path}/edge-a/status.sock is down" in said
        assert "the console is stopping" in said
        assert line["token"] not in said


async def _until(watched: Any, wanted: dict[str, str]) -> dict[str, Any]:
    async for edges in watched:
        if {name: edge["state"] for name, edge in edges.items()} == wanted:
            found: dict[str, Any] = edges
            return found
    raise AssertionError("the events have ended")
