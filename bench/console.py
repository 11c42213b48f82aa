"""The console at a thousand peers and a million logs: memory and time for pages, against stated limits.

`blocks`, `block-vectors` and `announcements` are written as their jobs and connectors would write them, with
some entries and refused records for details. The console is a separate process and is asked over HTTP.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.console_records import Deployment
from bench.harness import BenchSettings, Ratio, say
from bench.rig import Rig
from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.stack.ports import free_ports

_LOGS, _QUICK_LOGS = 1_000_000, 20_000
_PEERS, _QUICK_PEERS = 1_000, 20
_LOGS_OF_A_PEER = 1_000
_MEMORY_MB = 300
_ROUNDS = 5
_START_TIMEOUT_S = 60.0
_TOKEN = "the-token-of-this-benchmark"
_LIMITS_MS = {
    "page of 100 logs": 200,
    "page of 100 logs, in the middle": 200,
    "search for a log": 200,
    "search for a schema": 300,
    "page of 50 peers": 3_000,
    "search for a peer": 1_000,
    "detail of a log": 3_000,
    "detail of a peer": 2_000,
    "page of 100 refused records": 1_000,
    "search for refused records": 3_000,
}


def run(settings: BenchSettings) -> list[Ratio]:
    """Write the records, start the console, ask for pages and details."""
    logs, peers = (_QUICK_LOGS, _QUICK_PEERS) if settings.quick else (_LOGS, _PEERS)
    with Rig() as rig:
        kafka = rig.topics("console.")
        deployment = Deployment(logs, peers, _LOGS_OF_A_PEER)
        records = {
            "blocks": deployment.write_blocks(kafka),
            "block-vectors": deployment.write_vectors(kafka),
        }
        say(f"  {logs:,} logs and {peers:,} peers are written")
        log = deployment.write_entries(kafka, logs // 5)
        deployment.write_rejected(kafka, 10_000)
        (port,) = free_ports(1)
        variables = {"CULM_CONSOLE__TOKEN": _TOKEN}
        process = rig.culm(
            "console", "console", "--listen", f"127.0.0.1:{port}", kafka=kafka, variables=variables
        )
        process.wait_for_log("the console is at", _START_TIMEOUT_S)
        client = _Client(port)
        started_mb, began_s = _resident_mb(process, "VmRSS"), time.monotonic()
        notes = [client.when_read(name) for name in ("p2panda-logs", "p2panda-peers")]
        read_s = time.monotonic() - began_s
        say(f"  read in {read_s:.1f} s: {_resident_mb(process, 'VmRSS'):.0f} MB; {notes}")
        latencies = {name: client.latency_ms(path) for name, path in _requests(deployment, log)}
        resident_mb, peak_mb = (_resident_mb(process, name) for name in ("VmRSS", "VmHWM"))
    details: dict[str, Any] = {
        "logs": logs,
        "peers": peers,
        "records": records,
        "started_mb": started_mb,
        "read_s": read_s,
        "peak_mb": peak_mb,
        "notes": notes,
    }
    memory = [("resident memory", resident_mb), ("largest resident memory", peak_mb)]
    ratios = [
        Ratio("console", name, ours, _MEMORY_MB, "MB", "the stated memory", 1.0, False, details)
        for name, ours in memory
    ]
    ratios += [
        Ratio("console", name, ours, _LIMITS_MS[name], "ms", "the stated time", 1.0, False)
        for name, ours in latencies.items()
    ]
    return ratios


def _requests(deployment: Deployment, log: bytes) -> Iterator[tuple[str, str]]:
    """Yield the requests whose latency is measured, by their names."""
    middle = deployment.keys[len(deployment.keys) // 2].tobytes().hex()
    peer = deployment.peers[1].hex()
    yield "page of 100 logs", "p2panda-logs?limit=100"
    yield "page of 100 logs, in the middle", f"p2panda-logs?limit=100&cursor={middle}"
    yield "search for a log", f"p2panda-logs?limit=100&search={middle[:12]}"
    yield "search for a schema", "p2panda-logs?limit=100&search=venue"
    yield "page of 50 peers", "p2panda-peers?limit=50"
    yield "search for a peer", f"p2panda-peers?limit=50&search={peer[:12]}"
    yield "detail of a log", f"p2panda-logs/{log.hex()}"
    yield "detail of a peer", f"p2panda-peers/{peer}"
    yield "page of 100 refused records", "rejected?limit=100"
    yield "search for refused records", "rejected?limit=100&search=fork"


class _Client:
    """Requests to the console's tables."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/tables/"

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a request."""
        request = urllib.request.Request(self._base + path, headers={"Authorization": f"Bearer {_TOKEN}"})
        with urllib.request.urlopen(request, timeout=_START_TIMEOUT_S) as answer:
            document: dict[str, Any] = json.load(answer)
        return document

    def when_read(self, name: str) -> str | None:
        """Wait until a table's topics are read. Returns the note of its first page."""
        while "being read" in ((page := self.get(f"{name}?limit=1"))["note"] or ""):
            time.sleep(0.2)
        note: str | None = page["note"]
        return note

    def latency_ms(self, path: str) -> float:
        """Return the median time for a request."""
        times = []
        for _ in range(_ROUNDS):
            began_s = time.perf_counter()
            self.get(path)
            times.append(1e3 * (time.perf_counter() - began_s))
        return sorted(times)[_ROUNDS // 2]


def _resident_mb(process: CulmProcess, name: str) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024
