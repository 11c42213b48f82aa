"""Kafka's settings and the local stack of a settings tree; flags of the form NAME=VALUE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from culm_infra.errors import SettingsError
from culm_infra.settings.findings import wrong_values
from culm_infra.settings.tree import CulmSettings

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings


def named_values(flag: str, pairs: list[str], *, example: str) -> dict[str, str]:
    """Parse the ``NAME=VALUE`` pairs of a repeatable flag.

    Raises `SettingsError` with the flag and the pair: it is malformed, or its name was given before.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise SettingsError(f"{flag} {pair!r} is not NAME=VALUE", hint=f"for example {example}")
        if name in values:
            raise SettingsError(f"{flag} {name} is given twice")
        values[name] = value
    return values


def parse_kafka_options(pairs: list[str]) -> dict[str, str]:
    """Parse ``name=value`` pairs from ``--kafka-option``. Raises `SettingsError` for a secret."""
    from culm_topics.kafka.clients import is_secret

    options = named_values("--kafka-option", pairs, example="security.protocol=SASL_SSL")
    for name in filter(is_secret, options):
        raise SettingsError(
            f"{name} is a secret and is not taken from the command line",
            hint=f'put it in culm.toml under [kafka], or in CULM_KAFKA as JSON: {{"{name}": "..."}}',
        )
    return options


def redacted(settings: CulmSettings) -> dict[str, Any]:
    """Return the settings as plain data, with secrets replaced by asterisks."""
    from culm_topics.kafka.clients import REDACTED, is_secret

    shown = settings.model_dump(mode="json")
    shown["kafka"] = {name: REDACTED if is_secret(name) else value for name, value in settings.kafka.items()}
    return _tables_last(shown)


def _tables_last(table: dict[str, Any]) -> dict[str, Any]:
    """Order a table as a settings file has it: its own values first, then inner tables."""
    inner = {name: _tables_last(value) for name, value in table.items() if isinstance(value, dict)}
    return {name: value for name, value in table.items() if name not in inner} | inner


def stack_directory(settings: CulmSettings) -> Path:
    """Return the data directory of the local stack of these settings."""
    if settings.stack.directory is not None:
        return settings.stack.directory
    from culm_topics.kafka.local import stack_directory as of_name

    return of_name(settings.stack.name)


def connector_directory(settings: CulmSettings) -> Path:
    """Return the directory of a connector's key, index and status socket."""
    return settings.connector.directory or stack_directory(settings) / "connector"


def resolve_kafka(settings: CulmSettings) -> KafkaSettings:
    """Return the Kafka to use: the given bootstrap servers, else the local stack if it is running.

    Raises `SettingsError` if there is neither.
    """
    bootstrap = settings.bootstrap
    if bootstrap is None:
        from culm_infra.stack import Stack

        stack = Stack(stack_directory(settings))
        if not stack.status().running:
            raise stack.not_running()
        bootstrap = stack.bootstrap
    # librdkafka's own messages about an unreachable broker, twenty lines a second, help nobody.
    return _kafka(settings, bootstrap, {"log_level": "2"} | settings.kafka)


def kafka_without_broker(settings: CulmSettings) -> KafkaSettings:
    """Return names and layout of the topics, for what contacts no broker."""
    return _kafka(settings, "none", {})


def _kafka(settings: CulmSettings, bootstrap: str, options: dict[str, str]) -> KafkaSettings:
    from culm_topics.kafka.clients import KafkaSettings

    try:
        return KafkaSettings(
            bootstrap=bootstrap,
            prefix=settings.prefix,
            options=options,
            replication_factor=settings.replication_factor,
            min_insync_replicas=settings.min_insync_replicas,
            partitions=settings.partitions,
            topic_config=settings.topic_config,
        )
    except ValidationError as error:
        raise wrong_values(error, "kafka") from error
