"""The walk of one entry, and of one message, through Culm's files: `make walk`.

One entry goes from a peer over QUIC to an edge, to `entries`, through the job to `logs`, and to a peer in
live mode at another edge. One message of a hosted SDS participant goes to its acknowledgement. Every process
except the peers' records which functions it enters (`walk_hook`); functions that it also enters while idle
are left out. For each way, the output is: the files entered, the returns (how often a thread comes back to a
file that it had left), and the files of which only functions were entered that call another file.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition

from bench.latency import LivePair, live_peer
from bench.rig import Rig, wait_until
from culm_topics.kafka.clients import KafkaSettings, consumer

_ROOT = Path(__file__).resolve().parents[1]
_FLOORS = ("models", "topics", "streaming", "connectors", "infra")
_IDLE_S = 8.0
_PERIOD_S = 32.0
"""Longer than any interval at which a process does something by itself."""
_TIMEOUT_S = 120.0
_IDLE, _WALK = 1, 2


Location = tuple[str, str, int]
"""A function: its file, name and first line."""


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One entry of a function."""

    time_ns: int
    phase: int
    thread: str
    """Unique among all processes."""
    location: Location
    caller: Location
    """The function that called it; without a file if the caller is not one of Culm's functions."""


@dataclass(frozen=True, slots=True)
class Way:
    """Files entered by one entry or message on its way."""

    files: tuple[str, ...]
    """In the order in which they were first entered."""
    returns: int
    only_hand_on: tuple[str, ...]


