"""Records of a large deployment for the case `console`: blocks, vectors of peers, entries, refused data."""

from __future__ import annotations

import numpy as np

from bench.block_records import BLOCK_BITS, heights_by_block, produce_block
from bench.producing import flush, produce
from culm_models.lifts import DEFAULT
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import Announce
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import BlockKind, BlockProgress, BlockSummary, LogRecord, ProgressKey
from culm_topics.records import key_partition, log_key, rejection

PARTITIONS = 8
SCHEMAS = ("event_0020" + "cd" * 32, "venue_0020" + "ab" * 32)
_ENTRY_BYTES, _OPERATION_BYTES = 160, 110
_VERSION = tuple((partition, 1_000_000) for partition in range(PARTITIONS))


class Deployment:
    """Generated logs with their schemas and heights, and peers that hold some of them."""

    def __init__(self, logs: int, peers: int, logs_of_a_peer: int) -> None:
        self._random = np.random.default_rng(1)
        keys = self._random.integers(0, 256, (logs, 32), np.uint8)
        self.keys = keys[np.argsort(np.ascontiguousarray(keys).view("S32").reshape(-1))]
        self.heights = self._random.integers(1, 100, logs).astype(np.uint64)
        self._schemas = self._random.integers(0, len(SCHEMAS), logs)
        self.peers = [self._random.bytes(32) for _ in range(peers)]
        self._logs_of_a_peer = min(logs_of_a_peer, logs)

    def write_blocks(self, kafka: KafkaSettings) -> int:
        """Write `blocks`. Returns the number of records."""
        client, records = producer(kafka, bulk=True), 0
        for number, schema_id in enumerate(SCHEMAS):
            chosen = np.flatnonzero(self._schemas == number)
            for heights in heights_by_block(self.keys[chosen], self.heights[chosen]):
                name, partition = schema_id.encode(), heights.block % PARTITIONS
                records += produce_block(client, kafka.topic("blocks"), name, heights, _VERSION, 0, partition)
        self._write_progress(kafka, "blocks")
        flush(client)
        return records

    def write_vectors(self, kafka: KafkaSettings) -> int:
        """Write `block-vectors` and `announcements`; half of the peers are behind.

        Returns the number of records.
        """
        client, records = producer(kafka, bulk=True), 0
        for number, peer in enumerate(self.peers):
            chosen = np.sort(self._random.choice(len(self.keys), self._logs_of_a_peer, replace=False))
            held = self.heights[chosen]
            if number % 2:
                held = np.maximum(held // 2, 1)
            for heights in heights_by_block(self.keys[chosen], held):
                fingerprints = ((DEFAULT.name, heights.fingerprint),)
                summary = BlockSummary(_VERSION, heights.log_count, 0, fingerprints, recent=heights.packed)
                key, partition = heights.key(BlockKind.SUMMARY, peer), heights.block % PARTITIONS
                produce(client, kafka.topic("block-vectors"), key, summary.encode(), partition)
                records += 1
            announce = encode(Announce(1, 1, SCHEMAS))
            produce(client, kafka.topic("announcements"), peer, announce, 0)
        self._write_progress(kafka, "block-vectors")
        flush(client)
        return records

    @staticmethod
    def _write_progress(kafka: KafkaSettings, topic: str) -> None:
        client = producer(kafka)
        for shard in range(PARTITIONS):
            progress = BlockProgress(PARTITIONS, _VERSION).encode()
            produce(client, kafka.topic(topic), ProgressKey(BLOCK_BITS, shard).encode(), progress, shard)
        flush(client)

    def write_entries(self, kafka: KafkaSettings, count: int) -> bytes:
        """Write records of `logs`. Returns the key of the log that the first of them belongs to."""
        client = producer(kafka, bulk=True)
        entry, operation = self._random.bytes(_ENTRY_BYTES), self._random.bytes(_OPERATION_BYTES)
        chosen = self._random.integers(0, len(self.keys), count)
        for number in chosen:
            key = log_key(self.keys[number].tobytes(), 0)
            value = LogRecord(1, entry, operation, bytes(34), SCHEMAS[0]).encode()
            produce(client, kafka.topic("logs"), key, value, key_partition(key, PARTITIONS))
        flush(client)
        return log_key(self.keys[chosen[0]].tobytes(), 0)

    def write_rejected(self, kafka: KafkaSettings, count: int) -> None:
        """Write refused records; one in a hundred has the code `bamboo.fork`."""
        client = producer(kafka, bulk=True)
        data = self._random.bytes(_ENTRY_BYTES)
        for number in range(count):
            code = "bamboo.fork" if number % 100 == 0 else "bamboo.signature"
            record = rejection(code, f"number {number}", entry=data, first=data, brought_by=self.peers[0])
            produce(client, kafka.topic("rejected"), b"", record.encode(), 0)
        flush(client)
