"""The base of the cases: a Kafka of their own, processes, a temporary folder; all removed at the end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.harness import say
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.demo.p2panda.plan import SCHEMAS
from culm_infra.stack import Stack
from culm_infra.stack.ports import free_ports
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Rig:
    """A temporary folder, a broker in it (unless `broker` is False), and the processes started on them."""

    command = (sys.executable, "-m", "culm_infra")

    def __init__(self, *, broker: bool = True) -> None:
        self._wants_broker = broker
        self._stack = contextlib.ExitStack()
        self.broker_pid: int | None = None

    def __enter__(self) -> Rig:
        with contextlib.ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="culm-bench-")))
            bootstrap = "127.0.0.1:9"
            if self._wants_broker:
                broker = Stack(self.folder / "stack")
                stack.callback(broker.down)
                bootstrap = broker.up()
                self.broker_pid = broker.status().pid
                say("  a broker is up")
            self._bootstrap = bootstrap
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def topics(self, prefix: str, **settings: Any) -> KafkaSettings:
        """Create the topics of a separate deployment."""
        kafka = KafkaSettings(bootstrap=self._bootstrap, prefix=prefix, **settings)
        admin.create(kafka)
        return kafka

    def culm(
        self,
        name: str,
        *arguments: str,
        kafka: KafkaSettings | None = None,
        variables: dict[str, str] | None = None,
    ) -> CulmProcess:
        """Start a `culm` command, which is stopped at the end."""
        settings = kafka or KafkaSettings(bootstrap=self._bootstrap)
        process = CulmProcess(
            name, arguments, environment(settings) | (variables or {}), self.folder / f"{name}.log"
        )
        process.start()
        self._stack.callback(process.stop)
        return process

    def connector(
        self, name: str, kafka: KafkaSettings, *, datagram_size: str = "auto"
    ) -> tuple[CulmProcess, int]:
        """Start a connector that serves the schemas of the generated histories. Returns it with its UDP
        port.
        """
        (port,) = free_ports(1)
        schemas = [part for schema in SCHEMAS for part in ("--schema", schema)]
        process = self.culm(
            name,
            *("connector", "run", "--listen", f"127.0.0.1:{port}", "--dir", str(self.folder / name)),
            *("--datagram-size", datagram_size, *schemas),
            kafka=kafka,
        )
        process.wait_for_log("serving peers on", _READY_TIMEOUT_S)
        return process, port

    @contextlib.contextmanager
    def helper(self, *arguments: str) -> Iterator[Helper]:
        """Run `python -m bench.wire ARGUMENTS` meanwhile."""
        helper = Helper(arguments)
        try:
            yield helper
        finally:
            helper.stop()


class Helper:
    """A process of one of our modules: it prints lines of JSON, and ends when its standard input does."""

    def __init__(self, arguments: tuple[str, ...], *, module: str = "bench.wire") -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Process id of the helper."""
        return self._process.pid

    def hear(self) -> dict[str, Any]:
        """Return the next line that it prints, parsed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended with status {self._process.wait()}")
        message: dict[str, Any] = json.loads(line)
        return message

    def stop(self) -> None:
        """Close its standard input, and kill it if it does not end in time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def cpu_seconds(pid: int | None) -> float | None:
    """Return the processor time of a process so far, in seconds; None if the system does not report it."""
    try:
        # The command's name, in parentheses, may contain blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@contextlib.contextmanager
def cpu_used(**pids: int | None) -> Iterator[dict[str, float]]:
    """Measure processor seconds of processes while the context lasts; the mapping is filled at its end."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    used: dict[str, float] = {}
    yield used
    for name, pid in pids.items():
        start, end = before[name], cpu_seconds(pid)
        if start is not None and end is not None:
            used[name] = round(end - start, 2)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float, interval_s: float = 0.1) -> None:
    """Poll until a condition holds. Raises TimeoutError."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(interval_s)
