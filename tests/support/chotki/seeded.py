"""A state of Chotki that somebody else has written: an edge that serves it has something to send."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from culm_models.chotki.ids import BLOCK_BITS, GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.log0 import REPLICA_CLASS_ID, SYSTEM_SOURCE, common_store, fresh_store
from culm_models.chotki.rdx import parse_text, parse_vector, write_vector
from culm_models.chotki.store import MemoryStore
from culm_topics.chotki.records import BlockVectorRecord, EpochRecord, FieldRecord, block_partition, epoch_key
from culm_topics.kafka.clients import KafkaSettings, consumer
from tests.support.kafka.topic_io import write_records

SRC: Final = 0x5EED
_TIMEOUT_S: Final = 30.0
BLOCKS: Final = 128
_FIELDS: Final = 64
_FIELD_BYTES: Final = 16 * 1024
_LAST: Final = Id(SRC, (BLOCKS << BLOCK_BITS) + _FIELDS)
_VECTOR: Final = {SYSTEM_SOURCE: REPLICA_CLASS_ID.pro, SRC: _LAST.pro}


def store_that_holds_it(src: int, name: str) -> MemoryStore:
    """The store of a replica that lacks nothing of the state, as far as its vector says."""
    store = fresh_store(src, name)
    known = parse_vector(store[GLOBAL_VECTOR_KEY])
    return MemoryStore({**store, GLOBAL_VECTOR_KEY: write_vector({**known, SRC: _LAST.pro})})


def seed_state(settings: KafkaSettings) -> None:
    """Write an epoch of 128 MiB to `chotki.state`."""
    topic = settings.topic("chotki.state")
    client = consumer(settings, group_id="tests", start="earliest")
    try:
        partitions = len(client.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)
    finally:
        client.close()
    write_records(settings, "chotki.state", _records(partitions))


def _records(partitions: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    value = parse_text("S", '"' + os.urandom(_FIELD_BYTES // 2).hex() + '"')
    for number in range(1, BLOCKS + 1):
        block = Id(SRC, number << BLOCK_BITS)
        key = vector_key(block)
        shard = block_partition(key, partitions)
        for field in range(1, _FIELDS + 1):
            yield shard, object_key(Id(SRC, block.pro + field), "S"), FieldRecord(value, None).encode()
        vector = write_vector({SRC: block.pro + _FIELDS})
        yield shard, key, BlockVectorRecord(vector).encode()
    for key, value in common_store().items():
        if key != GLOBAL_VECTOR_KEY and key[:1] == b"V":
            yield block_partition(key, partitions), key, BlockVectorRecord(value).encode()
    mark = EpochRecord(1, write_vector(_VECTOR), (), (), ())
    for partition in range(partitions):
        yield partition, epoch_key(partition), mark.encode()
