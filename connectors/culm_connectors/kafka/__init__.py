"""Kafka from an event loop.

| module | what it holds |
|---|---|
| producer | many records in, one wait until Kafka has acknowledged all of them |
| backlog | records that wait for a batch, bounded; who sends them |
| consumer | a topic read in a thread, handed over in bounded batches |
| partition_follower | partitions of several topics, followed as somebody wants them |
| errors | what can go wrong |
| topic_readers | opens readers of topics as a connector does; how errors of its Kafka clients are logged |
| health | whether Kafka answers, and where topics end |
| origin | which cluster and which incarnation of a topic the offsets count in |
"""

from culm_connectors.kafka.consumer import Progress, TopicReader
from culm_connectors.kafka.errors import (
    ConsumeFailed,
    OffsetLost,
    PartitionsAdded,
    ProduceFailed,
    TopicRecreated,
)
from culm_connectors.kafka.health import KafkaHealth
from culm_connectors.kafka.origin import ask_origin, watch_origin
from culm_connectors.kafka.producer import BatchProducer, ProducerLimits, ProducerRecord
from culm_connectors.kafka.topic_readers import TopicReaders, log_kafka_error, quiet
from culm_topics.readers.batch import Batch

__all__ = [
    "Batch",
    "BatchProducer",
    "ConsumeFailed",
    "KafkaHealth",
    "OffsetLost",
    "PartitionsAdded",
    "ProduceFailed",
    "ProducerLimits",
    "ProducerRecord",
    "Progress",
    "TopicReader",
    "TopicReaders",
    "TopicRecreated",
    "ask_origin",
    "log_kafka_error",
    "quiet",
    "watch_origin",
]
