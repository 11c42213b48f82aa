"""``culm chotki sources`` and ``retire``: whose the source numbers of this deployment are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from culm_infra.cli.chotki.objects.writing import source_number
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import at
from culm_infra.cli.results import Results
from culm_infra.columns import Columns, of
from culm_topics.chotki.records import SourceRecord
from culm_topics.chotki.sources import FREE, read_sources, retire_source

SOURCES: Final[Columns] = {
    "source": "source",
    "owner": "owner",
    "state": "state",
    "since": of("since_ms", at),
}


def source_as_json(src: int, record: SourceRecord) -> dict[str, Any]:
    """A source, whose it is, and whether it is in use now."""
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


def sources(*, kafka: KafkaFlags, results: Results) -> None:
    """The sources that edges and writers of this deployment were given: whose, and whether in use.

    Example: `culm chotki sources`
    """
    found = read_sources(kafka.settings())
    results.passed_over(found.passed_over)
    results.rows(sources_as_json(found.holders), SOURCES, title="sources")


def retire(
    source: Annotated[str, typer.Argument(metavar="HEX", help="The source.")],
    *,
    in_use: Annotated[
        bool, typer.Option("--in-use", help="Although an edge or a writer uses it, which ends by it.")
    ] = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Never use a source again: it stays in vectors, and is given to nobody.

    Example: `culm chotki retire 1f2e3`
    """
    src = source_number(source)
    told = retire_source(kafka.settings(), src, in_use=in_use)
    results.event(source_as_json(src, told), f"source {src:x} of {told.owner} is retired")
