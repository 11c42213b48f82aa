"""`PayloadReader`: the whole, verified payloads of the topic `payloads`.

from culm_topics.logs.payload_reader import PayloadReader

with PayloadReader("127.0.0.1:9092") as reader:
    for payload in reader:
        with payload:
            store(payload.payload_hash, payload.blocks())
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing
from typing import Final

from culm_topics.errors import (
    PayloadChunkRefused,
    PayloadHashRefused,
    PayloadTooLarge,
    RecordError,
    TopicsError,
)
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.logs.payload_chunks import DEFAULT_MAX_PAYLOAD_BYTES, PayloadAssembly
from culm_topics.logs.records import decode_payload_chunk, hash_flavour, payload_partition
from culm_topics.logs.unfinished_payloads import UnfinishedPayloads
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.consumer import TopicConsumer
from culm_topics.readers.partitions import TopicPartitions, read_through

DEFAULT_MAX_UNFINISHED_BYTES: Final = 1024 * 1024 * 1024
_BATCH_RECORDS: Final = 16
"""Number of chunks in memory at once: 8 MiB."""


class PayloadReader(TopicConsumer[PayloadAssembly]):
    """Follows `payloads` and hands out each payload once it is whole and verified; an iterator.

    It hands out `PayloadAssembly` objects (`payload_hash`, `payload_size`, `read()`, `blocks()`): close them,
    as `with` does, since a large payload is in a temporary file. A payload may be handed out again if it was
    produced again long after, and after a restart.

    Payloads of more than `max_payload_bytes` are skipped (`topics.payload_size`). Chunks of unfinished
    payloads are on disk, at most `max_unfinished_bytes` in total and a few hundred payloads. Beyond that the
    oldest payload is given up (`topics.payload_chunk`); `fetch` still gets it. All of these, malformed chunks
    and chunks that do not match their hash (`topics.payload_hash`) are counted in `passed_over` and reported
    to `on_problem`; they affect nothing else.

    `start_at` (offsets by partition, an earlier `positions()`) resumes; without it the whole topic is read.
    `stop_at_end` ends the iteration at the end that the topic had at the start. `kafka` is as in
    `LogConsumer`.

    `fetch` and `find` look up the payloads of known hashes, whether this reader follows the topic or not: all
    chunks of one payload are in one partition (`payload_partition`), which is read from its beginning to its
    end. Request several payloads with one `find`.

    Raises `TopicMissing`, `OffsetOutOfRange`, `KafkaFailure`, and `OSError` if the disk takes no chunk, which
    is taken later if the program goes on. Not for several threads, except `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
        max_unfinished_bytes: int = DEFAULT_MAX_UNFINISHED_BYTES,
        start_at: Mapping[int, int] | None = None,
        stop_at_end: bool = False,
        on_problem: Callable[[TopicsError], None] | None = None,
    ) -> None:
        super().__init__()
        self._settings = named_kafka(kafka)
        self._max_payload_bytes = max_payload_bytes
        self._start_at = dict(start_at or {})
        self._stop_at_end = stop_at_end
        self._on_problem = on_problem
        self._unfinished = UnfinishedPayloads(max_payload_bytes, max_unfinished_bytes)
        self._reading = TopicPartitions(self._settings, "payloads")
        self._buffer: deque[TopicMessage] = deque()
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] | None = None
        self.passed_over = PassedOver("payloads")
        """Skipped records, with their positions."""

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has reached the end."""
        if not self._stop_at_end or self._ends is None or self._buffer:
            return False
        return all(self._positions[number] >= end for number, end in self._ends.items())

    def _take(self) -> PayloadAssembly | None:
        while self._buffer:
            message = self._buffer.popleft()
            try:
                payload = self._look_at(message)
            except OSError:
                # A program that goes on after a full disk gets the payload then.
                self._buffer.appendleft(message)
                raise
            self._positions[message.partition] = message.offset + 1
            if payload is not None:
                return payload
        return None

    def positions(self) -> dict[int, int]:
        """Return the offset to resume from, by partition, so that no payload is missed."""
        return self._unfinished.positions(self._positions)

    def fetch(self, payload_hash: bytes) -> PayloadAssembly | None:
        """Return the payload of this hash (an entry's `payload_hash`), or None if it is not there in full.

        Raises `PayloadTooLarge` if it exceeds this reader's limit, `RecordError` for a malformed hash.
        """
        with closing(self.find([payload_hash])) as payloads:
            return next(payloads, None)

    def find(self, payload_hashes: Collection[bytes]) -> Generator[PayloadAssembly, None, None]:
        """Yield the payloads that the topic has whole, in one pass over their partitions.

        Raises `PayloadTooLarge` at the end if a payload that was not found exceeds this reader's limit.
        """
        wanted = set(payload_hashes)
        for payload_hash in wanted:
            hash_flavour(payload_hash)
        reading = TopicPartitions(self._settings, "payloads")
        unfinished = UnfinishedPayloads(self._max_payload_bytes, DEFAULT_MAX_UNFINISHED_BYTES)
        too_large: dict[bytes, PayloadTooLarge] = {}
        try:
            count = reading.count()
            places = {payload_partition(payload_hash, count) for payload_hash in wanted}
            ends = reading.read_from({partition: reading.range_of(partition)[0] for partition in places})
            for messages in read_through(reading, ends, max_records=_BATCH_RECORDS):
                for message in messages:
                    if message.key[:-4] not in wanted or message.offset >= ends[message.partition]:
                        continue
                    try:
                        payload_hash, record = decode_payload_chunk(message.key, message.value)
                        payload = unfinished.add(payload_hash, record, message.partition, message.offset)
                    except PayloadTooLarge as error:
                        too_large[message.key[:-4]] = error
                        continue
                    except (RecordError, PayloadHashRefused) as error:
                        self._pass_over(message, error)
                        continue
                    if payload is not None:
                        wanted.remove(payload_hash)
                        yield payload
                if not wanted:
                    break
            for payload_hash in wanted & too_large.keys():
                raise too_large[payload_hash]
        finally:
            unfinished.close()
            reading.close()

    def close(self) -> None:
        """Close the connection and drop unfinished payloads; those handed out stay."""
        super().close()

    def _close(self) -> None:
        self._unfinished.close()
        self._reading.close()

    def _begin(self) -> None:
        if self._ends is not None:
            return
        starts = {number: self._start_at.get(number, low) for number, low in self._reading.starts().items()}
        self._ends = self._reading.read_from(starts)
        self._positions = starts

    def _fetch(self, timeout_seconds: float) -> None:
        self._begin()
        self._buffer.extend(self._reading.poll(timeout_seconds, _BATCH_RECORDS))
        if not self._buffer:
            self._positions = dict(self._reading.positions)

    def _look_at(self, message: TopicMessage) -> PayloadAssembly | None:
        if self._stop_at_end and self._ends is not None and message.offset >= self._ends[message.partition]:
            return None
        if not message.value:
            return None  # removed: no entry refers to it any more
        try:
            payload_hash, record = decode_payload_chunk(message.key, message.value)
            payload = self._unfinished.add(payload_hash, record, message.partition, message.offset)
        except PayloadTooLarge as error:
            if message.key.endswith(bytes(4)):  # once per payload: with its first chunk
                self._pass_over(message, error)
            return None
        except (RecordError, PayloadHashRefused) as error:
            self._pass_over(message, error)
            return None
        for given_up in self._unfinished.take_abandoned():
            self._pass_over(
                message,
                PayloadChunkRefused(
                    f"payload {given_up.hex()} was given up: too many unfinished payloads",
                    hint="`PayloadReader.fetch` gets it; more room is `max_unfinished_bytes`",
                ),
            )
        return payload

    def _pass_over(self, message: TopicMessage, error: TopicsError) -> None:
        self.passed_over.add(message, error)
        if self._on_problem is not None:
            self._on_problem(error)
