"""``culm connector drain``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from culm_infra.cli.kit.data_folder import DataDirectory
from culm_infra.cli.kit.options import DEFAULT_TIMEOUT_S, StackFlags, Timeout
from culm_infra.cli.kit.output import Results, progress, safe
from culm_infra.cli.status.text import StatusDocument, count
from culm_infra.errors import InfraError
from culm_infra.patience import Patience

if TYPE_CHECKING:
    from culm_infra.running_process import RunningProcess

_LOOK_S: Final = 0.2


class NotDrained(InfraError):
    """A connector that cannot be drained, or has not drained in time."""

    code: ClassVar[str] = "infra.not_drained"


class DrainTakesLong(NotDrained):
    """A connector that makes no progress while it drains."""

    code: ClassVar[str] = "infra.not_drained.slow"
    passes: ClassVar[bool] = True


def drain(
    *,
    directory: DataDirectory = None,
    timeout_s: Timeout = None,
    stack: StackFlags,
    results: Results,
) -> None:
    """End a connector without loss: peers connect elsewhere, data goes to Kafka, the process exits.

    Waits for the end of the process; --timeout counts from the latest progress. A second drain, or SIGTERM,
    hurries: the connector then ends all connections at once.

    Exit status 75: no progress; the connector goes on to drain.

    Example: `culm connector drain --dir ./edge-1`
    """
    from culm_infra.running_process import RunningProcess
    from culm_infra.settings import connector_directory
    from culm_topics.status_socket import CONNECTOR_SOCKET

    folder = connector_directory(stack.load(connector={"directory": directory}))
    with _explained(folder), RunningProcess.serving(folder / CONNECTOR_SOCKET) as process:
        before = process.status()
        if before is None:
            raise NotDrained(f"the connector in {folder} ends already", hint="wait until it has ended")
        _request(process, before)
        began_s = time.monotonic()
        _wait(process, before, timeout_s or DEFAULT_TIMEOUT_S, results)
        duration_s = round(time.monotonic() - began_s, 1)
    connections = before["drain"]["connections"]
    row = {
        "peer_id": before["peer_id"],
        "directory": str(folder),
        "pid": process.pid,
        "connections": connections,
        "duration_s": duration_s,
    }
    ended = f"{count(connections, 'connection')} ended, the process is gone after {duration_s} s"
    results.one(row, f"connector {before['peer_id']} has drained: {ended}")
    chosen = "" if directory is None else f" --dir {directory}"
    results.next(f"culm connector run{chosen}")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Explain why the status socket of a folder does not lead to a connector."""
    from culm_topics.status_socket import NothingRuns, StatusSocketError

    try:
        yield
    except NothingRuns as error:
        raise NotDrained(
            f"no connector runs in {folder}",
            hint="--dir names another directory; `culm connector run` starts a connector",
        ) from error
    except StatusSocketError as error:
        if isinstance(error.__cause__, PermissionError):
            raise NotDrained(
                f"the connector in {folder} belongs to another user", hint="run this command as that user"
            ) from error
        raise


def _request(process: RunningProcess, document: StatusDocument) -> None:
    """Send the signal that the process has announced: another version, or program, would die of it."""
    import signal

    version = safe(document.get("version", "?"))
    if document.get("kind") != "connector" or "drain" not in document:
        raise NotDrained(
            f"culm {version}, which runs as process {process.pid}, cannot drain",
            hint=f"stop it with `kill -TERM {process.pid}`",
        )
    if (name := document["drain"]["signal"]) is None:
        raise NotDrained(
            f"the connector is a part of process {process.pid}, which handles no signal for it",
            hint="drain it in that program: Connector.drain()",
        )
    process.send(signal.Signals[name])


def _wait(process: RunningProcess, before: StatusDocument, timeout_s: float, results: Results) -> None:
    """Show progress until the process has ended. Raises `DrainTakesLong`."""
    document: StatusDocument = before
    drain_row = before["drain"]
    planned_s = time.monotonic() + drain_row["unready_s"] + drain_row["spread_s"]

    def changes() -> object:
        now_s = time.monotonic()
        return _left(document), now_s if now_s < planned_s else None

    patience = Patience(timeout_s, changes)
    with _showing(drain_row["connections"], results) as show:
        while not process.has_ended(_LOOK_S):
            document = process.status() or document
            show(document)
            if patience.is_over():
                raise DrainTakesLong(
                    f"the connector still runs as process {process.pid}: {_doing(document)}; nothing changed "
                    f"for {timeout_s:g} s (--timeout)",
                    hint=f"`kill -TERM {process.pid}` hurries it, `culm connector status` shows it",
                )


@contextmanager
def _showing(connections: int, results: Results) -> Iterator[Callable[[StatusDocument], None]]:
    step: str | None = None
    with progress() as display:
        bar = display.add_task("connections ended", total=connections, visible=bool(connections))

        def show(document: StatusDocument) -> None:
            nonlocal step
            drain_row = document["drain"]
            display.update(bar, completed=max(0, connections - drain_row["connections"]))
            if drain_row["step"] != step:
                step = drain_row["step"]
                results.say(safe(_doing(document)))

        yield show


def _left(document: StatusDocument) -> tuple[Any, ...]:
    """Return what is still to be done."""
    staged = [protocol["staged_records"] for protocol in document["protocols"].values()]
    return document["drain"]["step"], document["drain"]["connections"], document["in_flight_records"], staged


def _doing(document: StatusDocument) -> str:
    """Return what a draining connector does, in words."""
    step, connections, in_flight, staged = _left(document)
    drain_row = document["drain"]
    match step:
        case "unready":
            return f"not ready any more; the doors close after {drain_row['unready_s']:g} s"
        case "ending":
            return f"ending {count(connections, 'connection')} over {drain_row['spread_s']:g} s"
        case "finishing":
            return f"waiting for Kafka: {count(in_flight + sum(staged), 'record')}"
        case _:
            return "the connector was asked to drain"
