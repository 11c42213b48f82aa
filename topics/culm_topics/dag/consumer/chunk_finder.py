"""Finds chunks of shards in `dag.shards` by shard and offset, without reading the whole topic.

All chunks of a shard are in one partition, produced one after the other, and before the job wrote the shard's
index: the broker's time of that index tells near which offset they are. From there the topic is read
backwards, in windows that grow fourfold, so that at most about four times the distance is read. The positions
of all chunks that were read are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_topics.dag.consumer.shard_places import ShardPlace
from culm_topics.dag.records import (
    ShardChunkRecord,
    cid_partition,
    decode_shard_chunk,
    shard_chunk_key,
)
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_until

SHARDS_TOPIC: Final = "dag.shards"
_FIRST_WINDOW: Final = 16
_MAX_PLACES: Final = 200_000
_BATCH_RECORDS: Final = 8
# Limit of records that the client fetches ahead.
_QUEUED_KBYTES: Final = "8192"


class ChunkFinder:
    """Finds chunks and caches `cache_bytes` of them in memory. Raises `TopicMissing`, `KafkaFailure`."""

    def __init__(self, settings: KafkaSettings, cache_bytes: int) -> None:
        self._reader = TopicPartitions(
            settings, SHARDS_TOPIC, defaults={"queued.max.messages.kbytes": _QUEUED_KBYTES}
        )
        self._partitions = 0
        self._cache_bytes = cache_bytes
        self._held_bytes = 0
        self._chunks: OrderedDict[bytes, ShardChunkRecord] = OrderedDict()
        # Partition and offset by key. The oldest are dropped, and found again on demand.
        self._places: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self.records_read = 0
        """Number of records of the topic that were fetched."""
        self.passed_over = PassedOver(SHARDS_TOPIC)
        """Malformed records."""

    def read(self, shard: ShardPlace, start: int, length: int) -> bytes | None:
        """Return `length` bytes of a shard from `start` on; None if the topic does not contain them."""
        pieces = []
        end = start + length
        for offset in range(start - start % CHUNK_SIZE, max(end, start + 1), CHUNK_SIZE):
            if (record := self.chunk(shard, offset)) is None:
                return None
            pieces.append(bytes(record.data[max(start - offset, 0) : end - offset]))
        return b"".join(pieces)

    def chunk(self, shard: ShardPlace, offset: int) -> ShardChunkRecord | None:
        """Return the chunk that begins at `offset`; None if the topic does not contain it."""
        key = shard_chunk_key(shard.cid, offset)
        if (record := self._chunks.get(key)) is not None:
            self._chunks.move_to_end(key)
            return record
        position = self._places.get(key)
        if position is not None and (record := self._read(*position, position[1] + 1, key)) is not None:
            return record
        return self._search(shard, key)

    def forget(self, shard: Cid) -> None:
        """Drop all cached data of a shard, because it did not match its CID."""
        for key in [cached for cached in self._chunks if cached.startswith(shard.raw)]:
            self._held_bytes -= len(self._chunks.pop(key).data)
        for key in [cached for cached in self._places if cached.startswith(shard.raw)]:
            del self._places[key]

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def _search(self, shard: ShardPlace, key: bytes) -> ShardChunkRecord | None:
        self._partitions = self._partitions or self._reader.count()
        partition = cid_partition(shard.cid, self._partitions)
        low, end = self._reader.range_of(partition)
        near = min(max(self._reader.offset_at(partition, shard.written_ms + 1), low), end)
        stop, window = near, _FIRST_WINDOW
        while stop > low:
            start = max(low, stop - window)
            if (record := self._read(partition, start, stop, key)) is not None:
                return record
            stop, window = start, window * 4
        return self._read(partition, near, end, key)

    def _read(self, partition: int, start: int, stop: int, key: bytes) -> ShardChunkRecord | None:
        """Read these offsets, and return the last record with this key, or None."""
        if start >= stop:
            return None
        self._reader.assign({partition: start})
        latest = None
        for message in read_until(self._reader, {partition: stop}, max_records=_BATCH_RECORDS):
            record = self._take(message)
            if message.key == key:
                latest = record
        self._reader.assign({})
        if latest is not None:
            self._hold(key, latest)
        else:
            self._places.pop(key, None)
        return latest

    def _take(self, message: TopicMessage) -> ShardChunkRecord | None:
        self.records_read += 1
        if not message.value:
            self._places.pop(message.key, None)
            return None
        try:
            _, _, record = decode_shard_chunk(message.key, message.value)
        except RecordError as error:
            self.passed_over.add(message, error)
            return None
        self._places[message.key] = (message.partition, message.offset)
        self._places.move_to_end(message.key)
        while len(self._places) > _MAX_PLACES:
            self._places.popitem(last=False)
        return record

    def _hold(self, key: bytes, record: ShardChunkRecord) -> None:
        self._chunks[key] = record
        self._held_bytes += len(record.data)
        while self._held_bytes > self._cache_bytes and len(self._chunks) > 1:
            self._held_bytes -= len(self._chunks.popitem(last=False)[1].data)
