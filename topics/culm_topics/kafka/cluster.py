"""Checks whether a cluster has brokers, before any request that describes its topics.

librdkafka 2.16 ends the process (`rd_kafka_admin_response_parse: Assertion rko_result`) if a request to
describe topics or the cluster is answered without a single broker. A cluster gives such an answer for a
moment after it has fenced its only broker, for example one that was paused. A plain metadata request is safe,
so it is sent first; the moment between the two requests remains.
"""

import time
from typing import Any, Final

from confluent_kafka import KafkaException

from culm_topics.errors import UNREACHABLE_HINT, KafkaFailure
from culm_topics.kafka.client_errors import cause_of

_RETRY_SECONDS: Final = 0.1


def await_brokers(client: Any, timeout_seconds: float) -> str:
    """Wait until the cluster reports a broker; returns the cluster's id.

    Raises `KafkaFailure` at the timeout.
    """
    deadline_s = time.monotonic() + timeout_seconds
    last, cause = "it names none", None
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            metadata = client.list_topics(timeout=left_s)
            if metadata.brokers:
                cause_of(client)  # discard the causes of earlier failures
                return str(metadata.cluster_id)
        except KafkaException as error:
            last = error.args[0].str()
        cause = cause_of(client) or cause
        time.sleep(_RETRY_SECONDS)
    if cause is not None:
        raise KafkaFailure(f"Kafka cannot be reached: {cause.text}", passes=cause.passes, hint=cause.hint)
    raise KafkaFailure(f"asking for the cluster's brokers: {last}", hint=UNREACHABLE_HINT)


def has_brokers(client: Any, timeout_seconds: float) -> bool:
    """Whether the cluster reports a broker now; waits at most `timeout_seconds` for an answer."""
    try:
        return bool(client.list_topics(timeout=timeout_seconds).brokers)
    except KafkaException:
        return False
    finally:
        cause_of(client)  # discards reported errors, so that they do not pile up
