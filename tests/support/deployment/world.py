"""A deployment for end-to-end tests: topics, `culm job run all` and two connectors, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.transport import Address
from culm_infra.demo.kit.processes import CulmProcess, DemoError, descendants, environment, stop_all
from culm_infra.patience import Patience
from culm_infra.stack.ports import free_ports
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings

DEADLINE_S = 150.0
_POLL_S = 0.02
_PAUSE_RATIO = 3
"""Pause between two checks as a multiple of the time of the last one: Spark needs the processor."""
_LONGEST_PAUSE_S = 0.5
_CHECKED_EVERY = 25
_SERVING = "serving peers"
_SHOWN_LINES = 40

WORLDS: list[World] = []
"""Those that run now: what their processes printed belongs in the report of a failed test."""


@dataclass
class Edge:
    """One connector process at its network edge."""

    process: CulmProcess
    folder: Path
    port: int
    _said_before: int = 0

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.port

    @property
    def peer_id(self) -> bytes:
        return load_or_make_key(self.folder).public_key

    @property
    def is_serving(self) -> bool:
        """Whether this start of it, not an earlier one, has said that it serves."""
        self.process.check()
        return self._said() > self._said_before

    def _said(self) -> int:
        log = self.process.log
        return log.read_text(errors="replace").count(_SERVING) if log.exists() else 0

    def start(self) -> None:
        self._said_before = self._said()
        self.process.start()

    def kill(self) -> None:
        self.process.kill()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP while the context lasts."""
        with frozen(self.process.pid):
            yield

    def anonymous_bytes(self) -> int:
        """Memory that it has taken for itself; the mapped file of the index is not in it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
        return int(line.split()[1]) * 1024


@dataclass
class World:
    """Kafka's topics, the streaming jobs and two edges; every wait ends early when a process has ended."""

    folder: Path
    kafka: KafkaSettings
    jobs: CulmProcess
    west: Edge
    east: Edge

    @property
    def edges(self) -> tuple[Edge, Edge]:
        return self.west, self.east

    @property
    def processes(self) -> tuple[CulmProcess, ...]:
        return self.jobs, self.west.process, self.east.process

    def check(self) -> None:
        for process in self.processes:
            process.check()

    async def until(
        self,
        condition: Callable[[], Any],
        what: Callable[[], object] | str = "",
        *,
        timeout_s: float = DEADLINE_S,
    ) -> None:
        """Wait until a condition holds; `what` says what is missing when nothing is printed for so long."""
        patience = Patience(timeout_s, lambda: [process.printed_bytes() for process in self.processes])
        rounds = 0
        while True:
            began_s = time.monotonic()
            if condition():
                return
            took_s = time.monotonic() - began_s
            rounds += 1
            pause_s = max(_POLL_S, min(_PAUSE_RATIO * took_s, _LONGEST_PAUSE_S))
            if pause_s > _POLL_S or rounds % _CHECKED_EVERY == 0:
                self.check()
                patience.check(lambda: str(what() if callable(what) else what))
            await asyncio.sleep(pause_s)

    async def until_serving(self) -> None:
        await self.until(lambda: all(edge.is_serving for edge in self.edges), "connectors that serve")

    def repair(self) -> None:
        """Start again what does not run, or has ended by itself."""
        for process in self.processes:
            with contextlib.suppress(DemoError):
                process.check()
                continue
            process.stop()
        if not self.jobs.is_running:
            self.jobs.start()
        for edge in self.edges:
            if not edge.process.is_running:
                edge.start()

    def kill_jobs(self) -> None:
        """SIGKILL to the driver's whole process tree: Python, the Java machine and the workers."""
        self.jobs.kill_tree()

    @contextlib.contextmanager
    def frozen_jobs(self) -> Iterator[None]:
        """SIGSTOP the whole process tree of the jobs while the context lasts."""
        with contextlib.ExitStack() as stack:
            for pid in (self.jobs.pid, *descendants(self.jobs.pid)):
                with contextlib.suppress(ProcessLookupError):
                    stack.enter_context(frozen(pid))
            yield

    def last_words(self) -> dict[str, str]:
        """The last lines of every process."""
        return {
            process.name: "\n".join(process.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
            for process in self.processes
            if process.log.exists()
        }


@contextlib.contextmanager
def running_world(folder: Path, bootstrap: str, prefix: str, *job_options: str) -> Iterator[World]:
    """Create the topics, start everything, wait until both edges serve; stop everything at the end."""
    kafka = KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=2)
    admin.create(kafka)
    variables = environment(kafka) | {"CULM_STACK__DIRECTORY": str(folder / "stack")}
    folder.mkdir(parents=True, exist_ok=True)
    # Two state partitions, as in the other tests on Spark: a micro-batch of a cold JVM costs by its tasks.
    arguments = (
        *("job", "run", "all", "--checkpoints", str(folder / "checkpoints")),
        *("--master", "local[2]", "--state-partitions", "2", *job_options),
    )
    jobs = CulmProcess("the streaming jobs", arguments, variables, folder / "jobs.log")
    edges = []
    for name, port in zip(("west", "east"), free_ports(2), strict=True):
        command = ("connector", "run", "--listen", f"127.0.0.1:{port}", "--dir", str(folder / name))
        process = CulmProcess(f"the connector {name}", command, variables, folder / f"{name}.log")
        edges.append(Edge(process, folder / name, port))
    world = World(folder, kafka, jobs, *edges)
    WORLDS.append(world)
    try:
        jobs.start()
        for edge in edges:
            edge.start()
        asyncio.run(world.until_serving())
        yield world
    finally:
        WORLDS.remove(world)
        for process in world.processes:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        stop_all(world.processes)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP a process, and SIGCONT at the end whatever happens."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
