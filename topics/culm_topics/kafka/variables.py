"""Environment variables about Kafka, with the same meaning for commands and for programs that read topics."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from culm_topics.errors import KafkaSettingsError

FILE_SUFFIX: Final = "_FILE"
"""A variable with this suffix names a file that has the value."""
_PROPERTIES: Final = "CULM_KAFKA"
_UNDERSCORED: Final = frozenset({"log_level"})
"""Kafka's properties whose names have an underscore."""


def property_name(part: str) -> str:
    """Return the property of Kafka that a part of a variable's name stands for, in either case."""
    name = part.lower()
    return name if name in _UNDERSCORED else name.replace("_", ".")


def kafka_properties() -> dict[str, str]:
    """Return the properties of librdkafka that variables have; one of their own comes before CULM_KAFKA.

    Raises `KafkaSettingsError`.
    """
    try:
        properties = json.loads(variable(_PROPERTIES) or "{}")
    except ValueError:
        properties = None
    if not isinstance(properties, dict):
        raise KafkaSettingsError(f"{_PROPERTIES} is not a JSON object of librdkafka properties")
    prefix = f"{_PROPERTIES}__"
    for name in {name.removesuffix(FILE_SUFFIX) for name in os.environ if name.startswith(prefix)}:
        properties[property_name(name.removeprefix(prefix))] = variable(name)
    return properties


def variable(name: str) -> str | None:
    """Return the value of a variable, or what the file has that the variable with `_FILE` names.

    Raises `KafkaSettingsError` if both are set, or if the file cannot be read.
    """
    file = os.environ.get(f"{name}{FILE_SUFFIX}")
    if file is None:
        return os.environ.get(name)
    if name in os.environ:
        raise KafkaSettingsError(f"{name} and {name}{FILE_SUFFIX} are both set", hint="unset one of them")
    try:
        return value_in_file(Path(file))
    except OSError as error:
        raise KafkaSettingsError(f"{name}{FILE_SUFFIX}: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KafkaSettingsError(f"{name}{FILE_SUFFIX}: {file} is not UTF-8") from error


def value_in_file(file: Path) -> str:
    """Return the text of a file without its last line end. Raises `OSError`, `UnicodeDecodeError`."""
    return file.read_bytes().decode().removesuffix("\n").removesuffix("\r")
