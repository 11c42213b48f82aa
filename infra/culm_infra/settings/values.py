"""Values of settings as TOML, and bounds in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic.fields import FieldInfo

_BOUNDS: Final = (("ge", "at least {}"), ("gt", "above {}"), ("le", "at most {}"), ("lt", "below {}"))


def as_toml(value: Any) -> str:
    """Return a value as the settings file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:_}" if abs(value) >= 10_000 else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {as_toml(each)}" for name, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(str(value), ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name)


def bounds(field: FieldInfo) -> str:
    """Return the bounds of a setting in words; empty if there are none."""
    return ", ".join(dict.fromkeys(_bounds(field)))


def _bounds(field: FieldInfo) -> Iterator[str]:
    for metadata in (field.metadata, *_inner(field.annotation)):
        for each in metadata:
            for attribute, words in _BOUNDS:
                bound = getattr(each, attribute, None)
                if bound is not None:
                    yield words.format(f"{bound:,}" if isinstance(bound, int) else f"{bound:g}")
            pattern = getattr(each, "pattern", None)
            if pattern:
                yield f"matches `{pattern}`"
            for attribute, words in (("min_length", "at least {} long"), ("max_length", "at most {} long")):
                if getattr(each, attribute, None):
                    yield words.format(getattr(each, attribute))


def _inner(annotation: Any) -> Iterator[list[Any]]:
    """Return the metadata of the alternatives of a type."""
    for part in getattr(annotation, "__args__", ()):
        for metadata in getattr(part, "__metadata__", ()):
            yield list(metadata.metadata) if isinstance(metadata, FieldInfo) else [metadata]
        if not hasattr(part, "__metadata__"):
            yield from _inner(part)
