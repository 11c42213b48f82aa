"""``culm logs blocks``: log heights and fingerprints by block of public keys, and the lag of peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.logs.peers import find_peer, short_id
from culm_infra.cli.options import KafkaFlags, refuse
from culm_infra.cli.output import Results, say
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
        str | None, typer.Option(metavar="PEER", help="What this peer holds of it: its id, or how it starts.")
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show blocks, logs, entries and fingerprint per schema, and how many records of `logs` are not included
    yet.

    With `--peer`, show how far that peer is behind in each schema or block: the job `blocks` keeps a version
    vector for each block, beside the global one that `culm logs vv` shows.

    Example: `culm logs blocks --peer 2f8e50c2 --each`
    """
    if block is not None:
        refuse(context, ["each"], "--block shows the logs of one block")
    reached = kafka.settings()
    found = read_blocks(reached, schema)
    results.passed_over(found.passed_over)
    if found.torn:
        say(f"[yellow]{len(found.torn)} blocks could not be put together and are left out[/]")
    if block is not None and found.block_bits is not None and block >> found.block_bits:
        raise InfraError(
            f"there is no block {block}",
            hint=f"blocks have {found.block_bits} bits: 0 to {(1 << found.block_bits) - 1}",
        )
    vectors = None
    if peer is not None:
        every = read_block_vectors(reached, block_bits=found.block_bits)
        results.passed_over(every.passed_over)
        peer_id = find_peer(peer.lower(), sorted({vector.peer_id for vector in every}))
        vectors = _only_peer(every, peer_id)
        say(f"peer {peer_id.hex()}")
    if block is not None:
        _show_logs(found, vectors, block, results)
    elif vectors is not None:
        _show_peer(found, vectors, results, each=each)
    else:
        _show_blocks(reached, found, results, each=each)


def _only_peer(vectors: Blocks, peer_id: bytes) -> Blocks:
    return replace(vectors, blocks=tuple(one for one in vectors if one.peer_id == peer_id))


def _show_blocks(kafka: KafkaSettings, found: Blocks, results: Results, *, each: bool) -> None:

    lag = sum(
        end - min(max(found.applied.get(partition, 0), start), end)
        for partition, (start, end) in offsets_of(kafka, "logs").items()
    )
    rows: list[dict[str, Any]] = []
    for schema_id, numbers in _grouped(found, each=each).items():
        rows.append(
            {
                "schema": schema_id[0],
                "block_bits": found.block_bits,
                **({"block": schema_id[1]} if each else {"blocks": len(numbers)}),
                "logs": sum(one.log_count for one in numbers),
                "entries": sum(one.entry_count for one in numbers),
                "fingerprints": total_fingerprints(numbers),
                **({"version": [list(place) for place in numbers[0].version]} if each else {}),
                "lag": lag,
            }
        )
    bits = found.block_bits
    if bits is None:
        results.say("no blocks yet: `culm job run blocks` writes them")
        return
    results.say(f"{1 << bits} blocks a schema ({bits} bits); {lag} records of `logs` to come")
    place = "block" if each else "blocks"
    columns: Columns = {
        **{name: name for name in ("schema", place, "logs", "entries")},
        f"fingerprint ({_LIFT})": of("fingerprints", lambda lifts: lifts.get(_LIFT)),
        "lag": "lag",
    }
    results.rows(rows, columns)


def _grouped(found: Blocks, *, each: bool) -> dict[tuple[str, int | None], list[Block]]:
    groups: dict[tuple[str, int | None], list[Block]] = defaultdict(list)
    for one in found:
        groups[one.schema_id, one.block if each else None].append(one)
    return groups


def _show_peer(found: Blocks, vectors: Blocks, results: Results, *, each: bool) -> None:

    stands = list(block_lags(found, vectors))
    rows = [_row(one) for one in stands] if each else list(_by_schema(found, stands))
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


def _row(one: BlockLag) -> dict[str, Any]:
    plain = asdict(one)
    return {"peer": plain.pop("peer_id"), "schema": plain.pop("schema_id"), **plain, "equal": one.equal}


def _by_schema(found: Blocks, stands: Collection[BlockLag]) -> Iterable[dict[str, Any]]:
    groups = _grouped(found, each=False)
    for schema_id in sorted({one.schema_id for one in stands}):
        all_blocks = groups[schema_id, None]
        held = [one for one in stands if one.schema_id == schema_id]
        yield {
            "peer": held[0].peer_id,
            "schema": schema_id,
            "blocks": len(all_blocks),
            "equal_blocks": sum(one.equal for one in held),
            "logs": sum(one.log_count for one in all_blocks),
            "logs_held": sum(one.logs_held for one in held),
            "logs_behind": sum(one.logs_behind for one in held),
            "entries_behind": sum(one.entries_behind for one in held),
        }


def _show_logs(found: Blocks, vectors: Blocks | None, block: int, results: Results) -> None:

    held = None
    if vectors is not None:
        held = {log: seq for one in vectors if one.block == block for log, seq in rows_of(one.heights)}
    rows: list[dict[str, Any]] = []
    for one in found:
        if one.block != block:
            continue
        for log, height in rows_of(one.heights):
            public_key, log_id = split_log_key(log)
            row = {"schema": one.schema_id, "public_key": public_key, "log_id": log_id, "height": height}
            if held is not None:
                seq_num = held.get(log, 0)
                row |= {"seq_num": seq_num, "behind": max(height - seq_num, 0)}
            rows.append(row)
    columns: Columns = {
        "schema": "schema",
        "author": of("public_key", short_id),
        "log": "log_id",
        "height": "height",
        **({} if held is None else {"holds": "seq_num", "behind": "behind"}),
    }
    results.rows(rows, columns)
