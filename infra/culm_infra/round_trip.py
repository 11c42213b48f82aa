"""Records through Kafka and back, on a temporary topic, and the offset of this machine's clock."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from culm_infra.errors import InfraError
from culm_topics.kafka import clients
from culm_topics.kafka.acls import doctor_prefix
from culm_topics.kafka.clients import KafkaSettings


class RoundTripError(InfraError):
    """A record did not come back from Kafka."""

    code = "kafka.round_trip"


@dataclass(frozen=True, slots=True)
class BrokerClock:
    """Offset of this machine's clock against the broker's; positive if this machine is ahead."""

    offset_s: float
    uncertainty_s: float
    """Half of the round trip: the broker stored the record at an unknown moment within it."""


def round_trip(settings: KafkaSettings, *, timeout_s: float) -> BrokerClock | None:
    """Create a topic, produce two records, consume them, delete the topic; each step within ``timeout_s``.

    Returns the clock's offset, from the time at which the broker stored the second record; None if the broker
    did not report it. Raises `RoundTripError` (with the client's last error if a broker does not answer),
    confluent_kafka.KafkaException, or `KafkaSettingsError`.
    """
    # The client reports failed connections and logins only here; calls then just time out.
    errors: list[str] = []
    admin = clients.admin(_quiet(settings))
    topic = f"{doctor_prefix(settings)}{uuid.uuid4().hex[:12]}"
    producer = clients.producer(_quiet(settings), on_error=lambda error: errors.append(error.str()))
    try:
        _create(admin, topic, settings, timeout_s)
    except KafkaException as error:
        producer.poll(1.0)  # lets the client say what it knows
        raise RoundTripError(_with_reason(_message(error), errors)) from error
    try:
        # The first record also waits for the connection to the topic's leader, so the second one is measured.
        _produce(producer, topic, uuid.uuid4().bytes, errors, timeout_s)
        payload = uuid.uuid4().bytes
        began_s, began = time.time(), time.monotonic()
        _produce(producer, topic, payload, errors, timeout_s)
        half_s = (time.monotonic() - began) / 2
        stored_ms = _consume(settings, topic, payload, timeout_s)
    finally:
        admin.delete_topics([topic], operation_timeout=timeout_s)[topic].result()
    return None if stored_ms is None else BrokerClock(began_s + half_s - stored_ms / 1000, half_s)


def _produce(producer: Producer, topic: str, payload: bytes, errors: list[str], timeout_s: float) -> None:
    failures: list[KafkaError] = []
    producer.produce(
        topic, value=payload, on_delivery=lambda error, _: failures.append(error) if error else None
    )
    if producer.flush(timeout_s) or failures:
        reason = str(failures[0]) if failures else f"no acknowledgement within {timeout_s:g} s"
        raise RoundTripError(_with_reason(f"produce: {reason}", errors))


def _create(admin: AdminClient, topic: str, settings: KafkaSettings, timeout_s: float) -> None:
    new = NewTopic(
        topic,
        num_partitions=1,
        replication_factor=settings.replication_factor or -1,
        config={"message.timestamp.type": "LogAppendTime"},
    )
    admin.create_topics([new], request_timeout=timeout_s)[topic].result()


def _consume(settings: KafkaSettings, topic: str, payload: bytes, timeout_s: float) -> int | None:
    """Return the time at which the broker stored the record; None if it is not the broker's."""
    # Assigned by hand, so that no group and no right on a group is needed.
    consumer = clients.consumer(_quiet(settings), group_id=topic)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                raise RoundTripError(f"consume: {error}")
            if message.value() == payload:
                kind, time_ms = message.timestamp()
                return time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None
        raise RoundTripError(f"consume: the record did not come back within {timeout_s:g} s")
    finally:
        consumer.close()


def _quiet(settings: KafkaSettings) -> KafkaSettings:
    # Errors are reported once, by this module, and not line by line by the library.
    return settings.model_copy(update={"options": {**settings.options, "log_level": "0"}})


def _message(error: KafkaException) -> str:
    cause = error.args[0] if error.args else error
    return str(cause.str()) if isinstance(cause, KafkaError) else str(cause)


def _with_reason(message: str, errors: list[str]) -> str:
    return f"{message} ({errors[-1]})" if errors else message
