"""The stage of a demo: its folder, Kafka with topics, processes, and waiting while anything changes."""

from __future__ import annotations

import asyncio
import glob
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from culm_infra.console.beside import start_beside
from culm_infra.demo.kit.processes import CulmProcess, Show, environment, running
from culm_infra.patience import Patience
from culm_infra.stack import Stack
from culm_infra.stack.ports import HOST
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import TopicSpec

_Result = TypeVar("_Result")
_STEP_S: Final = 0.05
_PAUSE_RATIO: Final = 3
"""Pause between two checks as a multiple of the time of the last one: Spark needs the processor."""
_LONGEST_PAUSE_S: Final = 0.5


@dataclass(slots=True)
class DemoStage:
    """Folder, Kafka and processes of a demo. Everything is stopped at the end, except a Kafka to keep.

    A local stack is started in the demo's directory unless `cluster` names one. `timeout_s`: seconds for
    which a wait continues while nothing changes. `watched`: functions whose results change during progress,
    beside the output of processes.
    """

    directory: Path
    show: Show
    timeout_s: float
    cluster: KafkaSettings | None = None
    heap_mb: int | None = None
    keep: bool = False
    processes: list[CulmProcess] = field(default_factory=list)
    watched: list[Callable[[], object]] = field(default_factory=list)

    @property
    def output(self) -> Path:
        """Folder of the processes' output."""
        folder = self.directory / "output"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @asynccontextmanager
    async def kafka(self, topics: Sequence[TopicSpec] = CATALOGUE) -> AsyncIterator[KafkaSettings]:
        """Start Kafka with these topics; the processes are stopped before it."""
        with ExitStack() as stack:
            kafka = self.cluster
            if kafka is None:
                local = Stack(self.directory)
                self.show("starting Kafka")
                if not self.keep:
                    stack.callback(local.down)
                bootstrap = await asyncio.to_thread(local.up, heap_mb=self.heap_mb, quick_start=True)
                kafka = KafkaSettings(bootstrap=bootstrap)
            if topics:
                self.show("creating the topics")
                await asyncio.to_thread(admin.create, kafka, topics)
                await self.console(kafka)
            stack.enter_context(running(self.processes))
            yield kafka

    async def console(self, kafka: KafkaSettings) -> None:
        """Start a console for a Kafka to keep, which stays beside it; it shows the processes of the demo."""
        if not self.keep:
            return
        folder = glob.escape(str(self.directory))
        targets = [f"unix:{folder}/*/status.sock", f"unix:{folder}/run/job-*.sock"]
        log = self.output / "console.log"
        console = await asyncio.to_thread(
            start_beside, self.directory, self._environment(kafka), targets, log
        )
        self.show(f"no console: see {log}" if console is None else f"the console is at {console.url}")

    def _environment(self, kafka: KafkaSettings) -> dict[str, str]:
        """Return the environment of processes: their status sockets and logs are in the demo's directory."""
        return environment(kafka) | {"CULM_STACK__DIRECTORY": str(self.directory)}

    def process(
        self, name: str, arguments: Sequence[str], kafka: KafkaSettings, log: str, **variables: str
    ) -> CulmProcess:
        """Create a `culm` command of the demo, not started yet."""
        environs = self._environment(kafka) | variables
        process = CulmProcess(name, tuple(arguments), environs, self.output / f"{log}.log")
        self.processes.append(process)
        return process

    def job(
        self,
        *names: str,
        kafka: KafkaSettings,
        log: str = "job",
        checkpoints: str = "checkpoints",
        **variables: str,
    ) -> CulmProcess:
        """Create a process of these jobs and groups, with checkpoints in the demo's directory."""
        arguments = ("job", "run", *names, "--checkpoints", str(self.directory / checkpoints))
        return self.process(f"the job {' '.join(names)}", arguments, kafka, log, **variables)

    def connector(
        self, name: str, port: int, kafka: KafkaSettings, *, folder: str | None = None, **variables: str
    ) -> CulmProcess:
        """Create a connector that serves QUIC, with its key and index in a folder of the demo's directory."""
        subfolder = folder or name
        arguments = (
            "connector",
            "run",
            "--listen",
            f"{HOST}:{port}",
            "--dir",
            str(self.directory / subfolder),
        )
        return self.process(f"the edge {name}", arguments, kafka, subfolder, **variables)

    async def serving(self, edges: Sequence[CulmProcess], marker: str) -> None:
        """Wait until each process has printed that peers may connect. Raises `DemoError`."""
        for edge in edges:
            await asyncio.to_thread(edge.wait_for_log, marker, self.timeout_s)

    def check(self) -> None:
        """Raise `DemoError` if a process has ended by itself."""
        for process in self.processes:
            process.check()

    def progress(self) -> object:
        """Return a value that changes while work goes on."""
        printed = sum(file.stat().st_size for file in self.output.glob("*.log"))
        return [watch() for watch in self.watched], printed

    async def until(
        self,
        holds: Callable[[], bool | Awaitable[bool]],
        what: str | Callable[[], str],
        *,
        step_s: float = _STEP_S,
        more: Callable[[], object] = lambda: None,
    ) -> None:
        """Check repeatedly until the condition holds. Raises `NotReached` if nothing (nor `more`) changes for
        too long.
        """
        patience = Patience(self.timeout_s, lambda: (self.progress(), more()))
        while True:
            started_s = time.monotonic()
            holds_now = holds()
            if await holds_now if isinstance(holds_now, Awaitable) else holds_now:
                return
            took_s = time.monotonic() - started_s
            self.check()
            patience.check(what)
            await asyncio.sleep(max(step_s, min(_PAUSE_RATIO * took_s, _LONGEST_PAUSE_S)))

    async def within(self, work: Awaitable[_Result], what: str) -> _Result:
        """Wait for the result of some work, which is cancelled otherwise. Raises `NotReached` as `until`
        does.
        """
        patience = Patience(self.timeout_s, self.progress)
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=_STEP_S))[0]:
                patience.check(what)
            return task.result()
        finally:
            task.cancel()
