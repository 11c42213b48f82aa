"""A connector that starts with an empty index: serving from `blocks` against reading all of `logs` first.

There are a million logs of one entry (or CULM_BENCH_BOOT_LOGS) on one broker; `logs` and `blocks` are written
as their jobs would write them. Each start is a separate process with a new folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.block_records import BLOCK_BITS, heights_by_block, produce_block
from bench.harness import BenchSettings, Ratio, say
from bench.producing import flush, produce
from bench.rig import Rig
from culm_infra.demo.p2panda.plan import SCHEMAS, DemoLogWriter
from culm_models.bamboo import hash_bytes
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import BlockProgress, LogRecord, ProgressKey
from culm_topics.records import log_key

_LOGS = 1_000_000
_QUICK_LOGS = 20_000
_START_TIMEOUT_S = 900.0
_SCHEMA = SCHEMAS[0]
Keys = NDArray[np.uint8]
_GOAL = 0.1
"""Goal: serving from `blocks` in a tenth of the time."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Start from `logs` alone, write `blocks`, start again."""
    count = int(os.environ.get("CULM_BENCH_BOOT_LOGS", _QUICK_LOGS if settings.quick else _LOGS))
    with Rig() as rig:
        kafka = rig.topics("boot.", partitions=1)
        keys = np.random.default_rng(1).integers(0, 256, (count, 32), np.uint8)
        keys = keys[np.argsort(np.ascontiguousarray(keys).view("S32").reshape(-1))]
        _write_logs(kafka, keys)
        say(f"  {count:,} logs are written")
        from_logs = _start(rig, kafka, "from-logs")
        say(f"  from `logs`: serves after {from_logs['serves_s']:.1f} s")
        records = _write_blocks(kafka, keys)
        from_blocks = _start(rig, kafka, "from-blocks")
        served, whole = from_blocks["serves_s"], from_blocks["whole_s"]
        say(f"  from `blocks`: serves after {served:.1f} s, whole after {whole:.1f} s")
    details = {"logs": count, "block_records": records, "from_logs": from_logs, "from_blocks": from_blocks}
    return [
        Ratio(
            "boot",
            name,
            1e3 * from_blocks[what],
            1e3 * from_logs["serves_s"],
            "ms",
            "until all of `logs` has been read",
            goal,
            higher_is_better=False,
            details=details,
        )
        for name, what, goal in (
            ("start from blocks until served", "serves_s", _GOAL),
            ("start from blocks until the index is whole and verified", "whole_s", None),
        )
    ]


def _start(rig: Rig, kafka: KafkaSettings, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.boot", str(rig.folder / name), kafka.model_dump_json()]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_START_TIMEOUT_S, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _entries(keys: Keys) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield public key, entry and operation of logs of one entry. Unsigned: `logs` is not verified again."""
    writer = DemoLogWriter(KeyPair.generate(bytes(32)), 0, _SCHEMA)
    entry, operation = writer.append({"title": "reed", "count": 1})
    for key in keys:
        public_key = key.tobytes()
        yield public_key, entry[:1] + public_key + entry[33:], operation


def _write_logs(kafka: KafkaSettings, keys: Keys) -> None:
    client, topic = producer(kafka, bulk=True), kafka.topic("logs")
    for public_key, entry, operation in _entries(np.random.default_rng(2).permutation(keys)):
        value = LogRecord(1, entry, operation, hash_bytes(entry), _SCHEMA).encode()
        produce(client, topic, log_key(public_key, 0), value, 0)
    flush(client)


def _write_blocks(kafka: KafkaSettings, keys: Keys) -> int:
    """Write chunks and summaries of all blocks. Returns the number of records."""
    client, topic = producer(kafka), kafka.topic("blocks")
    version = ((0, len(keys)),)
    records = 1
    for heights in heights_by_block(keys, np.ones(len(keys), np.uint64)):
        records += produce_block(client, topic, _SCHEMA.encode(), heights, version, heights.log_count, 0)
    produce(client, topic, ProgressKey(BLOCK_BITS, 0).encode(), BlockProgress(1, version).encode(), 0)
    flush(client)
    return records


def _measure(folder: Path, kafka: KafkaSettings) -> dict[str, float]:
    """Start a connector, measure when it serves and when its index is complete, and stop it."""
    import asyncio

    from culm_connectors.connector import Connector
    from culm_connectors.p2panda.protocol import P2pandaProtocol
    from culm_connectors.p2panda.settings import P2pandaSettings
    from culm_connectors.settings import ConnectorSettings
    from culm_connectors.transport import Address

    figures: dict[str, float] = {}
    began_s = time.monotonic()

    def started(_: Address | None) -> None:
        figures["serves_s"] = time.monotonic() - began_s
        figures["serves_mb"] = _anonymous_mb()

    async def work() -> None:
        settings = ConnectorSettings(directory=folder, p2panda=P2pandaSettings(schemas=(_SCHEMA,)))
        connector = Connector(settings, kafka, started=started, progress=lambda *_: None)

        def p2panda() -> P2pandaProtocol:
            protocol = connector.protocols["p2panda"]
            assert isinstance(protocol, P2pandaProtocol)
            return protocol

        running = asyncio.create_task(connector.run())
        while not running.done():
            await asyncio.sleep(0.05)
            if "serves_s" in figures and not p2panda().parts.logs.warm_start.claims.anything:
                break
        figures["whole_s"] = time.monotonic() - began_s
        figures["whole_mb"] = _anonymous_mb()
        figures["entries"] = float(p2panda().index.store.counts()[1])
        connector.stop()
        await running

    asyncio.run(work())
    return figures


def _anonymous_mb() -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), KafkaSettings.model_validate_json(sys.argv[2]))))
