"""Requests and watches the origin of Kafka's offsets (`culm_topics.kafka.origin`) for a connector."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from culm_connectors.kafka.errors import ConsumeFailed, PartitionsAdded, RecreatedWhileRead
from culm_topics.errors import KafkaFailure, TopicMissing
from culm_topics.kafka import origin
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)


def ask_origin(admin: AdminClient, topics: Iterable[str]) -> Origin:
    """Return the origin of the cluster and of these topics; blocks.

    Raises `ConsumeFailed` when Kafka does not answer or a topic does not exist.
    """
    names = sorted(topics)
    try:
        return origin.ask_origin(admin, names)
    except KafkaFailure as error:
        raise ConsumeFailed(str(error), passes=error.passes, hint=error.hint) from error
    except TopicMissing as error:
        raise ConsumeFailed(str(error), hint=error.hint) from error


async def watch_origin(admin: AdminClient, known: Origin, *, interval_s: float = 30.0) -> None:
    """Ask for the origin every `interval_s` seconds until cancelled.

    Raises `RecreatedWhileRead` if an answer differs, and `PartitionsAdded` if a topic has more partitions
    than in `known`: records in the added partitions would never be read.
    """
    while True:
        await asyncio.sleep(interval_s)
        try:
            current = await asyncio.to_thread(ask_origin, admin, known.topic_ids)
        except ConsumeFailed as error:
            # `health` logs that Kafka is away.
            logger.debug("the origin cannot be asked for: %s", error)
            continue
        if changed := known.differences(current):
            raise RecreatedWhileRead(f"created again while they were read: {'; '.join(changed)}")
        added = [
            f"{name} has {count} partitions, of which this process reads {known.partition_counts[name]}"
            for name, count in current.partition_counts.items()
            if count > known.partition_counts.get(name, count)
        ]
        if added:
            raise PartitionsAdded(
                "; ".join(added), hint="start the connector again: it reads all of them then"
            )
