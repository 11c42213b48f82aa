"""``culm settings``: what is set, and from where it can be set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from culm_infra.cli import options
from culm_infra.cli.output import emit_json, print_table, say

app = typer.Typer(no_args_is_help=True, help="Show the settings in force (flag > environment > culm.toml).")


@app.command()
def show(json: options.Json = False) -> None:
    """Every setting in force; secrets are redacted.

    Example: `CULM_CONNECTOR__LISTEN=0.0.0.0:4455 culm settings show`
    """
    from culm_infra.settings import config_file, load, redacted

    shown = redacted(load())
    if json:
        emit_json(shown)
        return
    path = config_file()
    say(f"file: {path}{'' if path.is_file() else ' (not there)'}")
    print_table(None, ("setting", "value"), _rows(shown))


def _rows(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
