"""One settings tree for every command: a flag wins over ``CULM_*``, which wins over ``culm.toml``.

The file is the one that ``--config`` names, else the one that ``CULM_CONFIG`` names, else ``culm.toml`` in
the working directory, else ``culm.toml`` in the user's configuration directory. Nested values are spelled
with two underscores in the environment: ``CULM_CONNECTOR__LISTEN=0.0.0.0:4455``; with ``_FILE`` behind its
name a variable names a file that has the value. Secrets come from files or the environment, never from a
flag, and are never printed.

- `tree`: all settings with their defaults and bounds
- `names`: name, variable, type and unit of each setting; suggestions for misspelled names
- `sources`: flags, environment and file, with the place of each value; `toml_lines`: lines of TOML keys
- `findings`: what is wrong, in plain words
- `loading`: the settings in force
- `kafka`: the Kafka cluster, the local stack and the connector's directory that the settings name
- `check`: files and folders that the settings name
- `reference`, `schema`, `example`: the generated documents
"""

from culm_infra.settings.findings import wrong_values
from culm_infra.settings.kafka import (
    connector_directory,
    kafka_without_broker,
    named_values,
    parse_kafka_options,
    redacted,
    resolve_kafka,
    stack_directory,
)
from culm_infra.settings.loading import load
from culm_infra.settings.sources import DIRECTORIES, config_file
from culm_infra.settings.tree import CulmSettings

__all__ = [
    "DIRECTORIES",
    "CulmSettings",
    "config_file",
    "connector_directory",
    "kafka_without_broker",
    "load",
    "named_values",
    "parse_kafka_options",
    "redacted",
    "resolve_kafka",
    "stack_directory",
    "wrong_values",
]
