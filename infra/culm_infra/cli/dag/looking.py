"""``culm dag status``, ``resolve`` and ``log``: what a folder holds, and what is published under an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import (
    DEFAULT_FOLDER,
    Folder,
    IdArgument,
    Policy,
    Space,
    complete_id,
    open_folder,
    parse_cid,
    parse_key,
    space_of,
)
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, out, print_table

if TYPE_CHECKING:
    from culm_connectors.dag.store.folder import DagFolder
    from culm_connectors.dag.store.outcomes import OrderedPublish


def status(
    *,
    folder: Folder = DEFAULT_FOLDER,
    space: Space = None,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """How each space of a folder stands: its heads, its shards, and what is missing.

    Exit status 3: something is missing.

    Example: `culm dag status --dir mine`
    """
    with open_folder(folder, policy) as store:
        spaces = store.spaces() if space is None else [parse_key(space)]
        rows = [_space_row(store, one) for one in spaces]
    if json:
        for row in rows:
            emit_json(row)
    else:
        columns = ("space", "heads", "shards", "bytes", "missing nodes", "missing shards", "tip")
        print_table(
            None,
            columns,
            (
                (
                    row["space"].hex(),
                    "\n".join(row["heads"]),
                    row["shards"],
                    f"{row['bytes']:,}",
                    len(row["missing_nodes"]),
                    len(row["missing_shards"]),
                    row["tip"] or "",
                )
                for row in rows
            ),
        )
    if any(row["missing_nodes"] or row["missing_shards"] for row in rows):
        raise typer.Exit(EXIT_DEGRADED)


def _space_row(store: DagFolder, space: bytes) -> dict[str, Any]:
    heads = store.dag_heads(space)
    lack = store.lack([*heads, *store.publish_heads(space)])
    shards = list(store.shards(space))
    tip = store.tip(space)
    return {
        "space": space,
        "heads": [cid.text for cid in heads],
        "shards": len(shards),
        "bytes": sum(size for _, size in shards),
        "missing_nodes": [cid.text for cid in lack.nodes],
        "missing_shards": [cid.text for cid in lack.shards],
        "opaque_shards": [cid.text for cid in lack.opaque_shards],
        "tip": None if tip is None else tip.text,
    }


def resolve(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID[@CID]]",
            help="An id, by default the own one; @CID: as of that publish.",
            autocompletion=complete_id,
        ),
    ] = None,
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """What is published under an id: the tip, and the latest publish of which everything is here.

    Exit status 3: nothing is complete.

    Example: `culm dag resolve KEY`; `culm dag resolve KEY@bafyrei…`
    """
    name, mark, at = (None, "", "") if id is None else id.partition("@")
    wanted = parse_cid(at) if mark else None
    with open_folder(folder, policy) as store:
        whose = space_of(None if mark and not name else name, folder)
        published = store.published(whose)
    order = list(published.order)
    if wanted is not None:
        place = next((number for number, one in enumerate(order) if one.cid == wanted), None)
        if place is None:
            raise typer.BadParameter(f"{at} is not in the order of this id")
        order = order[: place + 1]
    complete = next((one for one in reversed(order) if one.state.value == "complete"), None)
    tip = order[-1] if order else None
    row: dict[str, Any] = {
        "id": whose,
        "count": len(order),
        "tip": None if tip is None else _publish_row(tip),
        "complete": None if complete is None else _publish_row(complete),
        "other_heads": [] if mark else [cid.text for cid in published.heads],
        "waiting": [] if mark else [cid.text for cid in published.waiting],
    }
    if json:
        emit_json(row)
    elif tip is None:
        out.print("nothing is published")
    else:
        out.print(f"tip       {tip.cid.text} ({tip.state.value}, of {len(order)})")
        if complete is not None:
            out.print(f"complete  {complete.cid.text}\nlink      {complete.link.text}")
        for head in row["other_heads"]:
            out.print(f"beside    {head}")
    if complete is None:
        raise typer.Exit(EXIT_DEGRADED)


def log(
    id: IdArgument = None,
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """All publishes of an id in their order, the oldest first, with the state of each.

    Example: `culm dag log`; `culm dag log KEY --json`
    """
    with open_folder(folder, policy) as store:
        published = store.published(space_of(id, folder))
    rows = [{"position": place, **_publish_row(one)} for place, one in enumerate(published.order)]
    if json:
        for row in rows:
            emit_json(row)
        return
    columns = ("position", "publish", "state", "link")
    print_table(None, columns, ((row["position"], row["publish"], row["state"], row["link"]) for row in rows))


def _publish_row(one: OrderedPublish) -> dict[str, Any]:
    return {
        "publish": one.cid.text,
        "state": one.state.value,
        "link": one.link.text,
        "origin": one.origin.text,
        "shard": None if one.shard is None else one.shard.text,
        "prior": None if one.prior is None else one.prior.text,
    }
