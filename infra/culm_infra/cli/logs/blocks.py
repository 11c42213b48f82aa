"""``culm logs blocks``: log heights and fingerprints by block of public keys, and the lag of peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.options import KafkaFlags, refuse
from culm_infra.cli.kit.output import Results, say
from culm_infra.cli.logs.status import find_peer, short_id
from culm_infra.columns import Columns, of
from culm_infra.errors import InfraError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.block_lag import BlockLag, block_lags, rows_of, total_fingerprints
from culm_topics.logs.blocks import Block, Blocks, read_block_vectors, read_blocks
from culm_topics.readers.partitions import offsets_of
from culm_topics.records import split_log_key

_LIFT = "add128"


def blocks(
    context: typer.Context,
    *,
    schema: options.OnlySchemas = None,
    each: Annotated[bool, typer.Option("--each", help="A row for each block, not for each schema.")] = False,
    block: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The logs of this block, one by one.")
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(metavar="PEER_ID", help="What this peer holds of it: its id, or how it starts."),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show blocks, logs, entries and fingerprint per schema, and how many records of `logs` are not included
    yet.

    With `--peer`, show how far that peer is behind in each schema or block: the job `blocks` keeps a version
    vector for each block, beside the global one that `culm logs status PEER_ID` shows.

    Example: `culm logs blocks --peer 2f8e50c2 --each`
    """
    if block is not None:
        refuse(context, ["each"], "--block shows the logs of one block")
    reached = kafka.settings()
    all_blocks = read_blocks(reached, schema)
    results.passed_over(all_blocks.passed_over)
    if all_blocks.torn:
        say(f"[yellow]{len(all_blocks.torn)} blocks could not be put together and are left out[/]")
    if block is not None and all_blocks.block_bits is not None and block >> all_blocks.block_bits:
        raise InfraError(
            f"there is no block {block}",
            hint=f"blocks have {all_blocks.block_bits} bits: 0 to {(1 << all_blocks.block_bits) - 1}",
        )
    vectors = None
    if peer is not None:
        every = read_block_vectors(reached, block_bits=all_blocks.block_bits)
        results.passed_over(every.passed_over)
        peer_id = find_peer(peer.lower(), sorted({vector.peer_id for vector in every}))
        vectors = _only_peer(every, peer_id)
        say(f"peer {peer_id.hex()}")
    if block is not None:
        _show_logs(all_blocks, vectors, block, results)
    elif vectors is not None:
        _show_peer(all_blocks, vectors, results, each=each)
    else:
        _show_blocks(reached, all_blocks, results, each=each)


def _only_peer(vectors: Blocks, peer_id: bytes) -> Blocks:
    return replace(vectors, blocks=tuple(block for block in vectors if block.peer_id == peer_id))


def _show_blocks(kafka: KafkaSettings, blocks: Blocks, results: Results, *, each: bool) -> None:

    lag = sum(
        end - min(max(blocks.applied.get(partition, 0), start), end)
        for partition, (start, end) in offsets_of(kafka, "logs").items()
    )
    rows: list[dict[str, Any]] = []
    for schema_id, group in _grouped(blocks, each=each).items():
        rows.append(
            {
                "schema": schema_id[0],
                "block_bits": blocks.block_bits,
                **({"block": schema_id[1]} if each else {"blocks": len(group)}),
                "logs": sum(block.log_count for block in group),
                "entries": sum(block.entry_count for block in group),
                "fingerprints": total_fingerprints(group),
                **({"version": [list(pair) for pair in group[0].version]} if each else {}),
                "lag": lag,
            }
        )
    bits = blocks.block_bits
    if bits is None:
        results.say("no blocks yet: `culm job run blocks` writes them")
        return
    results.say(f"{1 << bits} blocks a schema ({bits} bits); {lag} records of `logs` to come")
    block_column = "block" if each else "blocks"
    columns: Columns = {
        **{name: name for name in ("schema", block_column, "logs", "entries")},
        f"fingerprint ({_LIFT})": of("fingerprints", lambda lifts: lifts.get(_LIFT)),
        "lag": "lag",
    }
    results.rows(rows, columns)


def _grouped(blocks: Blocks, *, each: bool) -> dict[tuple[str, int | None], list[Block]]:
    groups: dict[tuple[str, int | None], list[Block]] = defaultdict(list)
    for block in blocks:
        groups[block.schema_id, block.block if each else None].append(block)
    return groups


def _show_peer(blocks: Blocks, vectors: Blocks, results: Results, *, each: bool) -> None:

    lags = list(block_lags(blocks, vectors))
    rows = [_row(lag) for lag in lags] if each else list(_by_schema(blocks, lags))
    columns: Columns = {
        "schema": "schema",
        **({"block": "block"} if each else {"blocks": "blocks"}),
        "equal": of("equal", lambda equal: "yes" if equal else "no") if each else "equal_blocks",
        "logs": "logs",
        "held": "logs_held",
        "logs behind": "logs_behind",
        "entries behind": "entries_behind",
    }
    results.rows(rows, columns)


def _row(lag: BlockLag) -> dict[str, Any]:
    plain = asdict(lag)
    return {"peer": plain.pop("peer_id"), "schema": plain.pop("schema_id"), **plain, "equal": lag.equal}


def _by_schema(blocks: Blocks, lags: Collection[BlockLag]) -> Iterable[dict[str, Any]]:
    groups = _grouped(blocks, each=False)
    for schema_id in sorted({lag.schema_id for lag in lags}):
        all_blocks = groups[schema_id, None]
        of_schema = [lag for lag in lags if lag.schema_id == schema_id]
        yield {
            "peer": of_schema[0].peer_id,
            "schema": schema_id,
            "blocks": len(all_blocks),
            "equal_blocks": sum(lag.equal for lag in of_schema),
            "logs": sum(block.log_count for block in all_blocks),
            "logs_held": sum(lag.logs_held for lag in of_schema),
            "logs_behind": sum(lag.logs_behind for lag in of_schema),
            "entries_behind": sum(lag.entries_behind for lag in of_schema),
        }


def _show_logs(blocks: Blocks, vectors: Blocks | None, block: int, results: Results) -> None:

    heights = None
    if vectors is not None:
        heights = {
            log: seq for vector in vectors if vector.block == block for log, seq in rows_of(vector.heights)
        }
    rows: list[dict[str, Any]] = []
    for candidate in blocks:
        if candidate.block != block:
            continue
        for log, height in rows_of(candidate.heights):
            public_key, log_id = split_log_key(log)
            row = {
                "schema": candidate.schema_id,
                "public_key": public_key,
                "log_id": log_id,
                "height": height,
            }
            if heights is not None:
                seq_num = heights.get(log, 0)
                row |= {"seq_num": seq_num, "behind": max(height - seq_num, 0)}
            rows.append(row)
    columns: Columns = {
        "schema": "schema",
        "author": of("public_key", short_id),
        "log": "log_id",
        "height": "height",
        **({} if heights is None else {"holds": "seq_num", "behind": "behind"}),
    }
    results.rows(rows, columns)