class Recorder:
    """The phase that all processes see, and their records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._phase = folder / "phase"
        self._phase.write_bytes(b"\0")
        self.variables = {
            "CULM_WALK": str(folder),
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(Path(__file__).parent / "walk_hook"), os.environ.get("PYTHONPATH")))
            ),
        }

    @contextlib.contextmanager
    def phase(self, number: int) -> Iterator[None]:
        """Record the functions that are entered meanwhile."""
        self._set(number)
        try:
            yield
        finally:
            self._set(0)

    def _set(self, number: int) -> None:
        with self._phase.open("r+b") as file:
            file.write(bytes([number]))

    def way(self) -> Way:
        """Return what was entered in the walk and not while idle."""
        steps = sorted(step for path in self.folder.glob("*.walk") for step in _steps(path))
        idle = {step.location for step in steps if step.phase == _IDLE}
        entered: dict[str, set[Location]] = defaultdict(set)
        returns = 0
        left: dict[str, set[str]] = defaultdict(set)
        at: dict[str, str] = {}
        callers: set[Location] = set()
        for step in steps:
            if step.phase != _WALK or step.location in idle:
                continue
            file = step.location[0]
            entered[file].add(step.location)
            if step.caller[0] != file:
                callers.add(step.caller)
            if (former := at.get(step.thread)) == file:
                continue
            if former is not None:
                left[step.thread].add(former)
            returns += file in left[step.thread]
            at[step.thread] = file
        hand_on = [
            file
            for file, locations in entered.items()
            if locations <= callers and _only_calls(file, locations)
        ]
        return Way(tuple(entered), returns, tuple(hand_on))


def _steps(path: Path) -> Iterator[Step]:
    for line in path.read_text().splitlines():
        phase, time_ns, thread, *locations = line.split("\t")
        location, caller = (
            (file, name, int(number)) for file, name, number in (locations[:3], locations[3:])
        )
        yield Step(int(time_ns), int(phase), f"{path.stem} {thread}", location, caller)


def _only_calls(file: str, locations: set[Location]) -> bool:
    """Whether each of these functions of a file only calls something."""
    path = next(path for floor in _FLOORS if (path := _ROOT / floor / file).exists())
    bodies = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            bodies[first_line] = [
                statement
                for statement in node.body
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            ]
    called = [bodies[line] for _, _, line in locations if line in bodies]
    return bool(called) and all(len(body) == 1 and _is_call(body[0]) for body in called)


def _is_call(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Return | ast.Expr):
        return False
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    if not isinstance(value, ast.Call):
        return False
    # `b"".join(…)` does not call another file: it makes the value here.
    return not (isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Constant))


def entry_way(rig: Rig) -> Way:
    """Walk one entry from a peer to `logs` and to a live peer at another edge."""
    kafka = rig.topics("entry.", partitions=1)
    with tempfile.TemporaryDirectory(prefix="culm-walk-") as folder:
        recorder = Recorder(Path(folder))
        os.environ |= recorder.variables
        ports = [rig.connector(name, kafka)[1] for name in ("first", "second")]
        _jobs(rig, "entry-jobs", kafka, "logs")
        asyncio.run(_entry(rig, kafka, recorder, ports))
        return recorder.way()


def _jobs(rig: Rig, name: str, kafka: KafkaSettings, which: str) -> None:
    checkpoints = str(rig.folder / f"{name}-state")
    rig.culm(name, "job", "run", which, "--master", "local[2]", "--checkpoints", checkpoints, kafka=kafka)


async def _entry(rig: Rig, kafka: KafkaSettings, recorder: Recorder, ports: list[int]) -> None:
    async with live_peer(rig, "writer") as writer, live_peer(rig, "reader") as reader:
        for peer, port in zip((writer, reader), ports, strict=True):
            peer.dial(("127.0.0.1", port))
        pair = LivePair(writer, reader)
        await pair.settle()
        await asyncio.to_thread(_await_logs, kafka)
        await asyncio.sleep(_IDLE_S)
        with recorder.phase(_IDLE):
            await asyncio.sleep(_PERIOD_S)
        with recorder.phase(_WALK):
            await pair.once()
            # The job and the readers of `logs` come after the live path.
            await asyncio.sleep(_IDLE_S)


def _await_logs(kafka: KafkaSettings) -> None:
    """Wait until the job has written the entries that settled the pair."""
    reader = consumer(kafka, group_id="walk", start="earliest")
    try:
        partition = TopicPartition(kafka.topic("logs"), 0)
        wait_until(
            lambda: reader.get_watermark_offsets(partition, timeout=10.0)[1] > 0,
            "entries in logs",
            _TIMEOUT_S,
        )
    finally:
        reader.close()


class Participant:
    """A `culm sds join --json` process of a hosted participant."""

    def __init__(self, rig: Rig, port: int, name: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "CULM_WALK"}
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "culm_infra", "sds", "join", "tide", f"127.0.0.1:{port}"),
                *("--participant", name, "--dir", str(rig.folder / name), "--hosted", "--json"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONUNBUFFERED": "1"},
        )
        self._lines: list[dict[str, object]] = []
        self._joined = threading.Event()
        for read in (self._read_events, self._read_remarks):
            threading.Thread(target=read, daemon=True).start()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(json.loads(line))

    def _read_remarks(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("joined at"):
                self._joined.set()

    def wait_until_joined(self) -> None:
        """Wait until the edge has admitted it: a new participant receives only later messages."""
        if not self._joined.wait(_TIMEOUT_S):
            raise TimeoutError(f"joined: not within {_TIMEOUT_S:.0f} s")

    def say(self, text: str) -> None:
        """Send a message."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def wait_for(self, **wanted: object) -> dict[str, object]:
        """Wait until a line with these values has been printed."""

        def matching_lines() -> list[dict[str, object]]:
            return [
                line for line in self._lines if all(line.get(key) == value for key, value in wanted.items())
            ]

        wait_until(lambda: bool(matching_lines()), f"a line with {wanted}", _TIMEOUT_S)
        return matching_lines()[0]

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def message_way(rig: Rig) -> Way:
    """Walk one message of a hosted participant, from its client to the acknowledgement shown there."""
    kafka = rig.topics("message.", partitions=1)
    with tempfile.TemporaryDirectory(prefix="culm-walk-") as folder, contextlib.ExitStack() as stack:
        recorder = Recorder(Path(folder))
        os.environ |= recorder.variables
        ports = [rig.connector(name, kafka)[1] for name in ("third", "fourth")]
        _jobs(rig, "message-jobs", kafka, "sds")
        ann, ben = (Participant(rig, port, name) for port, name in zip(ports, ("ann", "ben"), strict=True))
        stack.callback(ann.stop)
        stack.callback(ben.stop)
        for participant in (ann, ben):
            participant.wait_until_joined()
        for number in range(3):
            _acknowledged(ann, ben, f"warm {number}")
        time.sleep(_IDLE_S)
        # Not for `_PERIOD_S`: a quiet channel syncs, which enters most of what a message enters.
        with recorder.phase(_IDLE):
            time.sleep(_IDLE_S)
        with recorder.phase(_WALK):
            _acknowledged(ann, ben, "walked")
        return recorder.way()


def _acknowledged(ann: Participant, ben: Participant, text: str) -> None:
    ann.say(text)
    message_id = ben.wait_for(kind="message", text=text)["message_id"]
    # Ben's message names the message that it answers.
    ben.say(f"heard {text}")
    ann.wait_for(kind="acknowledged", message_id=message_id)


def main() -> None:
    """Walk both ways and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files in their order")
    parser.add_argument("--only", choices=("entry", "message"), help="one way alone")
    arguments = parser.parse_args()
    ways = {"entry": entry_way, "message": message_way}
    for name in (arguments.only,) if arguments.only else tuple(ways):
        with Rig() as rig:
            way = ways[name](rig)
        print(
            f"{name}: {len(way.files)} files, {way.returns} returns, "
            f"{len(way.only_hand_on)} files that only hand on"
        )
        for file in way.files if arguments.files else way.only_hand_on:
            print(f"  {file}{'  (only hands on)' if file in way.only_hand_on else ''}")


if __name__ == "__main__":
    main()
