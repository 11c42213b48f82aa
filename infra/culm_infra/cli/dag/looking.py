"""``culm dag status``, ``resolve`` and ``history``: the contents of a folder, and the publishes of an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli.dag.folder import (
    IdArgument,
    Space,
    ValidatingFolderFlags,
    complete_id,
    parse_cid,
    parse_key,
    space_of,
)
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results
from culm_infra.columns import Columns, of

if TYPE_CHECKING:
    from culm_connectors.dag.store.folder import DagFolder
    from culm_connectors.dag.store.outcomes import OrderedPublish


SPACES: Final[Columns] = {
    "space": "space",
    "heads": "heads",
    "shards": "shards",
    "bytes": of("bytes", "{:,}".format),
    "missing nodes": of("missing_nodes", len),
    "missing shards": of("missing_shards", len),
    "tip": lambda row: row["tip"] or "",
}


def status(
    *,
    flags: ValidatingFolderFlags,
    space: Space = None,
    results: Results,
) -> None:
    """Show each space of a folder: its heads, its shards, and what is missing.

    Exit status 3: something is missing.

    Example: `culm dag status --dir mine`
    """
    with flags.open() as store:
        spaces = store.queries.spaces() if space is None else [parse_key(space)]
        rows = [_space_row(store, space_id) for space_id in spaces]
    results.rows(rows, SPACES)
    if any(row["missing_nodes"] or row["missing_shards"] for row in rows):
        raise typer.Exit(EXIT_DEGRADED)


def _space_row(store: DagFolder, space: bytes) -> dict[str, Any]:
    heads = store.dag_heads(space)
    lack = store.queries.missing([*heads, *store.publish_heads(space)])
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
    flags: ValidatingFolderFlags,
    results: Results,
) -> None:
    """Show what is published under an id: the tip, and the latest publish whose data is all here.

    Exit status 3: nothing is complete.

    Example: `culm dag resolve KEY`; `culm dag resolve KEY@bafyrei…`
    """
    name, mark, at = (None, "", "") if id is None else id.partition("@")
    wanted = parse_cid(at) if mark else None
    with flags.open() as store:
        whose = space_of(None if mark and not name else name, flags.path)
        published = store.published(whose)
    order = list(published.order)
    if wanted is not None:
        end = next((number for number, publish in enumerate(order) if publish.cid == wanted), None)
        if end is None:
            raise typer.BadParameter(f"{at} is not in the order of this id")
        order = order[: end + 1]
    complete = next((publish for publish in reversed(order) if publish.state.value == "complete"), None)
    tip = order[-1] if order else None
    row: dict[str, Any] = {
        "id": whose,
        "count": len(order),
        "tip": None if tip is None else _publish_row(tip),
        "complete": None if complete is None else _publish_row(complete),
        "other_heads": [] if mark else [cid.text for cid in published.heads],
        "waiting": [] if mark else [cid.text for cid in published.waiting],
    }
    lines = ["nothing is published"]
    if tip is not None:
        lines = [f"tip       {tip.cid.text} ({tip.state.value}, of {len(order)})"]
        if complete is not None:
            lines.append(f"complete  {complete.cid.text}\nlink      {complete.link.text}")
        lines += [f"beside    {head}" for head in row["other_heads"]]
    results.one(row, "\n".join(lines))
    if complete is None:
        raise typer.Exit(EXIT_DEGRADED)


def history(
    id: IdArgument = None,
    *,
    flags: ValidatingFolderFlags,
    results: Results,
) -> None:
    """List all publishes of an id in their order, the oldest first, with their states.

    Example: `culm dag history`; `culm dag history KEY --json`
    """
    with flags.open() as store:
        published = store.published(space_of(id, flags.path))
    rows = [
        {"position": position, **_publish_row(publish)} for position, publish in enumerate(published.order)
    ]
    results.rows(rows, ("position", "publish", "state", "link"))


def _publish_row(publish: OrderedPublish) -> dict[str, Any]:
    return {
        "publish": publish.cid.text,
        "state": publish.state.value,
        "link": publish.link.text,
        "origin": publish.origin.text,
        "shard": None if publish.shard is None else publish.shard.text,
        "prior": None if publish.prior is None else publish.prior.text,
    }
