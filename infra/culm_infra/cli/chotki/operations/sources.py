"""``culm chotki sources`` and ``retire``: whose the source numbers of this deployment are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.objects.writing import source_number
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import emit_json, print_table, say, show_passed_over

if TYPE_CHECKING:
    from culm_topics.chotki.records import SourceRecord

_COLUMNS = ("source", "owner", "state", "since")


def source_as_json(src: int, record: SourceRecord) -> dict[str, Any]:
    """A source, whose it is, and whether it is in use now."""
    from culm_topics.chotki.sources import FREE

    in_use = record.state == "allocated" and record.run != FREE
    return {
        "source": f"{src:x}",
        "owner": record.owner,
        "state": "in use" if in_use else record.state,
        "since_ms": record.since_ms,
    }


def sources_as_json(holders: Mapping[int, SourceRecord]) -> list[dict[str, Any]]:
    """All of them, by number."""
    return [source_as_json(src, one) for src, one in sorted(holders.items())]


@spread
def sources(*, kafka: KafkaFlags, json: options.Json = False) -> None:
    """The sources that edges and writers of this deployment were given: whose, and whether in use.

    Example: `culm chotki sources`
    """
    from culm_topics.chotki.sources import read_sources

    table = read_sources(kafka.settings())
    show_passed_over(table.passed_over, json=json)
    found = sources_as_json(table.holders)
    if json:
        for one in found:
            emit_json(one)
    else:
        print_table("sources", _COLUMNS, (_row(one) for one in found))


def _row(one: Mapping[str, Any]) -> list[str]:
    since = datetime.fromtimestamp(one["since_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return [one["source"], one["owner"], one["state"], since]


@spread
def retire(
    source: Annotated[str, typer.Argument(metavar="HEX", help="The source.")],
    *,
    in_use: Annotated[
        bool, typer.Option("--in-use", help="Although an edge or a writer uses it, which ends by it.")
    ] = False,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Never use a source again: it stays in vectors, and is given to nobody.

    Example: `culm chotki retire 1f2e3`
    """
    from culm_topics.chotki.sources import retire_source

    src = source_number(source)
    told = retire_source(kafka.settings(), src, in_use=in_use)
    if json:
        emit_json(source_as_json(src, told))
    else:
        say(f"source {src:x} of {told.owner} is retired")
