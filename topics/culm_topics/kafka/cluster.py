"""Whether a cluster has brokers: asked before any request that describes its topics.

librdkafka 2.16 ends the process (`rd_kafka_admin_response_parse: Assertion rko_result`) when a request to
describe topics or the cluster is answered without a single broker. A cluster answers so for a moment after it
has fenced its only broker, as when that stood still. Plain metadata does no harm, so it is asked for first;
what remains is the moment between the two.
"""

import time
from typing import Any, Final

from confluent_kafka import KafkaException

from culm_topics.errors import UNREACHABLE_HINT, KafkaFailure
from culm_topics.kafka.client_errors import cause_of

_RETRY_SECONDS: Final = 0.1


def await_brokers(client: Any, timeout_seconds: float) -> str:
    """Wait until the cluster names a broker; returns the cluster's id. Raises `KafkaFailure`."""
    deadline_s = time.monotonic() + timeout_seconds
    last, cause = "it names none", None
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            found = client.list_topics(timeout=left_s)
            if found.brokers:
                cause_of(client)  # what it failed of before is past
                return str(found.cluster_id)
        except KafkaException as error:
            last = error.args[0].str()
        cause = cause_of(client) or cause
        time.sleep(_RETRY_SECONDS)
    if cause is not None:
        raise KafkaFailure(f"Kafka cannot be reached: {cause.text}", passes=cause.passes, hint=cause.hint)
    raise KafkaFailure(f"asking for the cluster's brokers: {last}", hint=UNREACHABLE_HINT)


def has_brokers(client: Any, timeout_seconds: float) -> bool:
    """Whether the cluster names a broker now; waits no longer than this for an answer."""
    try:
        return bool(client.list_topics(timeout=timeout_seconds).brokers)
    except KafkaException:
        return False
    finally:
        cause_of(client)  # it reports to whoever asks, and must not pile that up
