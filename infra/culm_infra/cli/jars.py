"""``culm jars``: the jars of Kafka and of Spark's Kafka connector, fetched once and checked by checksum."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, emit_json, out, say

if TYPE_CHECKING:
    from culm_infra.stack.jars import JarSet


class SetName(StrEnum):
    """A set of jars."""

    BROKER = "broker"
    SPARK = "spark"
    ALL = "all"


class FileSystem(StrEnum):
    """An object store for checkpoints."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"


With = Annotated[
    list[FileSystem] | None,
    typer.Option("--with", help="Also the file system of a store for checkpoints; repeatable."),
]
Set = Annotated[SetName, typer.Option("--set", help="Which jars: the broker's, Spark's connector, or all.")]


def fetch_with_progress(name: JarSet) -> list[str]:
    """Fetch the missing jars of a set with a progress bar. Returns the paths of the whole set."""
    from culm_infra.stack import jars

    with counting(f"jars: {name}", visible=False) as count:

        def on_jar(present: int, total: int, _jar: str) -> None:
            count(completed=present, total=total, visible=True)

        return [str(path) for path in jars.ensure(name, progress=on_jar)]


def fetch(set_name: Set = SetName.ALL, file_systems: With = None, *, results: Results) -> None:
    """Fetch missing jars and verify every checksum; if nothing is missing, no network is used.

    With s3, jobs can keep checkpoints on s3a:// (654 MB, most of it Amazon's SDK); gcs is for gs://, azure
    for abfss://.

    Example: `culm jars fetch --with s3`. CULM_MAVEN_REPOSITORY names a mirror, CULM_JARS_DIR the directory.
    """
    paths = {name: fetch_with_progress(name) for name in _sets(set_name, file_systems)}
    for name, jars in paths.items():
        if results.json:
            for jar in jars:
                emit_json({"set": name, "path": jar})
        else:
            say(f"{name}: {len(jars)} jars, sums checked")


def list_jars(set_name: Set = SetName.ALL, file_systems: With = None, *, results: Results) -> None:
    """List every jar of the table with its state here. Exit status 3: a jar is missing or wrong.

    Example: `culm jars list --set spark`
    """
    from culm_infra.stack import jars

    rows = [
        {"set": name, "coordinate": str(coordinate), "sha256": coordinate.sha256, "state": state}
        for name in _sets(set_name, file_systems)
        for coordinate, state in jars.status(name)
    ]
    results.rows(rows, ("set", "coordinate", "state"))
    if any(row["state"] != "present" for row in rows):
        raise typer.Exit(EXIT_DEGRADED)


def path(
    file_systems: With = None,
    set_name: Annotated[
        SetName | None, typer.Option("--set", help="Print the set's jars, one path a line, instead.")
    ] = None,
) -> None:
    """Print the directory that holds the jars, or with --set the path of each (fetched first if missing).

    Example: `culm jars path --set spark | paste -sd,`
    """
    from culm_infra.stack import jars

    if set_name is None and not file_systems:
        out.print(str(jars.cache_directory()), markup=False)
        return
    for name in _sets(set_name, file_systems):
        for jar in fetch_with_progress(name):
            out.print(jar, markup=False)


def _sets(name: SetName | None, file_systems: Sequence[FileSystem] | None) -> tuple[JarSet, ...]:
    from culm_infra.stack.coordinates import JAR_SETS

    chosen = tuple(
        each for each in JAR_SETS if name is SetName.ALL or (name is not None and each == name.value)
    )
    return (*chosen, *(each.value for each in file_systems or ()))


app = noun(
    "The jars of Kafka and of Spark's Kafka connector.", {"fetch": fetch, "list": list_jars, "path": path}
)
