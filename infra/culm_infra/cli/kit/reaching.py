"""Reaches Kafka before a command uses it, so that an address that does not answer is reported early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from culm_infra.cli.kit.output import safe, say

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

_SILENT_S: Final = 0.8
"""A command that waits says for what after so long."""


def reach(kafka: KafkaSettings, timeout_s: float) -> None:
    """Return when the cluster answers. Raises `KafkaFailure` if it refuses, or does not answer in time.

    After about a second a line on standard error says what the command waits for.
    """
    from culm_topics.errors import KafkaFailure
    from culm_topics.kafka import clients
    from culm_topics.kafka.cluster import await_brokers

    client = clients.admin(kafka)
    try:
        await_brokers(client, min(_SILENT_S, timeout_s))
    except KafkaFailure as error:
        if not error.passes or timeout_s <= _SILENT_S:
            raise
        say(f"waiting for Kafka at {safe(kafka.bootstrap)}, at most {timeout_s:g} s (--timeout)")
        await_brokers(client, timeout_s - _SILENT_S)
