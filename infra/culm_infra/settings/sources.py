"""Sources of settings in order of precedence: flags, environment variables, the settings file.

Each source gives a nested table, and the place of each of its values.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from platformdirs import PlatformDirs
from pydantic import BaseModel

from culm_infra.errors import SettingsError
from culm_infra.settings.findings import WrongSetting, dotted
from culm_infra.settings.names import (
    PREFIX,
    PROGRAM_VARIABLES,
    TEST_VARIABLES,
    Setting,
    by_path,
    model_in,
    suggest_key,
    suggest_variable,
    takes_json,
    takes_plain_text,
)
from culm_infra.settings.toml_lines import KeyPath, key_lines
from culm_infra.settings.tree import CulmSettings
from culm_topics.kafka.variables import FILE_SUFFIX, property_name, value_in_file

DIRECTORIES = PlatformDirs("culm", appauthor=False)

_FREE_NAMES: Final = {("kafka",): ".", ("topic_config",): "-", ("job", "metrics_port"): "-"}
"""Tables whose names are not in the tree, with the character that an underscore stands for in a variable."""
_FLATTENED: Final = {"kafka": 1, "topic_config": 2}
"""Tables of Kafka's properties, whose names have dots that TOML reads as tables; with their depth."""
_POD: Final = re.compile(r"SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?")
_LINE: Final = re.compile(r"at line ([0-9]+), column [0-9]+")


@dataclass(slots=True)
class Sources:
    """All values that are set, the place of each, and what is wrong with their names."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    findings: list[WrongSetting] = field(default_factory=list)

    def put(self, path: KeyPath, value: Any, place: str) -> None:
        """Set a value over the one of a source of lower precedence; tables are merged."""
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self.put((*path, str(name)), inner, place)
            if value:
                return
        table: dict[str, Any] = self.values
        for name in path[:-1]:
            inner_table = table.get(str(name))
            if not isinstance(inner_table, dict):
                inner_table = table[str(name)] = {}
            table = inner_table
        if isinstance(value, Mapping) and isinstance(table.get(str(path[-1])), dict):
            return
        table[str(path[-1])] = {} if isinstance(value, Mapping) else value
        for below in [each for each in self.origins if each[: len(path)] == path]:
            del self.origins[below]
        self.origins[path] = place

    def refuse(self, place: str, setting: str, problem: str) -> None:
        """Add a finding."""
        self.findings.append(WrongSetting(place, setting, problem))


def config_file(named: Path | None = None) -> Path:
    """Return the path of the settings file: the given one, else the one that ``CULM_CONFIG`` names, else
    ``culm.toml`` in the working directory, else the user's.

    Only the user's file need not exist. Raises `SettingsError` if a named file does not exist.
    """
    variable = os.environ.get("CULM_CONFIG")
    if named is not None:
        if not named.is_file():
            problem = "is not a file" if named.exists() else "does not exist"
            raise SettingsError(
                f"the settings file {named} {problem}", hint="`culm settings example` has one"
            )
        return named
    if variable:
        path = Path(variable)
        if not path.is_file():
            raise SettingsError(
                f"CULM_CONFIG names {path}, which is not a file", hint="create it or unset CULM_CONFIG"
            )
        return path
    here = Path("culm.toml")
    return here if here.is_file() else Path(DIRECTORIES.user_config_dir) / "culm.toml"


def collect(file: Path, flags: Mapping[str, Any]) -> Sources:
    """Read all sources. Raises `SettingsError` if the file cannot be read or is not TOML."""
    sources = Sources()
    _read_file(sources, file)
    _read_environment(sources, os.environ)
    for path, value in _leaves(flags):
        sources.put(path, value, _flag(path, value))
    _drop_unknown(sources, sources.values, CulmSettings, ())
    return sources


def _leaves(table: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Return the values of flags that were given."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        elif value is not None and value != []:
            yield (*above, name), value


def _flag(path: KeyPath, value: Any) -> str:
    """Return the flag of the running command that has a value: by the flag's name, else by its value."""
    from typer.main import get_current_context  # type: ignore[attr-defined]

    if path[0] == "kafka":
        return "--kafka-option"
    context = get_current_context(silent=True)
    if context is None:
        return "the command line"
    named, valued = "", ""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.name == path[-1]:
            named = parameter.opts[0]
        elif context.params.get(parameter.name) == value:
            valued = valued or parameter.opts[0]
    return named or valued or "the command line"


# The settings file.


