"""Lookups in `sds.index`: follows the compacted topic into a local file, for tools and connectors.

    index = SdsIndex(settings, Path("index.sqlite"))
    index.catch_up()
    rows = index.find("general", ["f3a1..."])

One thread calls `catch_up` and `poll`; lookups may come from any thread.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from culm_topics.closing import Closing
from culm_topics.errors import KafkaFailure, OffsetOutOfRange, RecordError, TopicMissing, TopicRecreated
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.admin import describe
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import SILENCE_SECONDS, TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch
from culm_topics.sds.index_file import Change, IndexFile, IndexFileFailed, Position, is_damaged
from culm_topics.sds.keys import shard_of, split_index_key
from culm_topics.sds.records import SdsIndexRecord

_Answer = TypeVar("_Answer")
_REQUEST_TIMEOUT_SECONDS = 10.0
HEAD_SIZE = 16
"""Number of messages in a channel's head: logs that differ near their ends have different heads."""


class SdsIndex(Closing):
    """The positions of channels' messages in `sds.messages`, as far as `catch_up` and `poll` have read.

    `path` is a SQLite file, kept between runs and shared between programs of one deployment. The index is
    read again if in doubt: another topic of the same name, a damaged file, offsets that the topic does not
    have. With `channels` only their partitions are read. About 250 bytes of disk per message.

    Raises `TopicMissing`, `KafkaFailure`, and `IndexFileFailed` if the file cannot be written; records that
    were not written are read again by the next `poll`, and lookups are answered meanwhile.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        path: Path,
        *,
        channels: Iterable[str] | None = None,
        topic_check_seconds: float = 30.0,
    ) -> None:
        self._settings = settings
        self._channels = None if channels is None else tuple(channels)
        self._check_seconds = topic_check_seconds
        self.goal = 0
        """Number of offsets that the last `catch_up` had to read, compacted records included."""
        self.malformed = 0
        """Number of malformed records, which are skipped."""
        self._watch, self._origin = self._look()
        self._file = IndexFile(path, self._origin)
        self._reader = TopicPartitions(settings, "sds.index")
        self._ends: dict[int, int] = {}
        self._has_begun = False
        """Whether the reader is at the positions of the file; if beginning fails, it begins again."""
        self._begin()

    def catch_up(self) -> int:
        """Read up to the present end of the topic. Returns the number of offsets passed."""
        before = sum(self._reader.positions.values())
        for _ in self.catching_up():
            pass
        return sum(self._reader.positions.values()) - before

    def catching_up(self) -> Iterator[int]:
        """Run `catch_up` step by step; yields the number of offsets left of the `goal`."""
        if not self._has_begun:
            self._begin()
        self._ends = self._reader.ends()
        self.goal = self.remaining()
        deadline_s = time.monotonic() + SILENCE_SECONDS
        while left := self.remaining():
            yield left
            self._poll(0.2)
            if self.remaining() < left:
                deadline_s = time.monotonic() + SILENCE_SECONDS
            elif time.monotonic() > deadline_s:
                raise KafkaFailure(
                    f"the broker sent nothing of {self._reader.topic} for {SILENCE_SECONDS:.0f} s"
                )

    def poll(self, timeout_seconds: float) -> int:
        """Process new records; waits at most `timeout_seconds` for the first. Returns their number."""
        try:
            self._watch.poll()
        except TopicRecreated:
            self._renew(discard=False)
        return self._poll(timeout_seconds)

    def remaining(self) -> int:
        """Return the number of offsets between the index's position and the end of `catch_up`."""
        return sum(
            max(0, end - self._reader.positions.get(partition, end)) for partition, end in self._ends.items()
        )

    def find(self, channel_id: str, message_ids: Iterable[str]) -> dict[str, SdsIndexRecord]:
        """Return the rows of these messages that are stored."""
        wanted = list(message_ids)
        return self._ask(lambda: self._file.find(channel_id, wanted), {})

    def head(self, channel_id: str, count: int = HEAD_SIZE) -> list[Position]:
        """Return (Lamport timestamp, message id) of the channel's newest messages, the newest last.

        A peer that knows all of them misses nothing at the end of the log, which no later message has named
        yet.
        """
        return self._ask(lambda: self._file.newest(channel_id, count), [])

    def page(
        self, channel_id: str, after: Position | None = None, count: int = 1_000
    ) -> list[tuple[str, SdsIndexRecord]]:
        """Return (message id, row) of the channel's next messages after `after`, in the order of its log."""
        return self._ask(lambda: self._file.page(channel_id, after, count), [])

    def count(self, channel_id: str) -> int:
        """Return the number of stored messages of the channel."""
        return self._ask(lambda: self._file.count(channel_id), 0)

    def close(self) -> None:
        """Close the file and the connection."""
        self._reader.close()
        self._file.close()

    def _look(self) -> tuple[TopicWatch, str]:
        """Return a watch of the topic, and the identity of both topics, for the index file."""
        store = self._settings.topic("sds.messages")
        watch = TopicWatch(
            self._settings, self._settings.topic("sds.index"), interval_seconds=self._check_seconds
        )
        description = describe(kafka.admin(self._settings), [store], _REQUEST_TIMEOUT_SECONDS)[store]
        if description is None:
            raise TopicMissing(f"topic {store} does not exist: create it with `culm topics create`")
        return watch, f"{watch.topic_id} {description.topic_id}"

    def _begin(self) -> None:
        self._has_begun = False
        count = self._reader.count()
        wanted = (
            range(count)
            if self._channels is None
            else sorted({shard_of(channel, count) for channel in self._channels})
        )
        starts = {partition: self._reader.range_of(partition)[0] for partition in wanted}
        try:
            self._reader.read_from(self._reached(starts))
        except OffsetOutOfRange:
            # The topic changed, although it has the same identity: a broker lost its end.
            self._ask(partial(self._file.renew, self._origin, discard=True), None)
            self._reader.read_from(self._reached(starts))
        self._has_begun = True

    def _reached(self, starts: Mapping[int, int]) -> dict[int, int]:
        """Return the offsets to read these partitions from: the file's, or the start of a new partition."""

        def reached() -> dict[int, int]:
            for partition, start in starts.items():
                self._file.begin(partition, start)
            offsets = self._file.reached()
            return {partition: offsets[partition] for partition in starts}

        # After a failure with a damaged file, the second attempt finds an empty one.
        return self._ask(reached, None) or self._ask(reached, None) or dict(starts)

    def _renew(self, *, discard: bool) -> None:
        self._has_begun = False
        self._watch, self._origin = self._look()
        self._file.renew(self._origin, discard=discard)
        self._begin()

    def _poll(self, timeout_seconds: float) -> int:
        if not self._has_begun:
            self._begin()
        before = dict(self._reader.positions)
        try:
            records = self._reader.poll(timeout_seconds)
        except OffsetOutOfRange:
            self._renew(discard=True)
            return 0
        changes: dict[int, list[tuple[int, Change]]] = {partition: [] for partition in before}
        for record in records:
            if (change := self._change(record)) is not None:
                changes[record.partition].append((record.offset, change))
        whole = True
        for partition, first in before.items():
            after = self._reader.positions[partition]
            if after > first:
                taken = partial(self._file.apply, partition, first, after, changes[partition])
                try:
                    whole &= self._ask(taken, False)
                except IndexFileFailed:
                    # Records that were read but not written are read again.
                    self._begin()
                    raise
        if not whole:
            self._begin()
        return len(records)

    def _change(self, record: TopicMessage) -> Change | None:
        try:
            channel_id, message_id = split_index_key(record.key)
            return channel_id, message_id, SdsIndexRecord.decode(record.value) if record.value else None
        except RecordError:
            self.malformed += 1
            return None

    def _ask(self, question: Callable[[], _Answer], nothing: _Answer) -> _Answer:
        """Return the file's answer, or `nothing` if the file is damaged; the next `poll` fills it again."""
        try:
            return question()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise IndexFileFailed(f"{self._file.path}: {error}") from error
            self._file.renew(self._origin, discard=True)
            return nothing
