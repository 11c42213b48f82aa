"""Bounded reading of large topics for details: few at a time, with a time limit that the detail states.

A scan ends early when its time is over, or when nobody waits for the answer any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from culm_infra.console.tables import Scan
from culm_infra.errors import InfraError
from culm_topics.errors import KafkaFailure, TopicsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions

CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)
"""Set by the server for the thread of a detail; the event is set when the client has gone."""
_SLOTS: Final = 2
_FIRST_WINDOW: Final = 1_000
_LAST_WINDOW: Final = 32_000
_POLL_SECONDS: Final = 0.2
_SILENCE_SECONDS: Final = 5.0
_CLIENT: Final = {
    # Retention may remove records while they are read.
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": str(1024 * 1024),
    "queued.max.messages.kbytes": str(4 * 1024),
    "queued.min.messages": "2000",
}


class RunningScan:
    """A scan: what it has read, and whether it may go on."""

    def __init__(self, limit_s: float, cancelled: threading.Event | None) -> None:
        self.records = 0
        self.complete = True
        """Whether everything that was wanted was read."""
        self._limit_s = limit_s
        self._started_s = time.monotonic()
        self._cancelled = cancelled

    @property
    def goes_on(self) -> bool:
        """Whether there is time left and somebody waits; otherwise the scan is not complete."""
        is_over = time.monotonic() - self._started_s >= self._limit_s
        if is_over or (self._cancelled is not None and self._cancelled.is_set()):
            self.complete = False
            return False
        return True

    def result(self) -> Scan:
        """Return the scan as details state it."""
        took_s = round(time.monotonic() - self._started_s, 3)
        return Scan(self._limit_s, took_s, self.records, self.complete)


class Scans:
    """The scans of one console: at most two at a time."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._slots = threading.BoundedSemaphore(_SLOTS)

    @contextmanager
    def open(self) -> Iterator[RunningScan]:
        """Start a scan. Raises `InfraError` if as many as are allowed are running."""
        if not self._slots.acquire(blocking=False):
            raise InfraError(f"{_SLOTS} other details are being read", hint="try again in a few seconds")
        try:
            yield RunningScan(self.limit_s, CANCELLED.get())
        finally:
            self._slots.release()

    def without_reading(self) -> Scan:
        """Return the scan of a detail that reads no topic, which is never refused."""
        return Scan(self.limit_s, took_s=0.0, records=0, complete=True)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Records of a topic with one key; `note` says which of them they are."""

    messages: list[TopicMessage]
    note: str | None


def newest(
    scan: RunningScan,
    kafka: KafkaSettings,
    topic: str,
    partition_of: Callable[[int], int],
    key: bytes,
    limit: int,
) -> Excerpt:
    """Return the newest records with a key, read backwards from the end of its partition.

    `partition_of` returns the partition for a number of partitions. A topic that cannot be read gives an
    empty excerpt whose note says why. Raises `KafkaFailure` if the broker does not answer.
    """

    def read(back: BackwardReader) -> Excerpt:
        partition = partition_of(back.reader.count())
        low, high = back.reader.range_of(partition)
        messages: list[TopicMessage] = []
        for message in back.messages(partition, low, high):
            if message.key == key:
                messages.append(message)
                if len(messages) == limit:
                    return Excerpt(messages, f"the newest {limit}")
        where = f"of partition {partition} of {back.reader.topic}"
        if not scan.complete:
            return Excerpt(
                messages, f"only the newest {back.searched:,} records {where} were searched in this time"
            )
        return Excerpt(messages, None if messages else f"no record {where} has this key")

    return _reading(scan, kafka, topic, read)


def oldest(
    scan: RunningScan, kafka: KafkaSettings, topic: str, partition_of: Callable[[int], int], key: bytes
) -> Excerpt:
    """Return all records with a key, read from the beginning of its partition. See `newest`."""

    def read(back: BackwardReader) -> Excerpt:
        reader = back.reader
        partition = partition_of(reader.count())
        low, high = reader.range_of(partition)
        messages = [message for message in back.between(partition, low, high) if message.key == key]
        if scan.complete:
            return Excerpt(messages, None)
        reached = reader.positions.get(partition, low)
        return Excerpt(
            messages,
            f"only the oldest {reached - low:,} of {high - low:,} records of partition {partition} of "
            f"{reader.topic} were read in this time",
        )

    return _reading(scan, kafka, topic, read)


def _reading(
    scan: RunningScan, kafka: KafkaSettings, topic: str, read: Callable[[BackwardReader], Excerpt]
) -> Excerpt:
    try:
        with reading_back(scan, kafka, topic) as back:
            return read(back)
    except KafkaFailure as error:
        if error.passes:
            raise
        return Excerpt([], str(error))
    except TopicsError as error:
        return Excerpt([], str(error))


class BackwardReader:
    """Reads a partition in windows from its end to its beginning, as far as a scan may go on."""

    def __init__(self, scan: RunningScan, reader: TopicPartitions) -> None:
        self.reader = reader
        self.searched = 0
        """Number of records that were searched, counted by their offsets."""
        self._scan = scan

    def messages(
        self, partition: int, low: int, high: int, window: int = _FIRST_WINDOW
    ) -> Iterator[TopicMessage]:
        """Yield the records from offset `low` on, before `high`, the newest first.

        Raises `KafkaFailure` if the broker sends nothing.
        """
        end = high
        while high > low and self._scan.goes_on:
            start = max(low, high - window)
            part = list(self.between(partition, start, high))
            if not self._scan.complete:
                return
            high, window = start, min(2 * window, _LAST_WINDOW)
            self.searched = end - high
            yield from reversed(part)

    def between(self, partition: int, start: int, end: int) -> Iterator[TopicMessage]:
        """Yield the records between two offsets. Raises `KafkaFailure` if the broker sends nothing."""
        self.reader.assign({partition: start})
        positions = self.reader.positions
        heard_s = time.monotonic()
        while positions[partition] < end and self._scan.goes_on:
            before = positions[partition]
            for message in self.reader.poll(_POLL_SECONDS):
                if message.offset < end:
                    self._scan.records += 1
                    yield message
            if positions[partition] != before:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _SILENCE_SECONDS:
                raise KafkaFailure(
                    f"the broker sent nothing of {self.reader.topic} for {_SILENCE_SECONDS:.0f} s"
                )


@contextmanager
def reading_back(scan: RunningScan, kafka: KafkaSettings, topic: str) -> Iterator[BackwardReader]:
    """Open a reader of a topic. Raises `TopicMissing`, `KafkaFailure`."""
    with TopicPartitions(kafka, topic, defaults=_CLIENT) as reader:
        yield BackwardReader(scan, reader)
