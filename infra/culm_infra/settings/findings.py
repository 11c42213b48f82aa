"""Findings about settings in plain words: the place, the setting, what it must be.

A finding repeats no value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from culm_infra.errors import SettingsError
from culm_infra.settings.names import by_path
from culm_infra.settings.toml_lines import KeyPath

Origins = Mapping[KeyPath, str]
"""By the path of a value: the flag, the variable or the line of a file that it comes from."""

_SHOWN: Final = 80
_LISTED: Final = 8
_SECRET_TABLES: Final = frozenset({"kafka", "topic_config", "token", "tokens"})

_TYPES: Final = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS: Final = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "below {lt}",
    "string_pattern_mismatch": "text that matches the pattern {pattern}",
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least {min_length} characters long",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "literal_error": "{expected}",
}


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """One wrong or unknown setting."""

    place: str
    """Where the value comes from: a flag, a variable, or `FILE:LINE`; empty if unknown."""
    setting: str
    problem: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.setting, self.problem) if part)


def settings_error(findings: Sequence[WrongSetting]) -> SettingsError:
    """Return one error for all findings."""
    shown = [*map(str, findings[:_LISTED])]
    if len(findings) > _LISTED:
        shown.append(f"and {len(findings) - _LISTED} more")
    hint = "`culm settings check` lists everything that is wrong; docs/settings.md has every setting"
    return SettingsError("; ".join(shown), hint=hint)


def wrong_values(error: ValidationError, within: str = "") -> SettingsError:
    """Return an error that names all wrong values of a model; `within` is the section that it stands in."""
    return settings_error(explain(error, {}, above=tuple(filter(None, within.split(".")))))


def explain(error: ValidationError, origins: Origins, above: KeyPath = ()) -> list[WrongSetting]:
    """Return a finding for each wrong value.

    The alternatives of one value's type become one finding.
    """
    grouped: dict[KeyPath, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        path = _in_the_tree((*above, *item["loc"]))
        grouped.setdefault(path, []).append(item)
    for path in list(grouped):
        # A value inside a table is wrong: that the table is not another type is no news.
        if any(other[: len(path)] == path != other for other in grouped) and _is_type_error(grouped[path]):
            del grouped[path]
    return [
        WrongSetting(origin_of(path, origins), dotted(path), _problem(path, items))
        for path, items in grouped.items()
    ]


def _is_type_error(items: Sequence[ErrorDetails]) -> bool:
    return all(item["type"] in _TYPES for item in items)


def origin_of(path: KeyPath, origins: Origins) -> str:
    """Return where a value comes from; for a table, where its values come from."""
    for end in range(len(path), 0, -1):
        if path[:end] in origins:
            if end == len(path) or not _below(path, origins):
                return origins[path[:end]]
            break
    return ", ".join(list(dict.fromkeys(_below(path, origins)))[:3])


def _below(path: KeyPath, origins: Origins) -> list[str]:
    return [place for inner, place in origins.items() if inner[: len(path)] == path]


def dotted(path: Iterable[str | int]) -> str:
    """Return the name of a setting: `connector.dag.http.tokens[0].sha256`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _in_the_tree(location: KeyPath) -> KeyPath:
    """Leave out what Pydantic adds to a location: the alternative of a union."""
    plain: KeyPath = ()
    for part in location:
        names = tuple(each for each in (*plain, part) if isinstance(each, str))
        is_known = names in by_path() or isinstance(part, int)
        parent = by_path().get(tuple(each for each in plain if isinstance(each, str)))
        is_free = parent is not None and parent.table is None and not _names_a_type(part)
        if is_known or is_free or (parent is None and not _names_a_type(part)):
            plain = (*plain, part)
    return plain


def _names_a_type(part: str | int) -> bool:
    if not isinstance(part, str):
        return False
    return part in {"[key]", "int", "float", "str", "bool", "path", "constrained-int"} or part.startswith(
        ("literal[", "dict[", "tuple[", "list[", "function-")
    )


def _problem(path: KeyPath, items: Sequence[ErrorDetails]) -> str:
    custom = [_custom(item) for item in items if item["type"] in ("value_error", "assertion_error")]
    if custom:
        return "; ".join(custom)
    kinds = {item["type"] for item in items}
    if kinds == {"missing"}:
        return "is required"
    if kinds == {"extra_forbidden"}:
        return "no such setting"
    words = list(dict.fromkeys(_must_be(item) for item in items))
    if any("constrained-int" in item["loc"] and item["type"] in _BOUNDS for item in items):
        words = [word for word in words if word != "a table"]
    return f"must be {' or '.join(words)}{_value_shown(path, items[0]['input'])}"


def _custom(item: ErrorDetails) -> str:
    error = item.get("ctx", {}).get("error")
    return str(error) if error is not None else item["msg"].partition(", ")[2]


def _must_be(item: ErrorDetails) -> str:
    kind = item["type"]
    if kind in _TYPES:
        return _TYPES[kind]
    template = _BOUNDS.get(kind)
    return template.format(**item.get("ctx", {})) if template is not None else "something else"


def _value_shown(path: KeyPath, value: Any) -> str:
    if not isinstance(value, str | int | float) or _SECRET_TABLES & set(path):
        return ""
    shown = repr(value) if isinstance(value, str) else str(value).lower()
    return f", not {shown}" if len(shown) <= _SHOWN else ""
