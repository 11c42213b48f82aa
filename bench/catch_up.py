"""Catching up one peer, with verification and storage, against a bare QUIC stream of the same bytes."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
from collections.abc import Sequence

from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.material import entries
from bench.rig import Rig, cpu_used
from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.p2panda.reference_peer.peer import STORE_FOLDER
from culm_connectors.transport import TransportSettings
from culm_connectors.transport.quic.probe import measure_stream
from culm_infra.demo.p2panda.plan import SCHEMAS, EntryPair
from culm_infra.stack.ports import free_ports
from culm_models.bamboo.checks import CheckedEntry
from culm_models.p2panda.operations.operation import check_many, peek
from culm_models.p2panda.wire.codec import encode_entry_message

_GOAL = 0.3
_AQUADOGGO_ENTRIES_PER_S = 175
"""Rate of two aquadoggo 0.9.1 nodes on one machine, measured elsewhere; for scale only."""
_APPEND = 5_000
_READY_TIMEOUT_S = 60.0
_SYNC_TIMEOUT_S = 300.0
_SCHEMA_FLAGS = tuple(part for schema in SCHEMAS for part in ("--schema", schema))


def run(settings: BenchSettings) -> list[Ratio]:
    """Run `culm p2panda peer sync` against `serve`, as separate processes, at two datagram sizes."""
    count, rounds = (5_000, 1) if settings.quick else (100_000, 2)
    ratios = []
    with Rig(broker=False) as rig:
        pairs = entries(count, seed=5)
        total_bytes = sum(len(encode_entry_message(0, *pair)) for pair in pairs)
        say(f"  {count:,} entries, {total_bytes / 1e6:,.1f} MB")
        _fill(rig, pairs)
        for datagram_bytes in (1_200, 8_900):
            ratios += _measured(rig, count, total_bytes, datagram_bytes, rounds)
    return ratios


def _measured(rig: Rig, count: int, total_bytes: int, datagram_bytes: int, rounds: int) -> list[Ratio]:
    ours: list[float] = []
    one_process: list[float] = []
    two_processes: list[float] = []
    cpu: dict[str, float] = {}
    for number in range(rounds):
        probe = asyncio.run(measure_stream(total_bytes, TransportSettings(datagram_bytes=datagram_bytes)))
        one_process.append(probe.bytes_per_second)
        two_processes.append(_bare(rig, total_bytes, datagram_bytes))
        seconds, cpu = _sync(rig, f"taker-{datagram_bytes}-{number}", count, datagram_bytes)
        ours.append(total_bytes / seconds)
        say(
            f"  {datagram_bytes} bytes: {count / seconds:,.0f} entries/s; MB/s: {ours[-1] / 1e6:.2f} of "
            f"{one_process[-1] / 1e6:.2f} in one process, {two_processes[-1] / 1e6:.2f} in two"
        )
    rate = statistics.median(ours)
    entry_rate = rate * count / total_bytes
    details = {
        "entries": count,
        "entries_per_second": round(entry_rate),
        "times_two_aquadoggo_nodes": round(entry_rate / _AQUADOGGO_ENTRIES_PER_S, 1),
        "cpu_us_per_entry": {name: round(1e6 * used / count, 1) for name, used in cpu.items()},
    }
    name = f"catch-up, datagrams of {datagram_bytes}"
    return [
        Ratio("e", name, *_in_kb(middle_pair(ours, limit)), "kB/s", what, goal, details=details)
        for limit, what, goal in (
            (one_process, "bare stream, one process for both ends", _GOAL),
            (two_processes, "bare stream, a process for each end", None),
        )
    ]


def _in_kb(pair: tuple[float, float]) -> tuple[float, float]:
    return pair[0] / 1e3, pair[1] / 1e3


def _fill(rig: Rig, pairs: Sequence[EntryPair]) -> None:
    folder = rig.folder / "giver"
    load_or_make_key(folder)
    store = LmdbLogStore(peek, folder / STORE_FOLDER, durable=False)
    try:
        for start in range(0, len(pairs), _APPEND):
            checked = check_many(pairs[start : start + _APPEND], verify_signature=False)
            store.append([entry for entry in checked if isinstance(entry, CheckedEntry)])
    finally:
        store.close()


def _bare(rig: Rig, total_bytes: int, datagram_bytes: int) -> float:
    with rig.helper("sink", str(datagram_bytes)) as sink:
        port = sink.hear()["port"]
        with rig.helper("send", str(total_bytes), str(port), str(datagram_bytes)):
            report = sink.hear()
    assert report["bytes"] == total_bytes, report
    return float(report["bytes"] / report["seconds"])


def _sync(rig: Rig, name: str, count: int, datagram_bytes: int) -> tuple[float, dict[str, float]]:
    """Return the seconds of one synchronisation from nothing, with connecting, and the processor time
    used.
    """
    (port,) = free_ports(1)
    where = f"127.0.0.1:{port}"
    size = {"CULM_PEER__DATAGRAM_SIZE": str(datagram_bytes)}
    server = rig.culm(
        f"giver-to-{name}",
        *("p2panda", "peer", "serve", "--listen", where, "--dir", str(rig.folder / "giver"), *_SCHEMA_FLAGS),
        variables=size,
    )
    server.wait_for_log("serving as", _READY_TIMEOUT_S)
    command = ["p2panda", "peer", "sync", where, "--dir", str(rig.folder / name), "--json", *_SCHEMA_FLAGS]
    before = os.times()
    with cpu_used(giver=server.pid) as used:
        done = subprocess.run(
            [*rig.command, *command],
            env={**os.environ, **size},
            stdout=subprocess.PIPE,
            timeout=_SYNC_TIMEOUT_S,
            check=True,
        )
    after = os.times()
    server.stop()
    summary = json.loads(done.stdout)
    assert summary["entries_received"] == count, summary
    taker = after.children_user + after.children_system - before.children_user - before.children_system
    return float(summary["duration_s"]), used | {"taker": taker}
