"""``culm chotki status``, ``sources`` and ``retire``: the state of the deployment, peers and sources."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import typer

from culm_infra.cli.chotki.reading import vector_texts, whole_state
from culm_infra.cli.chotki.writing import source_number
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import Results, at, emit_json, out, print_table, safe, say, table
from culm_infra.columns import Columns, Row, of
from culm_infra.errors import InfraError
from culm_models.chotki.ids import Id, block_of
from culm_models.chotki.packets.handshake import trace_pair
from culm_models.chotki.rdx import print_text
from culm_topics.chotki.objects import find_duplicates
from culm_topics.chotki.operations import OVER, PeerSession, read_holdings, read_sessions
from culm_topics.chotki.records import SourceRecord
from culm_topics.chotki.sources import FREE, is_of_former_run, read_sources, retire_source
from culm_topics.chotki.state_reader import ObjectState

_TIMEOUT_S = 5.0
_OF_CHOTKI = "culm_chotki_"
_NOT_READY = 503


class EdgeUnreachable(InfraError):
    """No edge answers at an address."""

    code: ClassVar[str] = "infra.edge_unreachable"


def read_edge(address: str) -> dict[str, Any]:
    """Return `address`, `ready`, the reasons if it is not ready, and the `metrics` of Chotki by name and
    labels.

    `address` is HOST:PORT of `--metrics-port`. Raises `EdgeUnreachable`.
    """
    ready, body = _get(address, "/readyz")
    _, text = _get(address, "/metrics")
    reasons = [] if ready else body.splitlines()
    return {"address": address, "ready": ready, "reasons": reasons, "metrics": _metrics(text)}


def _get(address: str, path: str) -> tuple[bool, str]:
    url = f"http://{address.removeprefix('http://').rstrip('/')}{path}"
    hint = "give HOST:PORT or http://HOST:PORT of an edge's --metrics-port"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return True, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        if error.code == _NOT_READY:
            return False, error.read().decode("utf-8", "replace")
        raise EdgeUnreachable(f"{url} answers {error.code}", hint=hint) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EdgeUnreachable(f"nothing answers at {url}: {error}", hint=hint) from error


def _metrics(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            of_chotki = sample.labels.get("protocol") == "chotki"
            if not of_chotki and not sample.name.startswith(_OF_CHOTKI):
                continue
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if not sample.name.endswith(("_bucket", "_created")):
                values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values


SOURCES: Final[Columns] = {
    "source": "source",
    "owner": "owner",
    "state": "state",
    "since": of("since_ms", at),
}


def source_as_json(src: int, record: SourceRecord) -> dict[str, Any]:
    """Return a source with its owner, and whether it is in use."""
    in_use = record.state == "allocated" and record.run != FREE
    return {
        "source": f"{src:x}",
        "owner": record.owner,
        "state": "in use" if in_use else record.state,
        "since_ms": record.since_ms,
    }


def sources_as_json(holders: Mapping[int, SourceRecord]) -> list[dict[str, Any]]:
    """Return all sources, sorted by number."""
    return [source_as_json(src, record) for src, record in sorted(holders.items())]


def sources(*, kafka: KafkaFlags, results: Results) -> None:
    """List the sources that edges and writers of this deployment received, with owner and state.

    Example: `culm chotki sources`
    """
    table = read_sources(kafka.settings())
    results.passed_over(table.passed_over)
    results.rows(sources_as_json(table.holders), SOURCES, title="sources")


def retire(
    source: Annotated[str, typer.Argument(metavar="HEX", help="The source.")],
    *,
    in_use: Annotated[
        bool, typer.Option("--in-use", help="Although an edge or a writer uses it, which ends by it.")
    ] = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Retire a source for good: it stays in vectors, and nobody receives it again.

    Example: `culm chotki retire 1f2e3`
    """
    src = source_number(source)
    record = retire_source(kafka.settings(), src, in_use=in_use)
    results.event(source_as_json(src, record), f"source {src:x} of {safe(record.owner)} is retired")
    results.next("culm chotki sources")


_SHOWN_BLOCKS = 20


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{key}: {count:,}" for key, count in counts.items())


