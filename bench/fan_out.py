"""One connector and 200 live peers: the entries of one peer go to all the others.

The peers are one separate process, over QUIC on the loopback interface. They read and count, and check
nothing, so that only the connector is measured. Latency is from writing to reading, at a rate that the
connector can sustain; the rate is that of bursts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import BenchSettings, Ratio, say
from bench.rig import Rig, cpu_used
from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import Connection, Identity, SendStream, TransportSettings
from culm_connectors.transport.quic import connect
from culm_infra.demo.p2panda.plan import SCHEMAS, DemoLogWriter
from culm_infra.stack.ports import free_ports
from culm_models.keys import KeyPair
from culm_models.p2panda.wire.codec import MessageStream, encode, encode_entry_message
from culm_models.p2panda.wire.messages import Announce, EntryMessage, Have, SyncDone, SyncRequest

_SCHEMA = SCHEMAS[0]
_READ_BYTES = 256 * 1024
_TIMEOUT_S = 300.0
_SESSION_ID = 0
_READY_TIMEOUT_S = 60.0
_PAUSE_S = 0.1


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure with one listening peer and with all of them."""
    peers, single, burst = (20, 20, 20) if settings.quick else (200, 100, 100)
    with Rig() as rig:
        kafka = rig.topics("fan.")
        (port,) = free_ports(1)
        connector = rig.culm(
            "edge",
            *("connector", "run", "--listen", f"127.0.0.1:{port}", "--dir", str(rig.folder / "edge")),
            *("--schema", _SCHEMA),
            kafka=kafka,
            # All peers have the same address.
            variables={"CULM_CONNECTOR__TRANSPORT__MAX_CONNECTIONS_PER_ADDRESS": "1024"},
        )
        connector.wait_for_log("serving peers on", _READY_TIMEOUT_S)
        with cpu_used(connector=connector.pid) as used:
            single_peer = _measured(port, connector.pid, 1, single, burst)
        say(f"  1 peer: {single_peer}")
        with cpu_used(connector=connector.pid) as used_by_many:
            many = _measured(port, connector.pid, peers, single, burst)
        say(f"  {peers} peers: {many}")
    details = {"peers": peers, "one": single_peer | {"cpu_s": used}, "many": many | {"cpu_s": used_by_many}}
    rate = Ratio(
        "fan-out",
        f"entries to {peers} live peers",
        many["messages_per_s"],
        single_peer["messages_per_s"],
        "messages/s",
        "entries to one live peer",
        None,
        details=details,
    )
    return [
        rate,
        *(
            Ratio(
                "fan-out",
                f"live latency with {peers} peers, {label}",
                1e3 * many[f"{label}_ms"],
                1e3 * single_peer[f"{label}_ms"],
                "µs",
                f"with one peer, {label}",
                None,
                higher_is_better=False,
                details=details,
            )
            for label in ("p50", "p99")
        ),
    ]


def _measured(port: int, connector: int, peers: int, single: int, burst: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.fan_out", *map(str, (port, connector, peers, single, burst))]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_TIMEOUT_S, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _anonymous_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024


@dataclass
class Listener:
    """A peer that holds nothing and reads live entries: arrival times, in order."""

    connection: Connection
    out: SendStream
    came_s: list[float] = field(default_factory=list)
    live: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Read until the connection ends."""
        incoming = await self.connection.accept_stream()
        stream = MessageStream()
        while data := await incoming.read(_READ_BYTES):
            now_s = time.perf_counter()
            for message in stream.feed(data):
                if isinstance(message, EntryMessage):
                    self.came_s.append(now_s)
                elif isinstance(message, SyncDone):
                    self.live.set()
            self.arrived.set()

    async def until_count(self, count: int) -> None:
        """Wait until so many entries have arrived."""
        while len(self.came_s) < count:
            self.arrived.clear()
            await self.arrived.wait()


async def _join(port: int) -> Listener:
    identity = Identity.from_private_key(os.urandom(32))
    settings = TransportSettings(datagram_bytes="auto")
    connection = await connect(("127.0.0.1", port), identity, None, settings, alpn=ALPN)
    out = await connection.open_stream()
    await out.write(
        encode(Announce(1, time.time_ns() // 1_000_000, (_SCHEMA,)))
        + encode(SyncRequest(_SESSION_ID, 0, (_SCHEMA,)))
        + encode(Have(_SESSION_ID, ()))
        + encode(SyncDone(_SESSION_ID, live_mode=True))
    )
    return Listener(connection, out)


async def _play(port: int, connector: int, peers: int, single: int, burst: int) -> dict[str, Any]:
    """Run listeners and one writer. Returns rates, latencies, and the memory of the connector meanwhile."""
    idle_mb = _anonymous_mb(connector)
    listeners = [await _join(port) for _ in range(peers)]
    writer_end = await _join(port)
    everybody = [*listeners, writer_end]
    reading = [asyncio.create_task(end.listen()) for end in everybody]
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await asyncio.gather(*(end.live.wait() for end in everybody))
            live_mb = _anonymous_mb(connector)
            for end in listeners:
                # Entries that were already held arrived first.
                end.came_s.clear()
            log = DemoLogWriter(KeyPair.generate(os.urandom(32)), 0, _SCHEMA)

            async def write(count: int) -> float:
                data = b"".join(
                    encode_entry_message(_SESSION_ID, *log.append({"title": "reed", "count": number}))
                    for number in range(count)
                )
                wrote_s = time.perf_counter()
                await writer_end.out.write(data)
                return wrote_s

            wrote_s = []
            for number in range(1, single + 1):
                wrote_s.append(await write(1))
                await asyncio.gather(*(end.until_count(number) for end in listeners))
                await asyncio.sleep(_PAUSE_S)
            latencies_ms = [
                1e3 * (came_s - began_s)
                for end in listeners
                for began_s, came_s in zip(wrote_s, end.came_s, strict=True)
            ]
            began_s = await write(burst)
            await asyncio.gather(*(end.until_count(single + burst) for end in listeners))
            took_s = time.perf_counter() - began_s
            busy_mb = _anonymous_mb(connector)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*(end.connection.close() for end in everybody), return_exceptions=True)
    latencies_ms.sort()
    return {
        "messages_per_s": round(peers * burst / took_s),
        "p50_ms": round(statistics.median(latencies_ms), 2),
        "p99_ms": round(latencies_ms[len(latencies_ms) * 99 // 100], 2),
        "worst_ms": round(latencies_ms[-1], 2),
        "samples": len(latencies_ms),
        "connector_mb": {"idle": round(idle_mb), "live": round(live_mb), "busy": round(busy_mb)},
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_play(*map(int, sys.argv[1:])))))
