"""JSON Schema of the settings file, from which editors complete it: ``docs/culm.schema.json``."""

from __future__ import annotations

import json
from typing import Any

from culm_infra.settings.tree import CulmSettings


def schema() -> dict[str, Any]:
    """Return the schema. TOML has no null: what may be absent is not required."""
    made = CulmSettings.model_json_schema()
    cleaned: dict[str, Any] = _without_null(made)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of Culm",
        "description": "The settings file culm.toml; docs/settings.md explains each setting.",
        **{name: value for name, value in cleaned.items() if name not in ("title", "description")},
    }


def schema_text() -> str:
    """Return the schema as text, ending with a newline."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _without_null(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_null(each) for each in node]
    if not isinstance(node, dict):
        return node
    table = {
        name: _without_null(value)
        for name, value in node.items()
        if not (name == "default" and value is None)
    }
    alternatives = table.get("anyOf")
    if isinstance(alternatives, list) and {"type": "null"} in alternatives:
        rest = [each for each in alternatives if each != {"type": "null"}]
        del table["anyOf"]
        table = {**rest[0], **table} if len(rest) == 1 else {"anyOf": rest, **table}
    if isinstance(table.get("title"), str) and "properties" not in table:
        # Pydantic's title of a setting is only its name.
        del table["title"]
    return table
