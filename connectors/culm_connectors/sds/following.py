"""Following partitions of several topics from the present on, as channels are joined and left.

One thread, one Kafka client, made when the first channel is joined: a connector without SDS peers reads
nothing of it. Of each topic only the partitions are read whose channels somebody here has joined. Records go
to the event loop batch by batch, and the next batch is taken when it has dealt with the last.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from culm_connectors.kafka.errors import ConsumeFailed

logger = logging.getLogger(__name__)

_POLL_S = 0.05
_REQUEST_TIMEOUT_S = 10.0
_BATCH_RECORDS = 1_000
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a followed topic, by the topic's name in the catalogue."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


Deliver = Callable[[Sequence[Record]], None]
"""Deals with records, on the event loop."""


@dataclass(slots=True)
class _Wish:
    partition: int
    wanted: bool
    done: concurrent.futures.Future[None]


class Following:
    """Follows partition n of every topic for whoever asks for n. `topics`: names by the topics' full names.

    `consumer` makes a client that begins at the end where an offset is out of range, with
    `enable.partition.eof`. `failure` is done when the thread has ended in an error.
    """

    def __init__(self, consumer: Callable[[], Consumer], topics: Mapping[str, str], deliver: Deliver) -> None:
        self._make = consumer
        self._topics = dict(topics)
        self._deliver = deliver
        self._wishes: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._wanted: Counter[int] = Counter()
        self._following: dict[int, asyncio.Future[None]] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.positions: dict[tuple[str, int], int] = {}
        """The next offset of each followed partition by its topic's name: what is before was dealt with."""

    async def follow(self, partition: int) -> None:
        """When this returns, what is written into the partition comes to `deliver`. Raises ConsumeFailed."""
        self._wanted[partition] += 1
        try:
            await self._assured(partition)
        except BaseException:
            self.unfollow(partition)
            raise

    def unfollow(self, partition: int) -> None:
        """One less wants the partition."""
        self._wanted[partition] -= 1
        if self._wanted[partition] <= 0:
            del self._wanted[partition]
            if self._following.pop(partition, None) is not None:
                self._wish(partition, wanted=False)

    async def close(self) -> None:
        """Stop following."""
        self._stopping.set()
        self._wishes.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP_TIMEOUT_S)
        self.failure.cancel()

    async def _assured(self, partition: int) -> None:
        following = self._following.get(partition)
        if following is None:
            following = self._following[partition] = asyncio.wrap_future(
                self._wish(partition, wanted=True), loop=self._loop
            )
        try:
            # Others may wait for the same.
            await asyncio.shield(following)
        except Exception:
            if self._following.get(partition) is following:
                del self._following[partition]
            raise

    def _wish(self, partition: int, *, wanted: bool) -> concurrent.futures.Future[None]:
        wish = _Wish(partition, wanted, concurrent.futures.Future())
        self._wishes.put(wish)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sds-follow", daemon=True)
            self._thread.start()
        return wish.done

    # In the thread.

    def _run(self) -> None:
        error: Exception | None = None
        try:
            consumer = self._make()
            try:
                self._consume(consumer)
            finally:
                consumer.close()
        except KafkaException as kafka_error:
            error = ConsumeFailed(f"following channels: {kafka_error.args[0]}")
        except Exception as other:
            error = other
        if error is not None:
            self._tell(lambda: self._fail(error))

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _consume(self, consumer: Consumer) -> None:
        assigned: set[int] = set()
        while not self._stopping.is_set():
            # Without anything to follow there is nothing to do but to wait for a wish.
            self._fulfil(consumer, assigned, wait=not assigned)
            if not assigned:
                continue
            # `consume` waits for all that it was asked for; one record must not wait for others.
            taken = consumer.consume(1, timeout=_POLL_S)
            if taken:
                taken += consumer.consume(_BATCH_RECORDS - 1, timeout=0)
                self._hand_over(taken)

    def _fulfil(self, consumer: Consumer, assigned: set[int], *, wait: bool) -> None:
        while True:
            try:
                wish = self._wishes.get(block=wait)
            except queue.Empty:
                return
            if wish is None:
                return
            wait = False
            if wish.wanted == (wish.partition in assigned):
                wish.done.set_result(None)
                continue
            try:
                if wish.wanted:
                    self._assign(consumer, wish.partition)
                    assigned.add(wish.partition)
                else:
                    consumer.incremental_unassign(
                        [TopicPartition(topic, wish.partition) for topic in self._topics]
                    )
                    assigned.discard(wish.partition)
            except KafkaException as error:
                wish.done.set_exception(ConsumeFailed(f"following channels: {error.args[0].str()}"))
            else:
                wish.done.set_result(None)

    def _assign(self, consumer: Consumer, partition: int) -> None:
        places = []
        for topic, name in self._topics.items():
            high = self._end(consumer, TopicPartition(topic, partition))
            places.append(TopicPartition(topic, partition, high))
            self.positions[name, partition] = high
        consumer.incremental_assign(places)

    def _end(self, consumer: Consumer, place: TopicPartition) -> int:
        deadline_s = time.monotonic() + _REQUEST_TIMEOUT_S
        while True:
            try:
                _, high = consumer.get_watermark_offsets(place, timeout=_REQUEST_TIMEOUT_S)
            except KafkaException:
                # A broker that has just started, or a topic just made, needs a moment.
                if self._stopping.wait(_POLL_S) or time.monotonic() > deadline_s:
                    raise
            else:
                return int(high)

    def _hand_over(self, taken: Sequence[Message]) -> None:
        records: list[Record] = []
        ends: dict[tuple[str, int], int] = {}
        for message in taken:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            error = message.error()
            if topic is None or partition is None or offset is None:
                if error is not None and error.fatal():
                    raise ConsumeFailed(f"following channels: {error.str()}")
                continue
            name = self._topics[topic]
            if error is None:
                key, value = message.key(), message.value()
                if isinstance(key, bytes) and isinstance(value, bytes):
                    records.append(Record(name, partition, offset, key, value))
                ends[name, partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end may lie behind records that a reader never sees.
                ends[name, partition] = offset
            elif error.fatal() or not error.retriable():
                raise ConsumeFailed(f"following {topic}/{partition}: {error.str()}")
            else:
                logger.warning("following %s: %s", topic, error.str())
        done = concurrent.futures.Future[None]()
        self._tell(lambda: self._deal_with(records, ends, done))
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                done.result(_POLL_S)
                return

    def _deal_with(
        self,
        records: Sequence[Record],
        ends: Mapping[tuple[str, int], int],
        done: concurrent.futures.Future[None],
    ) -> None:
        try:
            # One record of another kind than expected is the receiver's business; a defect of ours is not.
            self._deliver(records)
            self.positions.update(ends)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
