"""Follows partitions of several topics from their current ends, as channels are joined and left.

One thread with one Kafka client, created when the first channel is joined: a connector without SDS peers
reads nothing from these topics. A partition is read only while a channel in it is joined on this connector.
Records go to the event loop batch by batch; the next batch is read once the last is processed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaException,
    TopicPartition,
)

from culm_connectors.kafka.errors import ConsumeFailed
from culm_connectors.rate_limit import LimitedLog
from culm_topics.errors import TopicsError
from culm_topics.readers.batch import Batch, fetch, source_of
from culm_topics.readers.partitions import refresh_leaders

logger = logging.getLogger(__name__)
limited = LimitedLog(logger)

_POLL_S = 0.05
_REQUEST_TIMEOUT_S = 10.0
_ENDS_TIMEOUT_S = 2.0
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class FollowedRecord:
    """One record of a followed topic, by the topic's name in the catalogue."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


Deliver = Callable[[Sequence[FollowedRecord]], None]
"""Callback that processes records on the event loop."""


@dataclass(slots=True)
class _Request:
    """Request to follow a partition; there is at most one request per partition."""

    done: concurrent.futures.Future[None]
    deadline_s: float
    """Deadline for the broker's answer with the end of the partition."""
    left_s: float | None = None
    """Time since which the partition is no longer requested; None while it is requested."""


