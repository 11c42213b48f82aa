"""Parts of the text about a running process. All text from documents is escaped for terminals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from culm_infra.cli.kit.output import safe

StatusDocument = Mapping[str, Any]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_INDENT = 17


def line(name: str, value: str) -> str:
    """Return a line of a name and a value, which is escaped already."""
    return f"  {name:{_INDENT}}{value}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        number, rest = divmod(rest, size)
        if number or (size == 1 and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def ago(time_ms: int | None) -> str:
    """Return how long ago a time was."""
    return "none yet" if time_ms is None else f"{duration(time.time() - time_ms / 1000)} ago"


def state_of(document: StatusDocument) -> str:
    """Return the state of a process in words: `ready`, or what it is doing."""
    if document["ready"]:
        return "[bold green]ready[/]"
    state = document["state"]
    return f"[bold yellow]{'not ready' if state == 'running' else safe(state)}[/]"


def process_lines(document: StatusDocument) -> Iterator[str]:
    """Yield the lines about the process itself."""
    for reason in document["reasons"]:
        yield line("because", safe(reason))
    since = duration(time.time() - document["started_ms"] / 1000)
    yield line("process", f"{safe(document['pid'])}, culm {safe(document['version'])}, up for {since}")
    kafka = document["kafka"]
    prefix = f"prefix {safe(kafka['prefix'])}" if kafka["prefix"] else "no prefix"
    yield line("Kafka", f"{safe(kafka['bootstrap'])}, {prefix}")
    yield line("last progress", ago(document["last_progress_ms"]))


def lag_text(lag: Mapping[str, int] | None) -> str:
    """Return the lag in records, with the topics that have any."""
    if lag is None:
        return "lag unknown"
    behind = [f"{safe(topic)} {records}" for topic, records in sorted(lag.items()) if records]
    return f"lag {sum(lag.values())}" + (f" ({', '.join(behind)})" if behind else "")


def warning_lines(warnings: Sequence[StatusDocument]) -> Iterator[str]:
    """Yield the latest warnings of the process, oldest first."""
    if warnings:
        yield line("warnings", f"the latest {len(warnings)}" if len(warnings) > 1 else "")
    for warning in warnings:
        at = time.strftime("%H:%M:%S", time.localtime(warning["time_ms"] / 1000))
        yield f"    {at} {safe(warning['message'])}"
