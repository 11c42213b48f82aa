"""``culm dag drop`` and ``collect``: delete shards that are unwanted, or no longer needed (R33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.dag.folder import (
    DagFolderFlags,
    OnKafka,
    ValidatingFolderFlags,
    check_place,
    complete_id,
    count_of,
    now_s,
    open_folder,
    parse_cid,
    parse_key,
)
from culm_infra.cli.kit.options import KafkaFlags, named_once, refuse
from culm_infra.cli.kit.output import Results
from culm_infra.columns import Row
from culm_models.dag.blocks.cid import Cid
from culm_topics.kafka.clients import KafkaSettings

_MAX_DAYS = 1_000_000
_MAX_KEPT = 1_000_000_000

if TYPE_CHECKING:
    from pathlib import Path


def drop(
    context: typer.Context,
    cids: Annotated[list[str] | None, typer.Argument(metavar="[CID…]", help="Shards.")] = None,
    *,
    flags: DagFolderFlags,
    spaces: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            metavar="KEY",
            help="A whole space: shards that no other one has, and whatever comes of it. Repeatable.",
            autocompletion=complete_id,
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="The reason, for clients that are refused.")
    ] = "dropped by the operator",
    lift: Annotated[bool, typer.Option("--lift", help="Drop nothing: let them come again.")] = False,
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Delete shards, or the shards of a space, and refuse them from now on (`dag.blocked`), until --lift.

    Order, heads and verdicts stay the same; content that needs the shards becomes pending. New appends and
    publishes of a refused space are refused; what is already in its order stays. (`culm dag collect` only
    deletes.)

    Example: `culm dag drop bagbaiera… --reason "asked for by its author"`;
    `culm dag drop --space KEY --kafka`
    """
    check_place(context, on_kafka=on_kafka)
    if lift:
        refuse(context, ["reason"], "--lift drops nothing")
    shards = [parse_cid(text) for text in cids or ()]
    whole = [parse_key(text) for text in spaces or ()]
    if not shards and not whole:
        raise typer.BadParameter("name shards by their CIDs, or spaces by --space")
    why = None if lift else reason
    if on_kafka:
        here = _drop_from_topics(kafka.settings(), shards, whole, why)
    else:
        here = _drop_from_folder(flags.path, shards, whole, why)
    for space in whole:
        row: Row = {"space": space, "blocked": not lift}
        results.one(row, f"{space.hex()} {'may come again' if lift else 'is refused'}")
    for shard in dict.fromkeys([*shards, *sorted(here)]):
        became = "may come again" if lift else "dropped" if shard in here else "was not here"
        row = {"shard": shard.text, "was_here": shard in here, "blocked": shard in shards and not lift}
        results.one(row, f"{shard.text} {became}")


def _drop_from_folder(folder: Path, shards: list[Cid], spaces: list[bytes], reason: str | None) -> set[Cid]:
    """Return the shards that were dropped."""
    from culm_connectors.dag.collecting import shards_of_no_other

    with open_folder(folder) as store:
        for key in [*(shard.raw for shard in shards), *spaces]:
            store.set_blocked(key, reason)
        if reason is None:
            return set()
        wanted = [*shards, *shards_of_no_other(store, spaces)]
        return {shard for shard in wanted if store.drop_shard(shard)}


def _drop_from_topics(
    kafka: KafkaSettings, shards: list[Cid], spaces: list[bytes], reason: str | None
) -> set[Cid]:
    """Return the shards that were dropped."""
    from culm_connectors.dag.collecting import shards_of_no_other
    from culm_connectors.dag.deployment import (
        block_in_topics,
        drop_from_topics,
        keep_for_others,
        read_deployment,
    )

    wanted = set(shards)
    if spaces and reason is not None:
        with read_deployment(kafka) as store:
            wanted.update(shards_of_no_other(store, spaces))
            keep_for_others(kafka, store, spaces)
    # Block the shards before they are dropped, so that they cannot return meanwhile.
    block_in_topics(kafka, [*shards, *spaces], reason, now=now_s())
    return set() if reason is None else drop_from_topics(kafka, wanted)


def collect(
    context: typer.Context,
    *,
    flags: ValidatingFolderFlags,
    keep_publishes: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=_MAX_KEPT, help="Complete publishes of each id whose shards stay."
        ),
    ] = 10,
    keep_publishes_of: Annotated[
        list[str] | None, typer.Option(metavar="KEY=N", help="Of one id another number. Repeatable.")
    ] = None,
    grace_days: Annotated[
        float,
        typer.Option(
            "--grace", metavar="DAYS", min=0, max=_MAX_DAYS, help="Shards that came within this stay."
        ),
    ] = 30.0,
    now: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Since 1970; by default the clock's.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Drop them; else they are only listed.")] = False,
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """List the shards that are no longer needed, and drop them with --apply.

    The shards of the newest complete publishes of each id stay, and those of spaces whose id never published.
    The same store, settings and time give the same list.

    Example: `culm dag collect --keep-publishes 3 --keep-publishes-of KEY=100`;
    `culm dag collect --kafka --grace 7 --apply`
    """
    from culm_connectors.dag.collecting import DAY_S, CollectSettings, collectable
    from culm_connectors.dag.deployment import drop_from_topics, read_deployment

    check_place(context, on_kafka=on_kafka)
    keep_by_id = named_once(map(_parse_keep, keep_publishes_of or ()), "--keep-publishes-of")
    settings = CollectSettings(keep_publishes, keep_by_id, int(grace_days * DAY_S))
    with read_deployment(kafka.settings()) if on_kafka else flags.open() as store:
        shards = collectable(store, settings, now=now_s() if now is None else now)
        if apply and not on_kafka:
            for shard, _ in shards:
                store.drop_shard(shard)
    if apply and on_kafka:
        drop_from_topics(kafka.settings(), {shard for shard, _ in shards})
    for shard, size in shards:
        row = {"shard": shard.text, "bytes": size, "dropped": apply}
        results.one(row, f"{shard.text}  {count_of(size, 'byte')}")
    total = sum(size for _, size in shards)
    rest = "" if apply else " (--apply drops them)"
    results.say(f"{count_of(len(shards), 'shard')}, {count_of(total, 'byte')}{rest}")


def _parse_keep(text: str) -> tuple[bytes, int]:
    """Parse an id and a number. Raises `typer.BadParameter`."""
    key, _, number = text.rpartition("=")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise typer.BadParameter(f"{text!r} is not KEY=N", param_hint="--keep-publishes-of")
    return parse_key(key), int(number)