def _diff(progress: dict[str, int]) -> str:
    if not progress["blocks_total"]:
        return "–"
    share = f"/{progress['bytes_total']:,}" if progress["bytes_total"] else ""
    return f"{progress['blocks_done']}/{progress['blocks_total']}, {progress['bytes_done']:,}{share} B"


def _open_syncs(syncs: list[Row]) -> list[str]:
    return [f"{sync['t']} {sync['age_ms'] / 1000:,.0f} s {sync['bytes']:,} B" for sync in syncs]


def _state(row: Row) -> str:
    return f"{row['state']} (its edge's run is over)" if row["run_is_over"] else str(row["state"])


PEERS: Final[Columns] = {
    "source": "source",
    "behind": "behind",
    "lag": of("lag", _counts),
    "vector": "vector",
    "time": of("time_ms", at),
}
SESSIONS: Final[Columns] = {
    "peer": "peer",
    "state": _state,
    "address": "address",
    "mode": "mode",
    "diff in": of("received", _diff),
    "diff out": of("sent", _diff),
    "open syncs": of("open_syncs", _open_syncs),
    "pings": "pings",
    "pongs": "pongs",
    "code": "code",
}
TRACES: Final[Columns] = {
    "peer": "peer",
    "traces": "traces",
    "bytes in": "bytes_in",
    "bytes out": "bytes_out",
    "time": of("time_ms", at),
}


