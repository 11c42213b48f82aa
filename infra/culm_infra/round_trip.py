"""One record through Kafka and back, on a temporary topic."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from culm_infra.errors import InfraError
from culm_topics.kafka import clients
from culm_topics.kafka.acls import doctor_prefix
from culm_topics.kafka.clients import KafkaSettings


class RoundTripError(InfraError):
    """A record did not come back from Kafka."""

    code = "kafka.round_trip"


def round_trip(settings: KafkaSettings, *, timeout_s: float) -> None:
    """Create a topic, produce a record, consume it, delete the topic; each step within ``timeout_s``.

    Raises `RoundTripError` (with the client's last error if a broker does not answer),
    confluent_kafka.KafkaException, or `KafkaSettingsError`.
    """
    # The client reports failed connections and logins only here; calls then just time out.
    errors: list[str] = []
    admin = clients.admin(_quiet(settings))
    topic = f"{doctor_prefix(settings)}{uuid.uuid4().hex[:12]}"
    payload = uuid.uuid4().bytes
    producer = clients.producer(_quiet(settings), on_error=lambda error: errors.append(error.str()))
    try:
        _create(admin, topic, settings, timeout_s)
    except KafkaException as error:
        producer.poll(1.0)  # lets the client say what it knows
        raise RoundTripError(_with_reason(_message(error), errors)) from error
    try:
        failures: list[KafkaError] = []
        producer.produce(
            topic, value=payload, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        if producer.flush(timeout_s) or failures:
            reason = str(failures[0]) if failures else f"no acknowledgement within {timeout_s:g} s"
            raise RoundTripError(_with_reason(f"produce: {reason}", errors))
        _consume(settings, topic, payload, timeout_s)
    finally:
        admin.delete_topics([topic], operation_timeout=timeout_s)[topic].result()


def _create(admin: AdminClient, topic: str, settings: KafkaSettings, timeout_s: float) -> None:
    new = NewTopic(topic, num_partitions=1, replication_factor=settings.replication_factor or -1)
    admin.create_topics([new], request_timeout=timeout_s)[topic].result()


def _consume(settings: KafkaSettings, topic: str, payload: bytes, timeout_s: float) -> None:
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
                return
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
