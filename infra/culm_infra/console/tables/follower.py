"""Follows small topics for tables: each is read from its beginning, and kept packed while tables use it.

A topic that nobody has looked at for ten minutes is forgotten, and read again when a table needs it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from culm_infra.console.tables.packed import Packed, PackedRecords, TableMemory
from culm_topics.errors import (
    KafkaFailure,
    OffsetOutOfRange,
    RecordError,
    TopicMissing,
    TopicRecreated,
    TopicsError,
)
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25
_ENDS_SECONDS: Final = 2.0
_TOPIC_CHECK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 600.0
_FIRST_WAIT_SECONDS: Final = 2.0
_NEWS_SECONDS: Final = 600.0
_CLIENT: Final = {
    # Records that compaction removes during the reading are no longer part of the topic.
    "auto.offset.reset": "earliest",
    # Small queues: what waits in the client is memory as well.
    "fetch.message.max.bytes": str(1024 * 1024),
    "queued.max.messages.kbytes": str(4 * 1024),
    "queued.min.messages": "2000",
}


@dataclass(frozen=True, slots=True)
class FollowedForm:
    """A topic to follow. `check` raises `RecordError` for a malformed key or value; an empty value removes.

    `replaces` says whether a value takes effect in the place of the present one; without it the later one
    does. `pack` shortens a value to the parts that tables need.
    """

    topic: str
    check: Callable[[bytes, bytes], object]
    replaces: Callable[[bytes | None, bytes], bool] | None = None
    pack: Callable[[bytes, bytes], bytes] | None = None


class ReadingState(Enum):
    """State of the reading of a topic."""

    BEGINS = "begins"
    CURRENT = "current"
    ABSENT = "absent"
    REFUSED = "refused"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Extent:
    """PageExtent part of a topic: `as_of_ms` is the time up to which all records are included."""

    topic: str
    reading: ReadingState
    as_of_ms: int
    notes: tuple[str, ...] = field(default=())

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing as of that time."""
        return self.reading is ReadingState.CURRENT and not self.notes


