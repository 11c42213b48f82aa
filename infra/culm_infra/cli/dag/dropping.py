"""``culm dag drop`` and ``collect``: shards that are wanted, or needed, no more (R33)."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, Policy, count_of, now_s, open_folder, parse_cid
from culm_infra.cli.output import emit_json, out, say


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
    with open_folder(folder) as store:
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


def collect(
    *,
    folder: Folder = DEFAULT_FOLDER,
    keep: Annotated[
        int, typer.Option("--keep", min=0, help="Complete publishes of each id whose shards stay.")
    ] = 10,
    grace_days: Annotated[
        float, typer.Option("--grace", metavar="DAYS", min=0, help="Shards that came within this stay.")
    ] = 30.0,
    now: Annotated[
        int | None, typer.Option("--now", metavar="SECONDS", help="Since 1970; by default the clock's.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Drop them; else they are only listed.")] = False,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """List the shards that nothing needs any more, and drop them with --apply.

    Kept are the shards of the newest complete publishes of each id, and those of spaces whose id never
    published. The same folder, settings and time give the same list.

    Example: `culm dag collect --keep 3`; `culm dag collect --grace 7 --apply`
    """
    from culm_connectors.dag.collecting import DAY_S, CollectSettings, collectable

    settings = CollectSettings(keep, int(grace_days * DAY_S))
    with open_folder(folder, policy) as store:
        found = collectable(store, settings, now=now_s() if now is None else now)
        if apply:
            for shard, _ in found:
                store.drop_shard(shard)
    for shard, size in found:
        if json:
            emit_json({"shard": shard.text, "bytes": size, "dropped": apply})
        else:
            out.print(f"{shard.text}  {count_of(size, 'byte')}")
    if not json:
        total = sum(size for _, size in found)
        rest = "" if apply else " (--apply drops them)"
        say(f"{count_of(len(found), 'shard')}, {count_of(total, 'byte')}{rest}")
