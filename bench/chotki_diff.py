"""Diff sync of Chotki: to a fresh replica, beside the Go replica; its growth; the cost of one edit."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import chotki_ends, chotki_go
from bench import chotki_material as material
from bench.chotki_go import GoReplica
from bench.harness import BenchSettings, Ratio, exponent, middle_pair, say
from bench.rig import Helper, Rig
from culm_infra.stack.ports import free_ports
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.rdx.first import write_stamp
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record

_TIME_GOAL, _BYTES_GOAL, _EXPONENT_GOAL, _EDIT_GOAL = 2.0, 1.0, 1.05, 0.01
_GO_ELSEWHERE_S = 0.90
"""Time of 100,000 objects of three fields between two tuned Go replicas, measured on a comparable machine."""
_GO_SRC, _GO_FETCHING_SRC = 0xC, 0xD
_READ_BYTES = 64 * 1024
_TIMEOUT_S = 300.0


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure a transfer between separate processes; growth and edits between two replicas in one process."""
    objects, rounds = (2_000, 1) if settings.quick else (100_000, 3)
    sizes = (1_000, 3_162) if settings.quick else (10_000, 31_623, 100_000, 316_228, 1_000_000)
    block = 2_000 if settings.quick else 65_536
    with Rig(broker=False) as rig:
        ratios = _to_a_fresh_replica(rig.folder, objects, rounds)
    return [*ratios, _growth(sizes), _one_edit(block)]


# To a fresh replica.


