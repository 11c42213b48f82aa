"""``culm chotki status``: vectors, blocks, peers and how far they are, sessions, sources, edges."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.operations.edge_metrics import read_edge
from culm_infra.cli.chotki.operations.sources import sources_as_json
from culm_infra.cli.chotki.reading import vector_texts, whole_state
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json, out, print_table, safe, say, show_passed_over

if TYPE_CHECKING:
    from culm_topics.chotki.operations import PeerSession
    from culm_topics.chotki.state_reader import ObjectState

_SHOWN_BLOCKS = 20
_BLOCK_COLUMNS = ("block", "objects", "vector")
_CODE_COLUMNS = ("code", "sessions")
_SESSION_COLUMNS = (
    *("peer", "state", "address", "mode", "diff in", "diff out"),
    *("open syncs", "pings", "pongs", "code"),
)


@spread
def status(
    *,
    all_: Annotated[bool, typer.Option("--all", help="All blocks, and sessions that are over too.")] = False,
    edge: Annotated[
        list[str] | None,
        typer.Option("--edge", metavar="HOST:PORT", help="An edge's --metrics-port; repeatable."),
    ] = None,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """How the deployment and its peers stand: vectors, blocks, peers, sessions, sources; edges where named.

    behind: packets that a peer lacks, by the numbers of their sources. Of a session: its state, pings and
    pongs that came, the diffs of its beginning (blocks and bytes through, of how many), syncs that are open
    with their age and what they have spooled, both traces as logs write them; one that was left by an edge
    which was killed, and has begun anew, belongs to a run that is over. codes: refusals and warnings,
    and in how many sessions of the last days. An edge tells whether it is ready and what it measures: the
    epoch it serves from, the tail of packets beyond, refusals by code.
    duplicates: values that several objects have in a hash-indexed field, which a Go replica refuses.
    warnings: what somebody must mend at a replica: values that cannot be stored, with their fields and
    writers, and replicas that were restored from a backup.

    Example: `culm chotki status`, `culm chotki status --all --edge 127.0.0.1:9100 --json`
    """
    from culm_topics.chotki.operations import OVER, read_holdings, read_sessions
    from culm_topics.chotki.sources import is_of_former_run, read_sources

    settings = kafka.settings()
    with whole_state(settings, json=json) as reader:
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
        show_passed_over(passed_over, json=json)
    told = [_session(one, is_of_former_run(one.edge, sources.holders)) for one in sessions.sessions]
    found = {
        **state,
        "epoch_age_s": None if holdings.own is None else _age_s(holdings.own.time_ms),
        "peers": [
            {
                "source": f"{src:x}",
                **holdings.lag(src, vector)._asdict(),
                "lag": {f"{one:x}": packets for one, packets in holdings.lag_by_source(src, vector).items()},
                "vector": vector_texts(held.vector),
                "time_ms": held.time_ms,
            }
            for src, held in sorted(holdings.peers.items())
        ],
        "sessions": [one for one in told if all_ or not (one["state"] == OVER or one["run_is_over"])],
        "codes": sessions.codes,
        "warnings": [
            {
                "code": code,
                "peer": f"{one.record.peer:x}",
                "address": one.record.address,
                "text": text,
                "time_ms": one.record.time_ms,
            }
            for (code, text), one in sessions.warnings.items()
        ],
        "sources": sources_as_json(sources.holders),
        "edges": [read_edge(one) for one in edge or ()],
    }
    if json:
        emit_json(found)
    else:
        _show(found, all_=all_)


def _age_s(time_ms: int) -> float:
    return max(0.0, round(time.time() - time_ms / 1000, 1))


def _duplicates(state: ObjectState) -> list[dict[str, Any]]:
    from culm_models.chotki.rdx import print_text
    from culm_topics.chotki.duplicates import find_duplicates

    return [
        {
            "class": str(one.class_id),
            "field": one.offset,
            "value": print_text(one.letter, one.value),
            "objects": [{"id": str(held.object), "writer": f"{held.writer:x}"} for held in one.holders],
        }
        for one in find_duplicates(state.table)
    ]


def _blocks(state: ObjectState) -> list[dict[str, Any]]:
    objects: dict[Any, int] = {}
    from culm_models.chotki.ids import block_of

    for id in state.table.ids():
        objects[block_of(id)] = objects.get(block_of(id), 0) + 1
    return [
        {"block": str(block), "objects": objects.get(block, 0), "vector": vector_texts(vector)}
        for block, vector in sorted(state.blocks.items())
    ]


def _session(one: PeerSession, run_is_over: bool) -> dict[str, Any]:
    from culm_models.chotki.ids import Id
    from culm_models.chotki.packets.handshake import trace_pair

    found = one.record
    return {
        "edge": one.edge.hex(),
        "session": one.session,
        "run_is_over": run_is_over,
        "state": found.state,
        "peer": f"{found.peer:x}",
        "address": found.address,
        "mode": found.mode,
        "traces": trace_pair(found.trace, found.peer_trace),
        "received": found.received._asdict(),
        "sent": found.sent._asdict(),
        "open_syncs": [
            {"t": str(Id(sync.src, sync.pro)), "age_ms": sync.age_ms, "bytes": sync.bytes}
            for sync in found.open_syncs
        ],
        "pings": found.pings,
        "pongs": found.pongs,
        "bytes_in": found.bytes_in,
        "bytes_out": found.bytes_out,
        "reason": found.reason,
        "code": found.code,
        "time_ms": found.time_ms,
    }


def _show(found: dict[str, Any], *, all_: bool) -> None:
    age = "" if found["epoch_age_s"] is None else f", {found['epoch_age_s']:,.0f} s old"
    say(f"epoch {found['epoch']}{age}; {found['waiting_records']} records behind it")
    print_table("vector", ("source and last id",), ([one] for one in found["vector"]))
    blocks = found["blocks"] if all_ else found["blocks"][:_SHOWN_BLOCKS]
    whole = len(blocks) == len(found["blocks"])
    title = "blocks" if whole else f"blocks ({len(blocks)} of {len(found['blocks'])})"
    print_table(title, _BLOCK_COLUMNS, (_row(one, *_BLOCK_COLUMNS) for one in blocks))
    for one in found["duplicates"]:
        holders = ", ".join(f"{held['id']} (written by {held['writer']})" for held in one["objects"])
        where = f"field {one['field']} of class {one['class']}"
        out.print(f"a Go replica would refuse {safe(one['value'])} in {where}: it is in {holders}")
    for one in found["warnings"]:
        when = _cell("time_ms", one["time_ms"])
        out.print(
            f"{one['code']}: {safe(one['text'])} (brought by {one['peer']} at {safe(one['address'])}, {when})"
        )
    tables: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
        "peers": (found["peers"], ("source", "behind", "lag", "vector", "time_ms")),
        "sessions": ([_session_row(one) for one in found["sessions"]], _SESSION_COLUMNS),
        "traces": (found["sessions"], ("peer", "traces", "bytes_in", "bytes_out", "time_ms")),
        "codes": ([{"code": one, "sessions": count} for one, count in found["codes"].items()], _CODE_COLUMNS),
        "sources": (found["sources"], ("source", "owner", "state", "since_ms")),
    }
    for name, (rows, columns) in tables.items():
        if rows:
            titles = [column.removesuffix("_ms").replace("_", " ") for column in columns]
            print_table(name, titles, (_row(one, *columns) for one in rows))
    for one in found["edges"]:
        ready = "ready" if one["ready"] else f"not ready: {'; '.join(one['reasons'])}"
        figures = ((name, f"{value:,.0f}") for name, value in one["metrics"].items())
        print_table(f"edge {one['address']}: {ready}", ("metric", "value"), figures)


def _session_row(session: dict[str, Any]) -> dict[str, Any]:
    """A session with its diffs and open syncs as people read them."""
    return {
        **session,
        "state": f"{session['state']} (its edge's run is over)"
        if session["run_is_over"]
        else session["state"],
        "diff in": _diff(session["received"]),
        "diff out": _diff(session["sent"]),
        "open syncs": [
            f"{one['t']} {one['age_ms'] / 1000:,.0f} s {one['bytes']:,} B" for one in session["open_syncs"]
        ],
    }


def _diff(progress: dict[str, int]) -> str:
    if not progress["blocks_total"]:
        return "–"
    share = f"/{progress['bytes_total']:,}" if progress["bytes_total"] else ""
    return f"{progress['blocks_done']}/{progress['blocks_total']}, {progress['bytes_done']:,}{share} B"


def _row(one: dict[str, Any], *columns: str) -> list[object]:
    return [_cell(name, one[name]) for name in columns]


def _cell(name: str, value: object) -> object:
    if name.endswith("_ms") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {count:,}" for key, count in value.items())
    return value
