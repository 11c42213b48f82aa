"""Kafka from an event loop.

| module | content |
|---|---|
| producer | produces records and waits until Kafka has acknowledged all of them |
| backlog | bounded queue of records that wait for a batch, and the task that sends them |
| consumer | reads a topic in a thread and hands it over in bounded batches |
| partition_follower | follows partitions of several topics while they are requested |
| errors | the errors of this package |
| topic_readers | opens a connector's readers of topics; logs the errors of its Kafka clients |
| health | detects whether Kafka answers; the ends of topics |
| origin | the cluster and the incarnations of topics to which offsets belong |
"""

from culm_connectors.kafka.consumer import Progress, TopicReader
from culm_connectors.kafka.errors import (
    ConsumeFailed,
    OffsetLost,
    PartitionsAdded,
    ProduceFailed,
    RecreatedWhileRead,
)
from culm_connectors.kafka.health import KafkaHealth
from culm_connectors.kafka.origin import ask_origin, watch_origin
from culm_connectors.kafka.producer import BatchProducer, ProducerLimits, ProducerRecord, record_size
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
    "RecreatedWhileRead",
    "TopicReader",
    "TopicReaders",
    "ask_origin",
    "log_kafka_error",
    "quiet",
    "record_size",
    "watch_origin",
]
