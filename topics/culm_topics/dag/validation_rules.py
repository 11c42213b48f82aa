"""The validation rules of a deployment (R28): one record of `dag.settings`, on which every process agrees.

The first record of the topic counts, after the last one without a value. So if two processes publish their
settings at once, both read the same one afterwards, and at most one of them may start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from culm_models.dag.validation_rules import ValidationRules, decode_rules, require_same_rules
from culm_topics.dag.records import VERDICT_KEY
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end

SETTINGS_TOPIC: Final = "dag.settings"
_FLUSH_SECONDS: Final = 30.0


def rules_in_force(records: Iterable[tuple[bytes, bytes]]) -> ValidationRules | None:
    """Return the settings in (key, value) records of the topic, taken in order; None if there are none.

    Raises `RulesMalformed` if the first record is malformed: no process may act without the settings.
    """
    in_force = b""
    for key, value in records:
        if key == VERDICT_KEY and not (in_force and value):
            in_force = value
    return decode_rules(in_force) if in_force else None


def read_rules(settings: KafkaSettings) -> ValidationRules | None:
    """Return the deployment's validation rules; None if none have been published.

    Raises `RulesMalformed`, `TopicMissing`, `KafkaFailure`.
    """
    return rules_in_force((message.key, message.value) for message in read_to_end(settings, SETTINGS_TOPIC))


def agree_on_rules(settings: KafkaSettings, own: ValidationRules) -> ValidationRules:
    """Compare a process's own settings with the deployment's before it starts.

    If there are none, its own settings are published. Raises `RulesDiffer` with the fields that differ,
    `RulesUnsupported` for settings that this process does not support, and the errors of `read_rules`.
    Blocks.
    """
    own.require_supported()
    published = read_rules(settings)
    if published is None:
        _publish(settings, own)
        published = read_rules(settings)
    if published is None:
        raise KafkaFailure(f"{settings.topic(SETTINGS_TOPIC)}: what was published is not there")
    require_same_rules(own, published)
    return published


def _publish(settings: KafkaSettings, own: ValidationRules) -> None:
    topic = settings.topic(SETTINGS_TOPIC)
    failures: list[str] = []
    producer = clients.producer(settings)
    producer.produce(
        topic,
        own.encode(),
        VERDICT_KEY,
        on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
    )
    if producer.flush(_FLUSH_SECONDS) or failures:
        raise KafkaFailure(f"{topic}: {failures[0] if failures else 'nothing was acknowledged in time'}")
