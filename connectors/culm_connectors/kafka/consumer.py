"""Reading Kafka from an event loop: a thread consumes, a bounded queue hands over batches.

Partitions are assigned with explicit offsets and never reset by themselves: an offset that is out of range
is an error (`OffsetLost`), because the records in between are lost to this reader. `read_to_end` is the first
part of every start: it yields batches until the end that existed when the reader was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaException,
    TopicPartition,
)

from culm_connectors.kafka.errors import ConsumeFailed, OffsetLost
from culm_connectors.rate_limit import LimitedLog
from culm_topics.errors import OffsetOutOfRange
from culm_topics.readers.batch import Batch, Partition, fetch

logger = logging.getLogger(__name__)
limited = LimitedLog(logger)

_POLL_S = 0.1
_METADATA_TIMEOUT_S = 10.0
_OPEN_TIMEOUT_S = 30.0
_QUEUED_BATCHES = 4

Progress = Callable[[str, int, int], None]
"""Callback for progress while a topic is read to its end: activity, amount done, total amount."""


class TopicReader:
    """Reads all partitions of one topic in a thread; an asynchronous context manager.

    `consumer` makes a `confluent_kafka.Consumer` with `enable.partition.eof` and without an offset reset.
    `skip_lost` skips records that retention has removed; use it if another topic replaces them.
    """

    def __init__(
        self,
        consumer: Callable[[], Consumer],
        topic: str,
        offsets: Mapping[Partition, int],
        *,
        skip_lost: bool = False,
    ) -> None:
        self.topic = topic
        self._make = consumer
        self._start = dict(offsets)
        self._skip_lost = skip_lost
        self._queue: asyncio.Queue[Batch | Exception] = asyncio.Queue(_QUEUED_BATCHES)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ends: dict[Partition, int] = {}
        """The end of every partition when this reader started."""
        self.positions: dict[Partition, int] = {}
        """The next offset of every partition after the batches taken so far."""
        self.taken_at_s: float | None = None
        """Wall-clock time of the latest batch that was taken."""

    async def __aenter__(self) -> TopicReader:
        self._loop = asyncio.get_running_loop()
        consumer = await asyncio.to_thread(self._open)
        self._thread = threading.Thread(
            target=self._consume, args=(consumer,), name=f"kafka-read-{self.topic}", daemon=True
        )
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        thread = self._thread
        assert thread is not None, "entered before it is left"
        while thread.is_alive():
            # Unblock a thread that waits for capacity in the queue.
            with contextlib.suppress(asyncio.QueueEmpty):
                self._queue.get_nowait()
            await asyncio.to_thread(thread.join, _POLL_S)

    def _open(self) -> Consumer:
        consumer = self._make()
        deadline_s = time.monotonic() + _OPEN_TIMEOUT_S
        try:
            while not self._stopping.is_set():
                try:
                    self._assign(consumer)
                    break
                except KafkaException as error:
                    # A broker that has just started, or a topic just created, needs a moment.
                    if time.monotonic() > deadline_s:
                        raise ConsumeFailed(f"{self.topic}: {error.args[0].str()}") from error
                    time.sleep(_POLL_S)
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _assign(self, consumer: Consumer) -> None:
        metadata = consumer.list_topics(self.topic, _METADATA_TIMEOUT_S).topics[self.topic]
        if metadata.error is not None:
            raise ConsumeFailed(
                f"{self.topic}: {metadata.error.str()}", hint="create the topics with `culm topics create`"
            )
        assignment = []
        for partition in sorted(metadata.partitions):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(self.topic, partition), timeout=_METADATA_TIMEOUT_S
            )
            start = self._start.get((self.topic, partition), OFFSET_BEGINNING)
            if start == OFFSET_BEGINNING:
                start = low
            elif start == OFFSET_END:
                start = high
            elif start < low and self._skip_lost:
                logger.warning("%s/%d: %d records were removed unread", self.topic, partition, low - start)
                start = low
            elif not low <= start <= high:
                raise OffsetLost(
                    f"{self.topic}/{partition}: offset {start} is outside of {low}..{high}",
                    hint="retention removed records that were not read yet, or the topic was created again",
                )
            self.ends[self.topic, partition] = high
            self.positions[self.topic, partition] = start
            assignment.append(TopicPartition(self.topic, partition, start))
        consumer.assign(assignment)

    async def get(self) -> Batch:
        """Wait for the next batch and return it.

        Raises `OffsetLost` or `ConsumeFailed`; the reader cannot be used afterwards.
        """
        taken = await self._queue.get()
        if isinstance(taken, Exception):
            raise taken
        self.positions.update(taken.offsets)
        self.taken_at_s = time.time()
        return taken

    async def read_to_end(self) -> AsyncIterator[Batch]:
        """Yield batches until every partition has reached the end that it had when the reader started."""
        while any(self.positions[partition] < end for partition, end in self.ends.items()):
            yield await self.get()

    def remaining(self) -> int:
        """Return the number of records left before the ends at the start; for showing progress."""
        return sum(max(0, end - self.positions[partition]) for partition, end in self.ends.items())

    def lag(self, ends: Mapping[Partition, int]) -> int:
        """Return the number of records left before these ends; partitions that are not read do not count."""
        return sum(
            max(0, ends.get(partition, 0) - position) for partition, position in tuple(self.positions.items())
        )

    def _consume(self, consumer: Consumer) -> None:
        try:
            while not self._stopping.is_set():
                batch = fetch(consumer, _POLL_S)
                if batch is not None:
                    for passing in batch.passing:
                        limited.warning("reading %s: %s", self.topic, passing)
                    self._hand_over(batch)
        except OffsetOutOfRange as error:
            self._hand_over(OffsetLost(str(error)))
        except Exception as error:
            # Hand over any error: otherwise the caller of `get` would wait forever.
            self._hand_over(ConsumeFailed(f"{self.topic}: {error}"))
        finally:
            consumer.close()

    def _hand_over(self, taken: Batch | Exception) -> None:
        assert self._loop is not None, "started on a loop"
        done = asyncio.run_coroutine_threadsafe(self._queue.put(taken), self._loop)
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                done.result(_POLL_S)
                return
        done.cancel()
