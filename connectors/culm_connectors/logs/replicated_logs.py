"""The room of replicated logs of one connector: what every protocol that brings or reads logs works with."""

from __future__ import annotations

from dataclasses import dataclass

from culm_connectors.kafka import BatchProducer, Progress, TopicReaders
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.logs.check_pool import EntryChecker
from culm_connectors.logs.hub import LogHub
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.publish import LogPublisher
from culm_connectors.logs.warm_start.repair import LogGaps
from culm_connectors.logs.warm_start.warm_start import WarmStart
from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class ReplicatedLogs:
    """The hub of one index and what stands around it; nothing of it runs yet."""

    index: IndexWriter
    pool: EntryChecker
    topics: TopicReaders
    sender: BatchSender
    publisher: LogPublisher
    warm_start: WarmStart
    hub: LogHub
    gaps: LogGaps
    connector_id: bytes


def assemble_logs(
    index: IndexWriter,
    pool: EntryChecker,
    kafka: KafkaSettings,
    producer: BatchProducer,
    topics: TopicReaders,
    connector_id: bytes,
    progress: Progress,
) -> ReplicatedLogs:
    """The room over an open index and a Kafka producer."""
    sender = BatchSender(producer)
    publisher = LogPublisher(sender, kafka, connector_id)
    warm_start = WarmStart(kafka, index, pool, topics.whole_logs, progress)
    hub = LogHub(publisher, index, warm_start.claims)
    gaps = LogGaps(hub, index.store, pool, topics.whole_logs, publisher.gap)
    hub.subscribe(gaps)
    return ReplicatedLogs(index, pool, topics, sender, publisher, warm_start, hub, gaps, connector_id)
