"""``culm connector status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from culm_infra.cli.kit.data_folder import DataDirectory
from culm_infra.cli.kit.options import StackFlags
from culm_infra.cli.kit.output import Results, emit_json, out, safe, say
from culm_infra.cli.status.text import (
    StatusDocument,
    ago,
    count,
    lag_text,
    line,
    process_lines,
    state_of,
    warning_lines,
)
from culm_infra.cli.status.watch import Watch, watched

_STEPS: Final = {
    "unready": "still accepts connections",
    "ending": "ends its connections",
    "finishing": "waits for Kafka",
}


def status(
    *,
    directory: DataDirectory = None,
    watch: Watch = None,
    stack: StackFlags,
    results: Results,
) -> None:
    """Show the connector that runs in a directory: doors, peers, lag, latest progress and warnings.

    Exit status 3: none runs there, or it is not ready.

    Example: `culm connector status --watch 2`
    """
    from culm_infra.settings import connector_directory
    from culm_topics.status_socket import CONNECTOR_SOCKET, NothingRuns, read_status

    folder = connector_directory(stack.load(connector={"directory": directory}))

    def show() -> bool:
        try:
            document = read_status(folder / CONNECTOR_SOCKET)
        except NothingRuns:
            say(
                f"no connector runs in {safe(folder)}: `culm connector run` starts one, "
                "and --dir names another directory"
            )
            return False
        if results.json:
            emit_json(document)
        else:
            for text in connector_lines(document):
                out.print(text)
        return bool(document["ready"])

    watched(show, watch, json=results.json)


def connector_lines(document: StatusDocument) -> Iterator[str]:
    """Yield the text about a connector."""
    yield f"connector {safe(document['peer_id'])} is {state_of(document)}"
    yield line("directory", safe(document["directory"]))
    yield from process_lines(document)
    if document["metrics_port"] is not None:
        yield line("metrics", f"port {document['metrics_port']}")
    if (step := (drain := document.get("drain") or {}).get("step")) is not None:
        left = count(drain["connections"], "connection")
        since = ago(drain["began_ms"])
        yield line("draining", f"began {since}, {_STEPS.get(step, safe(step))}, {left} left")
    if records := document["in_flight_records"]:
        yield line("in flight", f"{count(records, 'record')} that Kafka has not acknowledged")
    for name, protocol in document["protocols"].items():
        yield from _protocol_lines(name, protocol)
    yield from warning_lines(document["warnings"])


def _protocol_lines(name: str, protocol: dict[str, Any]) -> Iterator[str]:
    facts = [
        "ready" if protocol["ready"] else safe("; ".join(protocol["reasons"])),
        f"{protocol['connections']} connected, {protocol['connections_total']} since the start",
    ]
    if protocol["lag"] != {}:
        facts.append(lag_text(protocol["lag"]))
    if protocol["staged_records"]:
        facts.append(f"waiting for Kafka: {count(protocol['staged_records'], 'record')}")
    if rejected := sum(protocol["rejected"].values()):
        facts.append(f"{rejected} rejected")
    yield line(safe(name), " · ".join(facts))
    for door, address in protocol["doors"].items():
        yield f"    door {safe(address)} ({safe(door)})"
    for peer in protocol["peers"]:
        yield f"    peer {safe(peer['peer'])}" + (f" {safe(peer['address'])}" if peer["address"] else "")
    if (further := protocol["connections"] - len(protocol["peers"])) > 0 and protocol["peers"]:
        yield f"    and {further} more"
