"""Names of all settings: where each stands in the tree, its variable, its type and its unit."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from culm_infra.settings.tree import CulmSettings

PREFIX: Final = "CULM_"

PROGRAM_VARIABLES: Final = {
    "CULM_CONFIG": "The settings file; `--config` has precedence.",
    "CULM_BAMBOO_DIR": "The folder of `culm bamboo`; `--dir` has precedence.",
    "CULM_DAG_DIR": "The folder of `culm dag`; `--dir` has precedence.",
    "CULM_DAG_POLICY": "The rules for proofs of `culm dag`; its flag has precedence.",
    "CULM_JAVA": "The Java that the local stack and the jobs use: its home or its program.",
    "CULM_JARS_DIR": "The folder in which the jars of Kafka and Spark are kept.",
    "CULM_MAVEN_REPOSITORY": "The Maven repository from which jars are fetched.",
}
"""Variables that programs read by their names, beside those of settings."""

TEST_VARIABLES: Final = frozenset(
    {
        *(
            "CULM_AQUADOGGO",
            "CULM_AQUADOGGO_OPERATIONS",
            "CULM_BENCH_BOOT_LOGS",
            "CULM_BROWSER",
            "CULM_CHOTKI_GO",
            "CULM_DAG_NPM",
            "CULM_WALK",
        ),
        *("CULM_DAG_HOSTILE_BLOCKS", "CULM_DAG_HOSTILE_ROUNDS"),
        *("CULM_E2E_PUSHED", "CULM_E2E_RUNS", "CULM_NEGENTROPY", "CULM_SIM_RUNS", "CULM_SIM_SEED"),
        *("CULM_HOSTILE_ATTACKS", "CULM_HOSTILE_MESSAGES", "CULM_HOSTILE_SECONDS", "CULM_WAKU_SDS"),
    }
)
"""Variables of the project's own tests and benchmarks, whose processes inherit them."""

_UNITS: Final = {
    "_s": "seconds",
    "_seconds": "seconds",
    "_ms": "milliseconds",
    "_bytes": "bytes",
    "_mb": "MiB",
    "_size": "bytes",
    "_per_second": "per second",
    "_per_minute": "per minute",
    "_share": "share, 0 to 1",
    "_bits": "bits",
    "_port": "port",
    "bytes_per_second": "bytes per second",
    "burst_bytes": "bytes",
}
_SHARE_OF: Final = re.compile(r"_per_(?!second$|minute$)[a-z]+$")
"""End of the name of a limit for each author, peer, address and so on; it has the unit of the total."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, or one table, of the tree."""

    path: tuple[str, ...]
    field: FieldInfo
    is_optional: bool
    """It stands in a table that is not there by default, as `connector.dag.http`, or is such a table."""
    is_in_array: bool
    """It stands in an array of tables, as `connector.dag.http.tokens`, and has no variable of its own."""

    @property
    def name(self) -> str:
        """Return the dotted name."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Return the name of the environment variable; empty if it has none."""
        return "" if self.is_in_array else variable_of(self.path)

    @property
    def type_text(self) -> str:
        """Return the type in words."""
        return " or ".join(dict.fromkeys(_type_text(part) for part in members(self.field)))

    @property
    def table(self) -> type[BaseModel] | None:
        """Return the model of a table; None for a value."""
        return model_in(self.field.annotation)

    @property
    def is_array_of_tables(self) -> bool:
        """Return whether the file has `[[name]]`."""
        return self.table is not None and any(
            typing.get_origin(part) in (list, tuple) for part in members(self.field)
        )

    @property
    def description(self) -> str:
        """Return what the setting means."""
        return self.field.description or ""

    @property
    def default(self) -> Any:
        """Return the default; None if there is none."""
        if self.field.is_required():
            return None
        return self.field.get_default(call_default_factory=True)

    @property
    def unit(self) -> str:
        """Return the unit of a number; empty for others."""
        parts = [part for member in members(self.field) for part in (member, *typing.get_args(member))]
        if not {int, float} & {part for part in parts if isinstance(part, type)}:
            return ""
        name = _SHARE_OF.sub("", self.path[-1])
        matching = [suffix for suffix in _UNITS if name.endswith(suffix)]
        return _UNITS[max(matching, key=len)] if matching else "number"


