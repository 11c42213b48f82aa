"""Removal of secrets from text: values that are known to be secret, and forms that only secrets have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from culm_infra.errors import SettingsError
from culm_infra.settings.names import PREFIX, PROGRAM_VARIABLES, all_settings
from culm_infra.settings.sources import collect, config_file
from culm_topics.kafka.clients import REDACTED, is_secret
from culm_topics.kafka.variables import FILE_SUFFIX

_SHORTEST: Final = 4
"""Shorter values occur in ordinary text, where their removal would say what they are."""
_SHORTEST_OF_ENVIRONMENT: Final = 6
"""Variables whose names sound secret also hold values such as `true`."""
_FREE_TABLES: Final = ("CULM_KAFKA__", "CULM_TOPIC_CONFIG__")
"""Variables of tables with names of Kafka."""
_NAMES: Final = r"[\w.-]*(?:password|passphrase|secret|token|api[_-]?key|access[_-]?key)[\w.-]*"
_FORMS: Final = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        REDACTED,
    ),
    (re.compile(r"(?i)\b(bearer|basic) [A-Za-z0-9+/=._~-]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"(://)[^/\s@\"']+@"), rf"\1{REDACTED}@"),
    (
        re.compile(
            rf"(?i)\b({_NAMES}\"?'?\s*[=:]\s*[\"']?)(?![\[{{]|\d+\b|null\b|true\b|false\b)[^\s\"',;}}]+"
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)(\"?sha256\"?\s*[=:]\s*[\"']?)[0-9a-f]{64}"), rf"\1{REDACTED}"),
)
_MAY_BE_SECRET: Final = re.compile(r"(?i)password|passphrase|secret|token|credential|key|jaas")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Replaces secrets by asterisks."""

    values: tuple[str, ...]

    def apply(self, text: str) -> str:
        """Return the text without the secrets."""
        for value in self.values:
            text = text.replace(value, REDACTED)
        for form, replacement in _FORMS:
            text = form.sub(replacement, text)
        return text


def redaction(config: Path | None, environment: Mapping[str, str]) -> Redaction:
    """Return the redaction for the secrets of the settings, also wrong ones, and of the environment."""
    values = {*_of_settings(config), *_of_environment(environment)}
    # A secret of several lines also occurs as JSON has it, and line by line.
    forms = {form for value in values for form in (value, json.dumps(value)[1:-1], *value.splitlines())}
    long_enough = {form.strip() for form in forms if len(form.strip()) >= _SHORTEST}
    return Redaction(tuple(sorted(long_enough, key=len, reverse=True)))


def _of_settings(config: Path | None) -> Iterator[str]:
    try:
        tree = collect(config_file(config), {}).values
    except SettingsError:
        return
    kafka = tree.get("kafka")
    if isinstance(kafka, Mapping):
        yield from (str(value) for name, value in kafka.items() if is_secret(str(name)))
    yield from _hidden_by_name(tree)


def _hidden_by_name(tree: Any) -> Iterator[str]:
    """Yield texts whose names say that they are secret, at any depth: unknown settings as well."""
    for name, value in tree.items() if isinstance(tree, Mapping) else ():
        if isinstance(value, Mapping):
            yield from _hidden_by_name(value)
        elif isinstance(value, list):
            for inner in value:
                yield from _hidden_by_name(inner)
        elif isinstance(value, str) and is_secret(str(name)):
            yield value


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield values of unknown variables of Culm, secrets inside known ones, and values of secret names."""
    known = {setting.variable for setting in all_settings()} | set(PROGRAM_VARIABLES)
    for name, value in environment.items():
        if name in known:
            yield from _hidden_by_name(_parsed(value))
        elif name.startswith(_FREE_TABLES):
            if is_secret(name.lower().replace("_", ".")):
                yield value
        elif len(value) < _SHORTEST_OF_ENVIRONMENT or name.removesuffix(FILE_SUFFIX) in known:
            continue
        elif name.startswith(PREFIX):
            yield value
            yield from _inner_texts(value)
        elif _MAY_BE_SECRET.search(name) and not Path(value).is_absolute():
            yield value


def _inner_texts(value: str) -> Iterable[str]:
    parsed = _parsed(value)
    return [inner for inner in parsed.values() if isinstance(inner, str)] if isinstance(parsed, dict) else []


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None