def _to_a_fresh_replica(folder: Path, objects: int, rounds: int) -> list[Ratio]:
    program = chotki_go.implementation()
    if program is None:
        say(f"  the Go replica is not given: {chotki_go.VARIABLE} names no program")
    entry = Id(chotki_ends.SRC, material.last_entry(chotki_ends.SRC, objects))
    serving = Helper(("serve", str(folder / "edge"), str(objects)), module="bench.chotki_ends")
    try:
        port = int(serving.hear()["port"])
        if program is None:
            fetched = [_fetch(port, entry) for _ in range(rounds)]
            ours = sorted(run["seconds"] for run in fetched)[rounds // 2]
            limit = _GO_ELSEWHERE_S * objects / 100_000
            name = "Go's 0.90 s for 100,000, another machine"
            return [_time_ratio("to a fresh replica", objects, ours, limit, name, {"rounds": fetched})]
        return _beside_go(program, folder, port, entry, objects, rounds)
    finally:
        serving.stop()


def _beside_go(program: Path, folder: Path, port: int, entry: Id, objects: int, rounds: int) -> list[Ratio]:
    go_entry = Id(_GO_SRC, material.last_entry(_GO_SRC, objects))
    (go_port,) = free_ports(1)
    ours: list[dict[str, float]] = []
    from_go: list[dict[str, float]] = []
    between_go: list[float] = []
    to_go: list[float] = []
    with chotki_go.running(GoReplica(program, folder / "go", _GO_SRC)) as go:
        class_text = go.commit("C", "0-0", material.class_body())
        go.commit("O", class_text, material.object_body(), objects)
        go.ask("listen", addr=f"tcp://127.0.0.1:{go_port}")
        for number in range(rounds):
            fresh = folder / f"fresh-{number}"
            ours.append(_fetch(port, entry))
            between_go.append(_go_fetch(program, fresh / "a", go_port, go_entry))
            from_go.append(_fetch(go_port, go_entry))
            to_go.append(_go_fetch(program, fresh / "b", port, entry))
            say(
                f"  to a fresh replica: ours {ours[-1]['seconds']:.2f} s, Go {between_go[-1]:.2f} s, "
                f"Go to ours {from_go[-1]['seconds']:.2f} s, ours to Go {to_go[-1]:.2f} s"
            )
    details = {"rounds": ours, "go_rounds": between_go}
    seconds = [round_["seconds"] for round_ in ours]
    name = "Go to Go, read window 30 ms"
    return [
        _time_ratio("to a fresh replica", objects, *middle_pair(seconds, between_go), name, details),
        Ratio(
            "chotki-diff",
            f"bytes of {objects:,} objects",
            ours[0]["bytes"],
            from_go[0]["bytes"],
            "bytes",
            "what a Go replica sends",
            goal=_BYTES_GOAL,
            higher_is_better=False,
        ),
        _time_ratio("ours to a fresh Go replica", objects, *middle_pair(to_go, between_go), name, {}, None),
        _time_ratio(
            "Go to a fresh replica of ours",
            objects,
            *middle_pair([round_["seconds"] for round_ in from_go], between_go),
            name,
            {},
            None,
        ),
    ]


def _time_ratio(
    what: str,
    objects: int,
    seconds: float,
    limit_s: float,
    limit_name: str,
    details: dict[str, object],
    goal: float | None = _TIME_GOAL,
) -> Ratio:
    return Ratio(
        "chotki-diff",
        f"{what}, {objects:,} objects",
        1e3 * seconds,
        1e3 * limit_s,
        "ms",
        limit_name,
        goal=goal,
        higher_is_better=False,
        details=details,
    )


def _fetch(port: int, entry: Id) -> dict[str, float]:
    """Return the measurements of a fresh replica of ours that connects to the port."""
    command = [sys.executable, "-m", "bench.chotki_ends", "fetch", str(port), str(entry)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _go_fetch(program: Path, folder: Path, port: int, entry: Id) -> float:
    """Return the seconds until a fresh Go replica that connects to the port has everything."""
    with chotki_go.running(GoReplica(program, folder, _GO_FETCHING_SRC)) as fresh:
        started_s = time.perf_counter()
        fresh.ask("connect", addr=f"tcp://127.0.0.1:{port}")
        while str(entry) not in fresh.vector().split(","):
            assert time.perf_counter() - started_s < _TIMEOUT_S, "the Go replica does not get there"
            time.sleep(0.002)
        return time.perf_counter() - started_s


# Growth, and one edit.


def _growth(sizes: tuple[int, ...]) -> Ratio:
    """Measure the processor time of both ends by the number of objects."""
    taken: list[float] = []
    for objects in sizes:
        replica = Replica(0xA, MemoryStore(material.store(0xA, objects)))
        other = Replica(0xB, MemoryStore(material.store(0xB, 0)))
        # As in an edge, the collector ignores objects that existed before.
        gc.collect()
        gc.freeze()
        started_s = time.process_time()
        _sync(replica, other)
        taken.append(time.process_time() - started_s)
        gc.unfreeze()
        assert other.vector() == replica.vector(), "a sync brings everything"
        say(f"  {objects:,} objects: {objects / taken[-1]:,.0f} objects/s of processor's time")
    return Ratio(
        "chotki-diff",
        f"diff sync, {sizes[0]:,} to {sizes[-1]:,} objects, exponent of the time",
        exponent(sizes, taken),
        1.0,
        "",
        "linear",
        goal=_EXPONENT_GOAL,
        higher_is_better=False,
        details=dict(zip(map(str, sizes), taken, strict=True)),
    )


def _one_edit(objects: int) -> Ratio:
    """Measure the bytes that one edit of a counter sends for a full block, when two replicas meet again."""
    replica, other = Replica(0xA, name="one"), Replica(0xB, name="other")
    class_body = write_class([ClassField(1, "N", "Count")])
    class_id = replica.commit("C", Id(0, 0), class_body, 0).id
    counter = record("N", record("T", write_stamp(1, 0xA)))
    edit = record("f", b"\x01") + record("N", record("T", write_stamp(7, 0xB)))
    # The replica's own object, the class and the objects exactly fill the block.
    made = [replica.commit("O", class_id, counter, 0).id for _ in range(objects - 2)]
    whole = _sync(replica, other)
    other.commit("E", made[len(made) // 2], edit, 0)
    sent = _sync(other, replica)
    assert replica.store.values() == other.store.values(), "the edit arrives"
    return Ratio(
        "chotki-diff",
        f"one edit among {objects:,} objects with counters",
        sent,
        whole,
        "bytes",
        "the whole block",
        goal=_EDIT_GOAL,
        higher_is_better=False,
    )


def _sync(replica: Replica, other: Replica) -> int:
    """Run a session of both until both diffs are complete. Returns the bytes that `replica` sends."""
    name = f"session {len(replica.sessions)}"
    sent = 0
    to_other, to_replica = replica.open_session(name, 0).of(name), other.open_session(name, 0).of(name)
    while to_other or to_replica:
        outgoing, incoming = b"".join(to_other), b"".join(to_replica)
        sent += len(outgoing)
        to_replica = _read(lambda piece: other.receive(name, piece, 0).of(name), outgoing)
        to_other = _read(lambda piece: replica.receive(name, piece, 0).of(name), incoming)
    replica.lose_session(name, 0)
    other.lose_session(name, 0)
    return sent


def _read(receive: Callable[[bytes], list[bytes]], data: bytes) -> list[bytes]:
    answers: list[bytes] = []
    for at in range(0, len(data), _READ_BYTES):
        answers += receive(data[at : at + _READ_BYTES])
    return answers
