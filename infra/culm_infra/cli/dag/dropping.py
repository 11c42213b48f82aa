"""``culm dag drop``: shards that are wanted no more (R33)."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, opened, parse_cid
from culm_infra.cli.output import emit_json, out


def drop(
    cids: Annotated[list[str], typer.Argument(metavar="CID…", help="Shards.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    block: Annotated[
        str | None, typer.Option("--block", metavar="REASON", help="Refuse them from now on, too.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Forget shards: they are missing from then on, and may come again unless they are blocked.

    Order, heads and verdicts do not change by it; what needs the shards is pending.

    Example: `culm dag drop bagbaiera…`; `culm dag drop bagbaiera… --block "asked for by its author"`
    """
    shards = [parse_cid(text) for text in cids]
    rows = []
    with opened(folder) as store:
        for shard in shards:
            was_here = store.drop_shard(shard)
            if block is not None:
                store.set_blocked(shard.raw, block)
            rows.append({"shard": shard.text, "was_here": was_here, "blocked": block is not None})
    for row in rows:
        if json:
            emit_json(row)
        else:
            out.print(f"{row['shard']} {'dropped' if row['was_here'] else 'was not here'}")