def status(
    *,
    all_: Annotated[bool, typer.Option("--all", help="All blocks, and sessions that are over too.")] = False,
    metrics_of: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics-of",
            metavar="HOST:PORT",
            help="Add the metrics of the edge with this --metrics-port, over HTTP; repeatable.",
        ),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show the deployment and its peers: vectors, blocks, peers, sessions, sources, and the named edges.

    behind: packets that a peer is missing, by the numbers of their sources. A session has its state, the
    pings and pongs received, the diffs at its start (blocks and bytes done, of the total), the open syncs
    with their age and spooled bytes, and both traces as logs print them. A session whose edge was killed and
    has started again belongs to a run that is over. codes: refusals and warnings, with the number of sessions
    of the last days that had them. An edge reports whether it is ready and its metrics: the epoch that it
    serves, the tail of packets beyond it, refusals by code. duplicates: values that several objects have in a
    hash-indexed field, which a Go replica refuses. warnings: problems that have to be fixed at a replica:
    values that cannot be stored, with their fields and writers, and replicas that were restored from a
    backup.

    Example: `culm chotki status`, `culm chotki status --all --metrics-of 127.0.0.1:9100 --json`
    """
    settings = kafka.settings()
    with whole_state(settings, results) as reader:
        state = {
            "epoch": reader.state.epoch,
            "waiting_records": reader.waiting,
            "vector": vector_texts(reader.state.vector),
            "blocks": _blocks(reader.state),
            "duplicates": _duplicates(reader.state),
        }
        vector = reader.state.vector
    holdings, sessions, sources = read_holdings(settings), read_sessions(settings), read_sources(settings)
    for passed_over in (holdings.passed_over, sessions.passed_over, sources.passed_over):
        results.passed_over(passed_over)
    rows = [
        _session(session, is_of_former_run(session.edge, sources.holders)) for session in sessions.sessions
    ]
    report = {
        **state,
        "epoch_age_s": None if holdings.own is None else _age_s(holdings.own.time_ms),
        "peers": [
            {
                "source": f"{src:x}",
                **holdings.lag(src, vector)._asdict(),
                "lag": {
                    f"{source:x}": packets for source, packets in holdings.lag_by_source(src, vector).items()
                },
                "vector": vector_texts(peer.vector),
                "time_ms": peer.time_ms,
            }
            for src, peer in sorted(holdings.peers.items())
        ],
        "sessions": [row for row in rows if all_ or not (row["state"] == OVER or row["run_is_over"])],
        "codes": sessions.codes,
        "warnings": [
            {
                "code": code,
                "peer": f"{warning.record.peer:x}",
                "address": warning.record.address,
                "text": text,
                "time_ms": warning.record.time_ms,
            }
            for (code, text), warning in sessions.warnings.items()
        ],
        "sources": sources_as_json(sources.holders),
        "edges": [read_edge(address) for address in metrics_of or ()],
    }
    if results.json:
        emit_json(report)
    else:
        _show(report, all_=all_)


def _age_s(time_ms: int) -> float:
    return max(0.0, round(time.time() - time_ms / 1000, 1))


def _duplicates(state: ObjectState) -> list[dict[str, Any]]:

    return [
        {
            "class": str(duplicate.class_id),
            "field": duplicate.offset,
            "value": print_text(duplicate.letter, duplicate.value),
            "objects": [
                {"id": str(holder.object), "writer": f"{holder.writer:x}"} for holder in duplicate.holders
            ],
        }
        for duplicate in find_duplicates(state.table)
    ]


def _blocks(state: ObjectState) -> list[dict[str, Any]]:
    objects: dict[Any, int] = {}

    for id in state.table.ids():
        objects[block_of(id)] = objects.get(block_of(id), 0) + 1
    return [
        {"block": str(block), "objects": objects.get(block, 0), "vector": vector_texts(vector)}
        for block, vector in sorted(state.blocks.items())
    ]


def _session(session: PeerSession, run_is_over: bool) -> dict[str, Any]:

    record = session.record
    return {
        "edge": session.edge.hex(),
        "session": session.session,
        "run_is_over": run_is_over,
        "state": record.state,
        "peer": f"{record.peer:x}",
        "address": record.address,
        "mode": record.mode,
        "traces": trace_pair(record.trace, record.peer_trace),
        "received": record.received._asdict(),
        "sent": record.sent._asdict(),
        "open_syncs": [
            {"t": str(Id(sync.src, sync.pro)), "age_ms": sync.age_ms, "bytes": sync.bytes}
            for sync in record.open_syncs
        ],
        "pings": record.pings,
        "pongs": record.pongs,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "reason": record.reason,
        "code": record.code,
        "time_ms": record.time_ms,
    }


def _show(report: dict[str, Any], *, all_: bool) -> None:
    age = "" if report["epoch_age_s"] is None else f", {report['epoch_age_s']:,.0f} s old"
    say(f"epoch {report['epoch']}{age}; {report['waiting_records']} records behind it")
    print_table("vector", ("source and last id",), ([entry] for entry in report["vector"]))
    blocks = report["blocks"] if all_ else report["blocks"][:_SHOWN_BLOCKS]
    whole = len(blocks) == len(report["blocks"])
    title = "blocks" if whole else f"blocks ({len(blocks)} of {len(report['blocks'])})"
    table(title, ("block", "objects", "vector"), blocks)
    for duplicate in report["duplicates"]:
        holders = ", ".join(
            f"{holder['id']} (written by {holder['writer']})" for holder in duplicate["objects"]
        )
        where = f"field {duplicate['field']} of class {duplicate['class']}"
        out.print(f"a Go replica would refuse {safe(duplicate['value'])} in {where}: it is in {holders}")
    for warning in report["warnings"]:
        origin = f"brought by {warning['peer']} at {safe(warning['address'])}, {at(warning['time_ms'])}"
        out.print(f"{warning['code']}: {safe(warning['text'])} ({origin})")
    tables: dict[str, tuple[list[Row], Columns]] = {
        "peers": (report["peers"], PEERS),
        "sessions": (report["sessions"], SESSIONS),
        "traces": (report["sessions"], TRACES),
        "codes": (
            [{"code": code, "sessions": count} for code, count in report["codes"].items()],
            ("code", "sessions"),
        ),
        "sources": (report["sources"], SOURCES),
    }
    for name, (rows, columns) in tables.items():
        if rows:
            table(name, columns, rows)
    for edge in report["edges"]:
        ready = "ready" if edge["ready"] else f"not ready: {'; '.join(edge['reasons'])}"
        figures = ((name, f"{value:,.0f}") for name, value in edge["metrics"].items())
        print_table(f"edge {edge['address']}: {ready}", ("metric", "value"), figures)