def _read_file(sources: Sources, file: Path) -> None:
    try:
        text = file.read_bytes().decode()
        table = tomllib.loads(text)
    except FileNotFoundError:
        return
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        place = f" (line {line[1]})" if line else ""
        raise SettingsError(f"{file} is not TOML{place}: {error}") from error
    except UnicodeDecodeError as error:
        position = f"byte {error.start}"
        raise SettingsError(f"{file} is not UTF-8 at {position}", hint="save it as UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    lines = key_lines(text)
    for path, value in _of_file(table, ()):
        sources.put(_joined(path), value, f"{file}:{lines.get(path, 1)}")
    for path, line_number in lines.items():
        # Elements of lists, for findings about one of them.
        if any(isinstance(part, int) for part in path):
            sources.origins[path] = f"{file}:{line_number}"


def _of_file(table: Mapping[str, Any], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _of_file(value, (*above, name))
        else:
            yield (*above, name), value


def _joined(path: KeyPath) -> KeyPath:
    """Join the parts of a property's name, so that it may stand in the file without quotes."""
    depth = _FLATTENED.get(str(path[0]))
    if depth is None or len(path) <= depth + 1:
        return path
    return (*path[:depth], ".".join(map(str, path[depth:])))


# The environment.


def _read_environment(sources: Sources, environment: Mapping[str, str]) -> None:
    names = sorted(
        (name for name in environment if name.startswith(PREFIX)), key=lambda name: name.count("__")
    )
    for name in names:
        if name in PROGRAM_VARIABLES or name in TEST_VARIABLES or _is_of_a_pod(name, environment):
            continue
        match = _in_the_tree(name)
        raw = environment[name]
        if match is None and name.endswith(FILE_SUFFIX):
            base = name.removesuffix(FILE_SUFFIX)
            match = _in_the_tree(base) or _free_name(base)
            if match is not None:
                if base in environment:
                    sources.refuse(f"{base}, {name}", dotted(match[0]), "both variables are set; unset one")
                    continue
                content = _content(sources, name, Path(raw), match[0])
                if content is None:
                    continue
                raw = content
        match = match or _free_name(name)
        if match is None:
            near = suggest_variable(name)
            did = f"; did you mean {near}?" if near else "; `culm settings reference` has all names"
            sources.refuse(name, "", f"no such setting{did}")
            continue
        path, setting = match
        value = _parsed(sources, name, raw, path, setting)
        if value is not None:
            sources.put(path, value, name)


def _key_of(name: str) -> tuple[str, ...]:
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def _in_the_tree(name: str) -> tuple[KeyPath, Setting] | None:
    setting = by_path().get(_key_of(name))
    return None if setting is None or not setting.variable else (setting.path, setting)


def _free_name(name: str) -> tuple[KeyPath, Setting] | None:
    parts = _key_of(name)
    for free, stands_for in _FREE_NAMES.items():
        rest = parts[len(free) :]
        if parts[: len(free)] == free and all(rest) and len(rest) <= (2 if free == ("topic_config",) else 1):
            first = property_name(rest[0]) if stands_for == "." else rest[0].replace("_", stands_for)
            return (*free, first, *(part.replace("_", ".") for part in rest[1:])), by_path()[free]
    return None


def _is_of_a_pod(name: str, environment: Mapping[str, str]) -> bool:
    """Return whether Kubernetes sets this variable, as it does for a service whose name begins with culm."""
    services = [each.removesuffix("SERVICE_HOST") for each in environment if each.endswith("_SERVICE_HOST")]
    return any(name.startswith(each) and _POD.fullmatch(name[len(each) :]) for each in services)


def _content(sources: Sources, name: str, file: Path, path: KeyPath) -> str | None:
    try:
        return value_in_file(file)
    except OSError as error:
        sources.refuse(name, dotted(path), f"cannot read the file {file}: {error.strerror}")
    except UnicodeDecodeError:
        sources.refuse(name, dotted(path), f"the file {file} is not UTF-8")
    return None


def _parsed(sources: Sources, name: str, raw: str, path: KeyPath, setting: Setting) -> Any:
    """Return the value of a variable: lists and tables are JSON. The value is never repeated."""
    is_property = len(path) > len(setting.path)
    is_table_of_properties = path[0] == "topic_config" and len(path) == 2
    if (is_property and not is_table_of_properties) or not takes_json(setting.field):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        if takes_plain_text(setting.field) and not raw.startswith(("{", "[")):
            return raw
        example = '["10.0.0.1:4455"]' if "list" in setting.type_text else '{"security.protocol": "SSL"}'
        problem = f"a list or table in a variable is JSON, for example {example}; this is not JSON"
        sources.refuse(name, dotted(path), problem)
        return None


# Unknown names.


def _drop_unknown(sources: Sources, table: dict[str, Any], model: type[BaseModel], above: KeyPath) -> None:
    """Remove names that are not in the tree, with a finding for each."""
    for name, value in list(table.items()):
        path = (*above, name)
        known = model.model_fields.get(name)
        if known is None:
            del table[name]
            places = [place for each, place in sources.origins.items() if each[: len(path)] == path]
            near = suggest_key(tuple(str(part) for part in path if isinstance(part, str)))
            did = f"; did you mean {near}?" if near else ""
            sources.refuse(next(iter(places), ""), dotted(path), f"no such setting{did}")
            continue
        inner = model_in(known.annotation)
        if inner is None:
            continue
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, dict):
                _drop_unknown(sources, each, inner, (*path, index) if isinstance(value, list) else path)
