"""``culm chotki status``: vectors, blocks, peers and how far they are, sessions, sources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.reading import vector_texts, whole_state
from culm_infra.cli.chotki.sources import sources_as_json
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json, print_table, say, show_passed_over

if TYPE_CHECKING:
    from culm_topics.chotki.operations import PeerSession
    from culm_topics.chotki.state_reader import ObjectState

_SHOWN_BLOCKS = 20


@spread
def status(
    *,
    all_: Annotated[bool, typer.Option("--all", help="All blocks, and sessions that are over too.")] = False,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """How the deployment and its peers stand: the global vector and those of blocks, sessions, sources.

    behind: packets that a peer lacks, by the numbers of their sources; sources: in how many it lacks any.

    Example: `culm chotki status`, `culm chotki status --all --json`
    """
    from culm_topics.chotki.operations import read_holdings, read_sessions
    from culm_topics.chotki.sources import read_sources

    settings = kafka.settings()
    with whole_state(settings, json=json) as reader:
        state = {
            "epoch": reader.state.epoch,
            "waiting_records": reader.waiting,
            "vector": vector_texts(reader.state.vector),
            "blocks": _blocks(reader.state),
        }
        vector = reader.state.vector
    holdings, sessions, sources = read_holdings(settings), read_sessions(settings), read_sources(settings)
    for passed_over in (holdings.passed_over, sessions.passed_over, sources.passed_over):
        show_passed_over(passed_over, json=json)
    found = {
        **state,
        "peers": [
            {
                "source": f"{src:x}",
                **holdings.lag(src, vector)._asdict(),
                "vector": vector_texts(held.vector),
                "time_ms": held.time_ms,
            }
            for src, held in sorted(holdings.peers.items())
        ],
        "sessions": [_session(one) for one in sessions.sessions if all_ or not one.is_over],
        "sources": sources_as_json(sources.holders),
    }
    if json:
        emit_json(found)
    else:
        _show(found, all_=all_)


def _blocks(state: ObjectState) -> list[dict[str, Any]]:
    objects: dict[Any, int] = {}
    from culm_models.chotki.ids import block_of

    for id in state.table.ids():
        objects[block_of(id)] = objects.get(block_of(id), 0) + 1
    return [
        {"block": str(block), "objects": objects.get(block, 0), "vector": vector_texts(vector)}
        for block, vector in sorted(state.blocks.items())
    ]


def _session(one: PeerSession) -> dict[str, Any]:
    found = one.record
    traces = sorted((found.trace.hex(), found.peer_trace.hex()), reverse=True)
    return {
        "edge": one.edge.hex(),
        "session": one.session,
        "state": found.state,
        "peer": f"{found.peer:x}",
        "address": found.address,
        "mode": found.mode,
        "traces": "-".join(traces),
        "blocks": found.blocks,
        "bytes_in": found.bytes_in,
        "bytes_out": found.bytes_out,
        "reason": found.reason,
        "code": found.code,
        "time_ms": found.time_ms,
    }


def _show(found: dict[str, Any], *, all_: bool) -> None:
    say(f"epoch {found['epoch']}; {found['waiting_records']} records behind it")
    print_table("vector", ("source and last id",), ([one] for one in found["vector"]))
    blocks = found["blocks"] if all_ else found["blocks"][:_SHOWN_BLOCKS]
    title = (
        "blocks"
        if len(blocks) == len(found["blocks"])
        else f"blocks ({len(blocks)} of {len(found['blocks'])})"
    )
    print_table(
        title, ("block", "objects", "vector"), (_row(one, "block", "objects", "vector") for one in blocks)
    )
    for name, columns in {
        "peers": ("source", "behind", "sources", "vector", "time_ms"),
        "sessions": (
            "peer",
            "state",
            "address",
            "mode",
            "traces",
            "blocks",
            "bytes_in",
            "bytes_out",
            "code",
            "time_ms",
        ),
        "sources": ("source", "owner", "state", "since_ms"),
    }.items():
        if found[name]:
            titles = [column.removesuffix("_ms").replace("_", " ") for column in columns]
            print_table(name, titles, (_row(one, *columns) for one in found[name]))


def _row(one: dict[str, Any], *columns: str) -> list[object]:
    return [
        datetime.fromtimestamp(one[name] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        if name.endswith("_ms")
        else ",".join(one[name])
        if isinstance(one[name], list)
        else one[name]
        for name in columns
    ]
