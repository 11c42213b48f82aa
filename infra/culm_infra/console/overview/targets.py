"""Targets: connectors and jobs, each by its status socket or by the address of its metrics."""

from __future__ import annotations

import asyncio
import glob
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from culm_connectors.url import parse_url
from culm_infra.console.overview import fetch
from culm_infra.console.overview.metrics_text import read_metrics
from culm_infra.console.overview.reading import Kind, NoReading, Source, TargetReading
from culm_infra.console.overview.status_document import read_document
from culm_infra.console.overview.values import text
from culm_infra.sections.console import MAX_TARGETS

JOBS_PORT: Final = 9101
"""Usual port of the metrics of jobs; it tells what a target is that has never answered."""
_MAX_REASONS: Final = 20


class Target(Protocol):
    """A process to show."""

    @property
    def text(self) -> str:
        """Return the target as settings have it."""
        ...

    @property
    def source(self) -> Source:
        """Return where the readings come from."""
        ...

    @property
    def name(self) -> str:
        """Return the name of a process that does not say what it is."""
        ...

    @property
    def kind(self) -> Kind:
        """Return what the target probably is, until it answers."""
        ...

    @property
    def interval_s(self) -> float:
        """Return the time between two readings."""
        ...

    async def read(self, timeout_s: float) -> TargetReading:
        """Return the present reading. Raises `NoReading`."""
        ...


def target_id(target: Target) -> str:
    """Return a short id of a target, which stays the same over restarts of the console."""
    return hashlib.blake2b(target.text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class SocketTarget:
    """A process on this machine, by its status socket."""

    path: Path
    source: Source = "socket"
    interval_s: float = 2.0

    @property
    def text(self) -> str:
        """Return the target as settings have it."""
        return f"unix:{self.path}"

    @property
    def kind(self) -> Kind:
        """Return what the socket probably is, by its name."""
        return "job" if self.path.name.startswith("job-") else "edge"

    @property
    def name(self) -> str:
        """Return the connector's directory, or the jobs that run."""
        return self.path.stem.removeprefix("job-") if self.kind == "job" else self.path.absolute().parent.name

    async def read(self, timeout_s: float) -> TargetReading:
        """Read the socket's document."""
        return read_document(await fetch.read_socket(self.path, timeout_s))


@dataclass(frozen=True, slots=True)
class MetricsTarget:
    """A process anywhere, by the address of its metrics."""

    host: str
    port: int
    text: str
    source: Source = "metrics"
    interval_s: float = 4.0

    @property
    def kind(self) -> Kind:
        """Return what the process probably is, by its port."""
        return "job" if self.port == JOBS_PORT else "edge"

    @property
    def name(self) -> str:
        """Return the address."""
        return self.text.removeprefix("http://").removesuffix("/")

    async def read(self, timeout_s: float) -> TargetReading:
        """Read metrics and readiness, at the same time."""
        (status, body), (ready_status, ready_body) = await asyncio.gather(
            fetch.get(self.host, self.port, "/metrics", fetch.MAX_METRICS_BYTES, timeout_s),
            fetch.get(self.host, self.port, "/readyz", fetch.MAX_REASONS_BYTES, timeout_s),
        )
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise NoReading("refused", f"/metrics is refused: HTTP status {status}")
        if status != HTTPStatus.OK:
            raise NoReading("unknown", f"/metrics is answered with HTTP status {status}")
        is_ready = ready_status == HTTPStatus.OK
        reasons = () if is_ready else tuple(_reasons(ready_status, ready_body))
        # Parsing takes time for a text with many partitions.
        return await asyncio.to_thread(read_metrics, body, reasons, is_ready=is_ready)


def _reasons(status: int, body: bytes) -> Iterator[str]:
    if status != HTTPStatus.SERVICE_UNAVAILABLE:
        yield f"/readyz is answered with HTTP status {status}"
        return
    for line in body.decode(errors="replace").splitlines()[:_MAX_REASONS]:
        if reason := text(line.strip()):
            yield reason


@dataclass(frozen=True, slots=True)
class TargetList:
    """The fixed targets, and patterns of paths of status sockets that come and go."""

    fixed: Sequence[Target]
    patterns: Sequence[str]

    def now(self) -> dict[str, Target]:
        """Return the present targets by their texts; reads folders."""
        found = {target.text: target for target in self.fixed}
        for pattern in self.patterns:
            for path in sorted(glob.glob(pattern)):  # noqa: PTH207
                if len(found) >= MAX_TARGETS:
                    return found
                target = SocketTarget(Path(path))
                found.setdefault(target.text, target)
        return found


def target_list(texts: Sequence[str], default_patterns: Sequence[str]) -> TargetList:
    """Return the targets of the settings; without any, the status sockets that match the default patterns."""
    if not texts:
        return TargetList((), default_patterns)
    fixed: list[Target] = []
    patterns = []
    for each in texts:
        if each.startswith("http://"):
            host, port = parse_url(each, schemes=("http",), default="http").address
            fixed.append(MetricsTarget(host, port, each))
        elif glob.has_magic(path := each.removeprefix("unix:")):
            patterns.append(path)
        else:
            fixed.append(SocketTarget(Path(path)))
    return TargetList(fixed, patterns)