class FollowedTopic:
    """The present contents of one topic. For several threads."""

    def __init__(self, kafka: KafkaSettings, form: FollowedForm, memory: TableMemory) -> None:
        self.records = PackedRecords(memory)
        self._kafka, self._form, self._memory = kafka, form, memory
        self._full_name = kafka.topic(form.topic)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._created_again_s: float | None = None
        self._used_s = time.monotonic()
        self._forget()

    def _forget(self) -> None:
        self.records.clear()
        self._reading, self._problem = ReadingState.BEGINS, ""
        self._as_of_ms, self._last_record_ms = 0, 0
        self._read, self._total = 0, 0
        self._topic_id: str | None = None
        self._positions: dict[int, int] = {}
        self._passed_over = PassedOver(self._form.topic)

    def extent(self) -> Extent:
        """Return how far the topic is known; starts following it, and waits a moment for the first time.

        Raises `KafkaFailure` if Kafka does not answer and nothing was read before.
        """
        deadline_s = time.monotonic() + _FIRST_WAIT_SECONDS
        with self._changed:
            self._used_s = time.monotonic()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name=f"follow {self._full_name}", daemon=True
                )
                self._thread.start()
            while self._reading is ReadingState.BEGINS and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            if self._reading is ReadingState.AWAY and not self._as_of_ms:
                raise KafkaFailure(self._problem)
            as_of_ms = self._as_of_ms or self._last_record_ms or _now_ms()
            return Extent(self._form.topic, self._reading, as_of_ms, tuple(self._notes()))

    def _notes(self) -> Iterable[str]:
        if self._reading is ReadingState.BEGINS:
            share = f": {self._read:,} of {max(self._total, self._read):,} records" if self._total else ""
            yield f"{self._full_name} is being read{share}"
        elif self._reading is not ReadingState.CURRENT:
            yield self._problem
        if self.records.left_out:
            yield (
                f"the memory for tables is full ({self._memory.max_bytes / 1024**2:,.0f} MB, "
                f"`console.max_table_bytes`): {self.records.left_out:,} records of {self._full_name} "
                "are left out"
            )
        if self._passed_over.records:
            yield (
                f"{self._passed_over.records:,} malformed records of {self._full_name} are left out, such as "
                f"{self._passed_over.first[0]}"
            )
        if self._created_again_s is not None and time.monotonic() - self._created_again_s < _NEWS_SECONDS:
            yield f"{self._full_name} was deleted and created again; its new contents are shown"

    def stop(self) -> None:
        """Let the thread end; it does so within seconds."""
        self._closed.set()

    def close(self) -> None:
        """Stop, and wait a moment for the thread."""
        self.stop()
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join(2 * _POLL_SECONDS)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow()
                if self._ends_idle():
                    return
            except TopicMissing:
                self.records.clear()
                self._positions = {}
                self._set(
                    ReadingState.ABSENT, f"{self._full_name} does not exist: `culm topics create` creates it"
                )
            except TopicRecreated:
                self._forget()
                self._created_again_s = time.monotonic()
                continue
            except OffsetOutOfRange:
                self._forget()
                continue
            except KafkaFailure as error:
                self._set(ReadingState.AWAY if error.passes else ReadingState.REFUSED, _sentence(error))
            except Exception as error:
                logger.exception("following %s failed", self._full_name)
                self._set(ReadingState.REFUSED, f"{self._full_name} cannot be read: {error}")
            self._closed.wait(_RETRY_SECONDS)

    def _ends_idle(self) -> bool:
        with self._changed:
            if not self._is_idle():
                return False
            self._forget()
            self._thread = None
            return True

    def _is_idle(self) -> bool:
        return time.monotonic() - self._used_s > _IDLE_SECONDS

    def _set(self, reading: ReadingState, problem: str = "") -> None:
        with self._changed:
            self._reading, self._problem = reading, problem
            self._changed.notify_all()

    def _follow(self) -> None:
        """Read the topic until nobody uses it. Raises the errors of `TopicPartitions` and `TopicWatch`."""
        watch = TopicWatch(self._kafka, self._full_name, interval_seconds=_TOPIC_CHECK_SECONDS)
        if self._topic_id not in (None, watch.topic_id):
            raise TopicRecreated(f"topic {self._full_name} was created again")
        self._topic_id = watch.topic_id
        with TopicPartitions(self._kafka, self._form.topic, defaults=_CLIENT) as reader:
            starts = reader.starts() | self._positions
            ends = reader.read_from(starts)
            if not self._as_of_ms:
                self._total = sum(ends.values()) - sum(starts.values())
            asked_s, asked_ms = time.monotonic(), _now_ms()
            while not (self._closed.is_set() or self._is_idle()):
                if messages := reader.poll(_POLL_SECONDS):
                    self._apply(messages)
                self._positions = dict(reader.positions)
                watch.poll()
                if watch.partition_count > len(reader.positions):
                    reader.assign(dict.fromkeys(range(watch.partition_count), 0) | reader.positions)
                if not reader.has_reached(ends):
                    continue
                self._as_of_ms = asked_ms
                if self._reading is not ReadingState.CURRENT:
                    self._set(ReadingState.CURRENT)
                if time.monotonic() - asked_s >= _ENDS_SECONDS:
                    asked_s, asked_ms = time.monotonic(), _now_ms()
                    ends = reader.ends()

    def _apply(self, messages: Sequence[TopicMessage]) -> None:
        accepted: list[Packed] = []
        for message in messages:
            self._read += 1
            try:
                self._form.check(message.key, message.value)
            except RecordError as error:
                self._passed_over.add(message, error)
                continue
            if self._form.replaces is not None:
                # A decision that depends on the present value comes after the records before it.
                if not message.value or self._form.replaces(self.records.get(message.key), message.value):
                    self.records.apply([(message.key, message.value)])
            elif self._form.pack is not None:
                accepted.append((message.key, self._form.pack(message.key, message.value)))
            else:
                accepted.append((message.key, message.value))
        self.records.apply(accepted)
        self._last_record_ms = messages[-1].timestamp_ms


@dataclass(frozen=True, slots=True)
class PageExtent:
    """The extent of a table that uses several topics."""

    complete: bool
    note: str | None
    as_of_ms: int


def combined(extents: Sequence[Extent], *more: str | None) -> PageExtent:
    """Combine the extents of topics with further notes; a further note says that something is missing."""
    notes = list(dict.fromkeys(note for extent in extents for note in extent.notes))
    notes += [note for note in more if note]
    return PageExtent(
        not notes and all(extent.is_complete for extent in extents),
        "; ".join(notes) or None,
        min((extent.as_of_ms for extent in extents), default=_now_ms()),
    )


def clock(time_ms: int) -> str:
    """Return a time of day in UTC."""
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return "a time that no calendar has"


def _sentence(error: TopicsError) -> str:
    return str(error) if error.hint is None else f"{error} ({error.hint})"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
