"""``culm settings``: the settings in force, and the file that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.output import Results, emit_json, print_table, say


def show(*, results: Results) -> None:
    """Print every setting in force; secrets are redacted.

    Example: `CULM_CONNECTOR__LISTEN=0.0.0.0:4455 culm settings show`
    """
    from culm_infra.settings import config_file, load, redacted

    shown = redacted(load())
    if results.json:
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


app = noun("Show the settings in force (flag > environment > culm.toml).", {"show": show})