class PartitionFollower:
    """Follows partition n of every topic while n is requested. `topics`: names by the topics' full names.

    Requests are a state, not a queue: a request that is withdrawn before it was granted costs nothing. A
    partition that is no longer requested is followed for `linger_s` longer, so that joining and leaving in a
    loop asks the broker no more than joining once. `consumer` makes a client with `enable.partition.eof`
    that starts at the end if an offset is out of range. Topics in `whole` are read from the beginning: the
    request for a partition is granted once their existing records are processed. `failure` completes when
    the thread has ended with an error.
    """

    def __init__(
        self,
        consumer: Callable[[], Consumer],
        topics: Mapping[str, str],
        deliver: Deliver,
        *,
        linger_s: float = 30.0,
        whole: Collection[str] = (),
    ) -> None:
        self._make = consumer
        self._topics = dict(topics)
        self._deliver = deliver
        self._linger_s = linger_s
        self._whole = frozenset(whole)
        self._reading: list[tuple[concurrent.futures.Future[None], Mapping[tuple[str, int], int]]] = []
        """Requests that wait for existing records, with the end offsets of those; used on the event loop."""
        self._wanted: Counter[int] = Counter()
        self._changed = threading.Condition()
        """Guards the requests; notified when a request is added or withdrawn."""
        self._requests: dict[int, _Request] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.positions: dict[tuple[str, int], int] = {}
        """The next offset of each followed partition by its topic's name; earlier records are processed."""

    async def follow(self, partition: int) -> None:
        """Follow a partition; records written after the return reach `deliver`. Raises `ConsumeFailed`."""
        self._wanted[partition] += 1
        try:
            # Other callers may wait for the same future.
            await asyncio.shield(asyncio.wrap_future(self._requested(partition), loop=self._loop))
        except BaseException:
            self.unfollow(partition)
            raise

    def unfollow(self, partition: int) -> None:
        """Withdraw one request for the partition."""
        self._wanted[partition] -= 1
        if self._wanted[partition] > 0:
            return
        del self._wanted[partition]
        with self._changed:
            if (request := self._requests.get(partition)) is not None:
                request.left_s = time.monotonic()
                self._changed.notify()

    async def close(self) -> None:
        """Stop following."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP_TIMEOUT_S)
        self.failure.cancel()

    def _requested(self, partition: int) -> concurrent.futures.Future[None]:
        with self._changed:
            request = self._requests.get(partition)
            if request is None:
                deadline_s = time.monotonic() + _REQUEST_TIMEOUT_S
                request = self._requests[partition] = _Request(concurrent.futures.Future(), deadline_s)
                self._changed.notify()
            request.left_s = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="partition-follower", daemon=True)
            self._thread.start()
        return request.done

    # In the thread.

    def _run(self) -> None:
        error: Exception | None = None
        try:
            consumer = self._make()
            try:
                self._consume(consumer)
            finally:
                consumer.close()
        except (KafkaException, TopicsError) as failure:
            error = ConsumeFailed(f"following channels: {failure}")
        except Exception as other:
            error = other
        if error is not None:
            with self._changed:
                requests = tuple(self._requests.values())
            for request in requests:
                # Callers that wait for these requests must not wait forever.
                if not request.done.done():
                    request.done.set_exception(error)
            self._on_loop(lambda: self._fail(error))

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    def _on_loop(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _consume(self, consumer: Consumer) -> None:
        assigned: set[int] = set()
        while not self._stopping.is_set():
            with self._changed:
                # Without partitions to follow, only wait for a request.
                while not assigned and not self._requests and not self._stopping.is_set():
                    self._changed.wait()
            self._unassign(consumer, assigned)
            self._assign(consumer, assigned)
            if not assigned:
                continue
            batch = fetch(consumer, _POLL_S)
            if batch is not None:
                self._hand_over(batch)

    def _unassign(self, consumer: Consumer, assigned: set[int]) -> None:
        """Drop withdrawn requests: at once if they were not granted, otherwise after `linger_s`."""
        before_s = time.monotonic() - self._linger_s
        with self._changed:
            over = [
                partition
                for partition, request in self._requests.items()
                if request.left_s is not None and (partition not in assigned or request.left_s <= before_s)
            ]
            for partition in over:
                del self._requests[partition]
        unwanted = assigned.intersection(over)
        if unwanted:
            consumer.incremental_unassign(
                [TopicPartition(topic, partition) for topic in self._topics for partition in unwanted]
            )
            assigned -= unwanted

    def _assign(self, consumer: Consumer, assigned: set[int]) -> None:
        """Start to follow all newly requested partitions, from their current ends."""
        with self._changed:
            new = {
                partition: request
                for partition, request in self._requests.items()
                if partition not in assigned
            }
        if not new:
            return
        ends = self._ends(consumer, new)
        known = [number for number in new if all((topic, number) in ends for topic in self._topics)]
        assignment = [
            TopicPartition(topic, number, OFFSET_BEGINNING if name in self._whole else ends[topic, number])
            for number in known
            for topic, name in self._topics.items()
        ]
        if assignment:
            consumer.incremental_assign(assignment)
            assigned.update(known)
        for number in known:
            ends_here = {(name, number): ends[topic, number] for topic, name in self._topics.items()}
            first = {
                position: end for position, end in ends_here.items() if position[0] in self._whole and end
            }
            self.positions.update(ends_here | dict.fromkeys(first, 0))
            self._on_loop(partial(self._grant_after, new.pop(number).done, first))
        late = [number for number, request in new.items() if request.deadline_s <= time.monotonic()]
        with self._changed:
            for number in late:
                self._requests.pop(number, None)
        for number in late:
            new[number].done.set_exception(
                ConsumeFailed("following channels: the broker does not report their end offsets")
            )
        if new:
            # A broker that has just started, or a topic just created, needs a moment.
            self._stopping.wait(_POLL_S)

    def _grant_after(
        self, done: concurrent.futures.Future[None], ends: Mapping[tuple[str, int], int]
    ) -> None:
        self._reading.append((done, ends))
        self._settle()

    def _settle(self) -> None:
        """Grant the requests for which everything has been read."""
        waiting = []
        for done, ends in self._reading:
            if any(self.positions[partition] < end for partition, end in ends.items()):
                waiting.append((done, ends))
            elif not done.done():
                done.set_result(None)
        self._reading = waiting

    def _ends(self, consumer: Consumer, partitions: Collection[int]) -> dict[tuple[str, int], int]:
        """Return the ends of the partitions by the topics' full names, as far as the broker reports them."""
        asked = [
            # The offset field carries a time here; this value means: behind the last record.
            TopicPartition(topic, partition, OFFSET_END)
            for topic in self._topics
            for partition in partitions
        ]
        try:
            answers = consumer.offsets_for_times(asked, timeout=_ENDS_TIMEOUT_S)
        except KafkaException as error:
            logger.debug("following channels: %s", error)
            for topic in self._topics:
                refresh_leaders(consumer, topic)
            return {}
        return {
            (answer.topic, answer.partition): answer.offset
            for answer in answers
            if answer.error is None and answer.offset >= 0
        }

    def _hand_over(self, batch: Batch) -> None:
        for passing in batch.passing:
            limited.warning("following channels: %s", passing)
        records = []
        for message in batch.messages:
            topic, partition, offset = source_of(message)
            key, value = message.key(), message.value()
            if isinstance(key, bytes) and isinstance(value, bytes):
                records.append(FollowedRecord(self._topics[topic], partition, offset, key, value))
        ends = {(self._topics[topic], number): offset for (topic, number), offset in batch.offsets.items()}
        done = concurrent.futures.Future[None]()
        self._on_loop(lambda: self._deal_with(records, ends, done))
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                done.result(_POLL_S)
                return

    def _deal_with(
        self,
        records: Sequence[FollowedRecord],
        ends: Mapping[tuple[str, int], int],
        done: concurrent.futures.Future[None],
    ) -> None:
        try:
            # The receiver handles unexpected records itself; any other exception is our defect.
            self._deliver(records)
            self.positions.update(ends)
            self._settle()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