def members(field: FieldInfo) -> tuple[Any, ...]:
    """Return the alternatives of a setting's type, without None."""
    return tuple(_members(field.annotation))


def _members(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _members(part)
    elif origin is typing.Annotated:
        yield from _members(typing.get_args(annotation)[0])
    elif annotation is not type(None):
        yield annotation


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a table, of an optional table or of an array of tables; None for other types."""
    for part in _members(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
        if typing.get_origin(part) in (list, tuple):
            inner = model_in(typing.get_args(part)[0])
            if inner is not None:
                return inner
    return None


def takes_json(field: FieldInfo) -> bool:
    """Return whether a variable has this setting as JSON: a list or a table."""
    return model_in(field.annotation) is not None or any(
        typing.get_origin(part) in (list, tuple, dict) for part in members(field)
    )


def takes_plain_text(field: FieldInfo) -> bool:
    """Return whether a variable may have this setting as plain text."""
    return any(
        typing.get_origin(part) is Literal or part in (int, float, str, bool, Path) for part in members(field)
    )


def _type_text(part: Any) -> str:
    origin = typing.get_origin(part)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(part))
    if origin in (list, tuple):
        inner = " or ".join(_type_text(each) for each in _members(typing.get_args(part)[0]))
        return f"list of {inner}"
    if origin is dict:
        return f"table of {_type_text(next(_members(typing.get_args(part)[1])))}"
    if isinstance(part, type) and issubclass(part, BaseModel):
        return "table"
    if isinstance(part, type):
        words = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
        return words.get(part, "text")
    return "text"


@cache
def all_settings() -> tuple[Setting, ...]:
    """Return every setting and every table, in the order of the settings file: a table's values first."""
    return tuple(_walk(CulmSettings, (), is_optional=False, is_in_array=False))


def _walk(
    model: type[BaseModel], above: tuple[str, ...], *, is_optional: bool, is_in_array: bool
) -> Iterator[Setting]:
    tables: list[tuple[Setting, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        table = model_in(field.annotation)
        setting = Setting((*above, name), field, is_optional, is_in_array)
        if table is None:
            yield setting
        else:
            tables.append((setting, table))
    for setting, table in tables:
        inner = is_optional or setting.default is None or setting.is_array_of_tables
        yield Setting(setting.path, setting.field, inner, is_in_array)
        yield from _walk(
            table, setting.path, is_optional=inner, is_in_array=is_in_array or setting.is_array_of_tables
        )


@cache
def by_path() -> dict[tuple[str, ...], Setting]:
    """Return every setting and table by its path."""
    return {setting.path: setting for setting in all_settings()}


def variable_of(path: Iterable[str]) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + "__".join(path).upper()


def suggest_variable(name: str) -> str | None:
    """Return the known variable that is most like an unknown one."""
    known = [setting.variable for setting in all_settings()] + list(PROGRAM_VARIABLES)
    squashed = {variable.replace("__", "_"): variable for variable in known}
    matches = difflib.get_close_matches(name.replace("__", "_"), squashed, n=1, cutoff=0.75)
    return squashed[matches[0]] if matches else None


def suggest_key(path: tuple[str, ...]) -> str | None:
    """Return the name of the setting that is most like an unknown key: in its table, else anywhere."""
    *above, last = path
    siblings = {each.path[-1]: each for each in all_settings() if list(each.path[:-1]) == above}
    matches = difflib.get_close_matches(last, siblings, n=1, cutoff=0.6)
    if matches:
        return siblings[matches[0]].name
    elsewhere = [each.name for each in all_settings() if each.path[-1] == last]
    if elsewhere:
        return elsewhere[0]
    near = difflib.get_close_matches(".".join(path), [each.name for each in all_settings()], n=1, cutoff=0.8)
    return near[0] if near else None
