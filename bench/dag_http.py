"""Shards sent to the HTTP door of DAGs, against a bare uvicorn that drops the same bytes."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from bench.dag_transfer import SPACE, drawn_shards
from bench.harness import BenchSettings, Ratio, middle_pair, say
from culm_connectors.dag.http.server import serve_http
from culm_connectors.dag.http.settings import PART_BYTES, DagHttpSettings
from culm_connectors.dag.service import DagService
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import Cid

_CASE = "dag-http"
_GOAL = 0.5
Shards = list[tuple[Cid, bytes]]


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one client on one connection, alternating between servers in separate processes."""
    total, rounds = (16_000_000, 1) if settings.quick else (256_000_000, 3)
    shards = list(drawn_shards(total))
    size = sum(len(data) for _, data in shards)
    ours: list[float] = []
    bare: list[float] = []
    peaks: list[int] = []
    for _ in range(rounds):
        with TemporaryDirectory() as folder, _served("door", folder) as (process, port):
            ours.append(_upload_rate(port, shards))
            peaks.append(_peak_mb(process))
        with _served("bare", "") as (_, port):
            bare.append(_upload_rate(port, shards))
        say(f"  {size:,} bytes: {ours[-1]:,.0f} of {bare[-1]:,.0f} MB/s; the door's memory {peaks[-1]} MB")
    name = f"{size // 1_000_000} MB in shards of 4 MiB by PUT of parts, every hash checked, on the disk"
    details = {"resident_mb": peaks}
    return [Ratio(_CASE, name, *middle_pair(ours, bare), "MB/s", "bare uvicorn", _GOAL, details=details)]


def _upload_rate(port: int, shards: Shards) -> float:
    """Return megabytes per second until the last answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    started = time.perf_counter()
    for cid, data in shards:
        for start in range(0, len(data), PART_BYTES):
            part = data[start : start + PART_BYTES]
            headers = {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(data)}"}
            connection.request("PUT", f"/shards/{cid}?space={SPACE.hex()}", part, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (201, 202):
                raise RuntimeError(f"the server answered {answer.status}")
    seconds = time.perf_counter() - started
    connection.close()
    return sum(len(data) for _, data in shards) / seconds / 1e6


def _peak_mb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1000


@contextmanager
def _served(kind: str, folder: str) -> Iterator[tuple[int, int]]:
    """Run a server in a separate process. Yields its process id and its port."""
    command = [sys.executable, "-m", "bench.dag_http", kind, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


async def _serve_door(folder: Path) -> None:
    door_settings = DagHttpSettings(append="anyone", read="anyone", bytes_per_second=0, requests_per_second=0)
    async with (
        DagService(DagFolder(folder, create=True)) as service,
        serve_http(service, door_settings) as url,
    ):
        sys.stdout.write(f"{url.rpartition(':')[2]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def _drop(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Read a body and answer 201."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class _Bare(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(f"{self.servers[0].sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()


def main() -> None:
    """Serve until killed."""
    kind, folder = sys.argv[1:]
    if kind == "door":
        asyncio.run(_serve_door(Path(folder) / "dags"))
    else:
        _Bare(uvicorn.Config(_drop, port=0, lifespan="off", log_config=None, access_log=False)).run()


if __name__ == "__main__":
    main()
