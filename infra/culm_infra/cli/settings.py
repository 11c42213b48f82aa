"""``culm settings``: what is set, and from where it can be set."""

from __future__ import annotations

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
    rows: list[tuple[str, object]] = []
    for name, value in shown.items():
        if isinstance(value, dict):
            rows.extend((f"{name}.{inner}", inner_value) for inner, inner_value in value.items())
        else:
            rows.append((name, value))
    print_table(None, ("setting", "value"), rows)
