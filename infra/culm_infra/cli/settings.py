"""``culm settings``: the settings in force, their check, and the generated documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import ConfigFile
from culm_infra.cli.kit.output import EXIT_USAGE, Results, emit_json, out, say

if TYPE_CHECKING:
    from culm_infra.settings.findings import Origins

_VALUE_COLUMN = 60
"""Column behind which the source of a value stands; longer values move it."""
FILE = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="The settings file; by default the one that commands use."),
]


def show(*, config: ConfigFile = None, results: Results) -> None:
    """Print every setting in force and where it comes from; secrets are redacted.

    Example: `CULM_CONNECTOR__LISTEN=0.0.0.0:4455 culm settings show`
    """
    from culm_infra.settings.kafka import redacted
    from culm_infra.settings.loading import examine

    loaded = examine(config)
    rows = list(_rows(redacted(loaded.in_force()), loaded.origins))
    if results.json:
        for name, value, source in rows:
            emit_json({"setting": name, "value": value, "source": source})
        return
    say(f"file: {loaded.file}{'' if loaded.file.is_file() else ' (not there)'}")
    lines = [(f"{name} = {_value(value)}", source) for name, value, source in rows]
    width = min(_VALUE_COLUMN, max(len(line) for line, _ in lines))
    for line, source in lines:
        out.print(f"{line:{width}}  # {source}", markup=False)


def _value(value: Any) -> str:
    from culm_infra.settings.values import as_toml

    return "(not set)" if value is None else as_toml(value)


def _rows(
    tree: Mapping[str, Any], origins: Origins, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any, str]]:
    from culm_infra.settings.findings import dotted, origin_of

    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict) and value:
            yield from _rows(value, origins, path)
        else:
            yield dotted(path), value, origin_of(path, origins) or "default"


def check(file: FILE = None, *, config: ConfigFile = None, results: Results) -> None:
    """Check the settings without starting anything: names, values, addresses, files.

    Example: `culm settings check culm.toml`
    """
    from culm_infra.settings.check import check as check_settings

    if file is not None and config is not None:
        raise typer.BadParameter("the file is given twice", param_hint="--config")
    path, findings = check_settings(file or config)
    for finding in findings:
        row = {"place": finding.place, "setting": finding.setting, "problem": finding.problem}
        results.one(row, str(finding))
    if findings:
        raise typer.Exit(EXIT_USAGE)
    results.say(f"{path}: the settings are in order" if path.is_file() else "the settings are in order")


def reference() -> None:
    """Print the reference of all settings as a Markdown document.

    Example: `culm settings reference`
    """
    from culm_infra.settings.reference import reference as document

    sys.stdout.write(document())


def schema() -> None:
    """Print a JSON Schema of the settings file, from which editors complete it.

    Example: `culm settings schema`
    """
    from culm_infra.settings.schema import schema_text

    sys.stdout.write(schema_text())


def example() -> None:
    """Print a commented settings file with every setting and its default.

    Example: `culm settings example`
    """
    from culm_infra.settings.example import example as commented

    sys.stdout.write(commented())


app = noun(
    "The settings: flags have precedence over the environment, which has precedence over culm.toml.",
    {"show": show, "check": check, "reference": reference, "schema": schema, "example": example},
)
