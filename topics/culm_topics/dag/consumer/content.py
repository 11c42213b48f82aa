"""`DagContent`: blocks, files and shards of a deployment, read from Kafka and checked by their CIDs.

A block is looked up in `dag.shard-index` and read from the chunk that contains it, without reading the whole
shard. Callers need not trust the deployment: bytes that do not match their CID are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.multihash import DEFAULT_HASHES, check_block
from culm_models.dag.errors import HashMismatch
from culm_models.dag.paths.resolve import PathEnd, parse_path, resolve_path
from culm_models.dag.unixfs.files import file_size, read_file
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.closing import Closing
from culm_topics.dag.consumer.chunk_finder import SHARDS_TOPIC, ChunkFinder
from culm_topics.dag.consumer.shard_places import INDEX_TOPIC, ShardPlaces
from culm_topics.dag.errors import ShardHashRefused, ShardPlacesFailed
from culm_topics.dag.shard_chunks import ShardAssembly
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin, ask_origin
from culm_topics.readers.partitions import TopicPartitions, read_through

DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
_BATCH_RECORDS: Final = 32
PLACES_FILE: Final = "shard-places.sqlite"


class DagContent(Closing):
    """Opens the contents of a deployment's shards.

    `state_dir` keeps the locations of blocks across restarts (some 100 bytes per block); without it they are
    in a temporary file, filled at the first lookup. `cache_bytes` of chunks are held in memory. `kafka` is as
    in `LogConsumer`.

    Raises `TopicMissing`, `KafkaFailure`, `ShardPlacesFailed`, and `ShardHashRefused` for bytes that do not
    match their CID. Not for several threads.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        state_dir: Path | str | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        hashes: Collection[int] = DEFAULT_HASHES,
    ) -> None:
        settings = named_kafka(kafka)
        self._hashes = hashes
        topics = (settings.topic(INDEX_TOPIC), settings.topic(SHARDS_TOPIC))
        self.origin: Origin = ask_origin(clients.admin(settings), topics)
        """The cluster and the topics to which the file in `state_dir` belongs."""
        path = None
        if state_dir is not None:
            Path(state_dir).mkdir(parents=True, exist_ok=True)
            path = Path(state_dir) / PLACES_FILE
        self._places = ShardPlaces(path, self.origin)
        self._index = TopicPartitions(settings, INDEX_TOPIC)
        self._finder = ChunkFinder(settings, cache_bytes)
        self._is_reading = False

    @property
    def chunks_read(self) -> int:
        """Number of records of `dag.shards` that were fetched so far."""
        return self._finder.records_read

    def catch_up(self) -> None:
        """Read the index to its present end; a lookup of an unknown CID does so, too."""
        if not self._is_reading:
            known = self._places.positions()
            starts = {}
            for partition in range(self._index.count()):
                low, end = self._index.range_of(partition)
                starts[partition] = min(max(known.get(partition, low), low), end)
            self._index.assign(starts)
            self._is_reading = True
        for messages in read_through(self._index, self._index.ends(), max_records=_BATCH_RECORDS):
            try:
                self._places.take(messages, self._index.positions)
            except ShardPlacesFailed:
                # Nothing of it is in the file: a program that goes on after a full disk reads it again.
                self._is_reading = False
                raise

    def block(self, cid: Cid) -> bytes | None:
        """Return a block, checked; None if no available shard contains it."""
        if cid.is_identity:
            return cid.digest
        location = self._places.block(cid)
        if location is None:
            self.catch_up()
            location = self._places.block(cid)
        if location is None:
            return None
        data = self._finder.read(location.shard, location.offset, location.length)
        if data is None:
            return None
        try:
            check_block(cid, data, self._hashes)
        except HashMismatch as error:
            self._finder.forget(location.shard.cid)
            raise ShardHashRefused(f"in shard {location.shard.cid} another block lies: {error}") from error
        return data

    def resolve(self, path: str) -> PathEnd:
        """Resolve `CID/segment/…`. Raises `PathUnknown`, `BlockMissing` and other `DagError`."""
        root, segments = parse_path(path)
        return resolve_path(root, segments, self.block)

    def file_size(self, path: str) -> int:
        """Return the size of the file at `CID/segment/…`, in bytes."""
        return file_size(self.resolve(path).cid, self.block)

    def file(self, path: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of the file at `CID/segment/…`, or a range of them, in pieces.

        Raises `DagError` if there is no such file, or if one of its blocks is missing.
        """
        return read_file(self.resolve(path).cid, self.block, start, stop)

    def shard(self, cid: Cid, *, max_bytes: int = SHARD_SIZE_MAX) -> ShardAssembly | None:
        """Return a whole, verified shard, which the caller must close; None if it is not available in full.

        Raises `ShardTooLarge` if it has more than `max_bytes`, `HashUnsupported` if its hash cannot be
        checked.
        """
        shard = self._places.shard(cid)
        if shard is None:
            self.catch_up()
            shard = self._places.shard(cid)
        if shard is None:
            return None
        assembly = ShardAssembly(cid, shard.size, max_bytes=max_bytes, hashes=self._hashes)
        try:
            for offset in range(0, shard.size, CHUNK_SIZE):
                record = self._finder.chunk(shard, offset)
                if record is None:
                    assembly.close()
                    return None
                assembly.add(offset, record)
        except BaseException:
            self._finder.forget(cid)
            assembly.close()
            raise
        return assembly

    def close(self) -> None:
        """Close the connections and the file."""
        self._finder.close()
        self._index.close()
        self._places.close()
