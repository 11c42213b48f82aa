"""What Kafka's offsets refer to: the cluster's id and each topic's id, asked of the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from culm_connectors.index import Origin
from culm_connectors.kafka.errors import ConsumeFailed, TopicRecreated
from culm_topics.cluster import await_brokers
from culm_topics.errors import KafkaFailure

logger = logging.getLogger(__name__)

_TIMEOUT_S = 20.0


def ask_origin(admin: AdminClient, topics: Iterable[str]) -> Origin:
    """The origin of the cluster and of these topics; blocks.

    Raises ConsumeFailed when Kafka does not answer or a topic does not exist.
    """
    names = sorted(topics)
    try:
        cluster_id = await_brokers(admin, _TIMEOUT_S)
        described = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
        topic_ids = {name: str(described[name].result(_TIMEOUT_S).topic_id) for name in names}
    except (KafkaException, KafkaFailure, TimeoutError) as error:
        raise ConsumeFailed(
            f"Kafka does not describe {', '.join(names)}: {_reason(error)}",
            hint="is Kafka up, and were the topics created with `culm topics create`?",
        ) from error
    return Origin(cluster_id, topic_ids)


def _reason(error: KafkaException | KafkaFailure | TimeoutError) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    if isinstance(error, KafkaFailure):
        return str(error)
    return f"no answer within {_TIMEOUT_S:g} s"


async def watch_origin(admin: AdminClient, known: Origin, *, interval_s: float = 30.0) -> None:
    """Ask again for ever; raises TopicRecreated when an answer differs."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            found = await asyncio.to_thread(ask_origin, admin, known.topic_ids)
        except ConsumeFailed as error:
            logger.warning("Kafka does not answer: %s", error)
            continue
        if found != known:
            changed = [
                name for name, topic_id in known.topic_ids.items() if found.topic_ids[name] != topic_id
            ]
            raise TopicRecreated(f"created anew while we read them: {', '.join(changed) or 'the cluster'}")
