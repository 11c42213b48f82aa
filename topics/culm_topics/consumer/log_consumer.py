"""`LogConsumer`: every entry of the replicated logs once, each log in sequence order, without gaps.

The topic `logs` may hold repeats, also interleaved with later records, because the streaming sink is
at-least-once. The consumer drops them, also across its own restarts, and it never jumps over anything: a
missing entry, an offset out of range or a topic created anew is an error.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from culm_topics.consumer.assignment import Start
from culm_topics.consumer.entry import LogEntry, RebuildProgress
from culm_topics.consumer.reader import PartitionReader
from culm_topics.consumer.selection import Selection
from culm_topics.consumer.sequencer import Sequencer
from culm_topics.kafka import KafkaSettings

_POLL_SECONDS = 0.2


class LogConsumer:
    """Reads the replicated logs from Kafka; an iterator and an asynchronous iterator of `LogEntry`.

    `kafka`: bootstrap servers, or settings. `schema_ids`, `public_keys` and `logs` ((public_key, log_id)
    pairs) restrict what is handed out; with more than one given, an entry must fit each.

    With a `group_id` the consumer shares the partitions with the other members of its group and resumes where
    the group committed; `commit()` commits everything handed out so far. What was handed out and not
    committed is handed out again after a restart. Without a `group_id` it reads all partitions by itself and
    commits nothing; `start_at` (offsets by partition, such as an earlier `positions()`) resumes it.

    To know repeats from news after a restart, the heights of the logs must be known again. With a `state_dir`
    they are on local disk, written by `commit()`. Without one, or where another member held a partition
    before, the partition is read again up to the committed offset (`on_rebuild` is told how far it is)
    before anything is handed out. Memory: about 200 bytes for each log handed out.

    `start="end"` begins a new reader at the end of the topic; it then takes the first entry that it sees of a
    log for news, which may be a repeat of an older one. `stop_at_end` ends the iteration at the end that
    the topic had at the start. A missing entry is given `gap_wait_seconds` to turn up before it is a
    `LogGap`: a failed batch of the streaming job may leave a hole that its second run fills.

    Errors: `LogGap`, `RecordError`, `OffsetOutOfRange`, `TopicRecreated`, `TopicMissing`, `KafkaFailure`.
    Not for use by several threads or tasks at once, but for `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str,
        *,
        group_id: str | None = None,
        schema_ids: Iterable[str] | None = None,
        public_keys: Iterable[bytes] | None = None,
        logs: Iterable[tuple[bytes, int]] | None = None,
        state_dir: Path | str | None = None,
        start: Start = "beginning",
        start_at: Mapping[int, int] | None = None,
        stop_at_end: bool = False,
        gap_wait_seconds: float = 30.0,
        topic_check_seconds: float = 30.0,
        on_rebuild: Callable[[RebuildProgress], None] | None = None,
        on_revoke: Callable[[tuple[int, ...]], None] | None = None,
    ) -> None:
        if group_id is None and state_dir is not None:
            raise ValueError("state_dir goes with group_id: without commits there is nothing to resume from")
        if group_id is not None and start_at is not None:
            raise ValueError("start_at goes without group_id: a group resumes where it committed")
        settings = KafkaSettings(bootstrap=kafka) if isinstance(kafka, str) else kafka
        self._stopped = threading.Event()
        self._lock = threading.RLock()
        self._sequencer = Sequencer(
            Selection.of(schema_ids, public_keys, logs),
            gap_wait_seconds=gap_wait_seconds,
            remember_changes=state_dir is not None,
        )
        self._reader = PartitionReader(
            settings,
            self._sequencer,
            group_id=group_id,
            state_dir=None if state_dir is None else Path(state_dir),
            start=start,
            start_at=dict(start_at or {}),
            stop_at_end=stop_at_end,
            topic_check_seconds=topic_check_seconds,
            on_rebuild=on_rebuild,
            on_revoke=on_revoke,
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LogEntry:
        while not self._stopped.is_set():
            entry = self.poll(_POLL_SECONDS)
            if entry is not None:
                return entry
            if self._reader.finished:
                break
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogEntry:
        while not self._stopped.is_set():
            entry = self._take()
            if entry is not None:
                return entry
            if self._reader.finished:
                break
            await asyncio.to_thread(self._fetch, _POLL_SECONDS)
        raise StopAsyncIteration

    def poll(self, timeout_seconds: float) -> LogEntry | None:
        """The next entry, or None when none comes in time (or `stop_at_end` has come to the end)."""
        deadline_s = time.monotonic() + timeout_seconds
        while (entry := self._take()) is None:
            remaining_s = deadline_s - time.monotonic()
            if self._reader.finished or remaining_s <= 0 or self._stopped.is_set():
                return None
            self._fetch(min(remaining_s, _POLL_SECONDS))
        return entry

    def commit(self) -> None:
        """Commit everything handed out so far, for the group, and save the heights to `state_dir`.

        Returns when Kafka has it; `KafkaFailure` when it has not (a rebalance took a partition away, say):
        what is not committed is handed out again, to this member or another.
        """
        with self._lock:
            self._reader.commit()

    async def commit_async(self) -> None:
        """`commit` without blocking the event loop."""
        await asyncio.to_thread(self.commit)

    def positions(self) -> dict[int, int]:
        """By partition the offset to resume from, so that everything handed out so far is not read again."""
        with self._lock:
            return self._reader.positions()

    def remaining_records(self) -> int:
        """With `stop_at_end`: records still to be looked at, repeats and unwanted ones included."""
        with self._lock:
            return self._reader.remaining_records()

    def stop(self) -> None:
        """End the iteration before the next entry; safe from other threads and from signal handlers."""
        self._stopped.set()

    def close(self) -> None:
        """Leave the group and close the connection. Commits nothing."""
        self._stopped.set()
        with self._lock:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def _take(self) -> LogEntry | None:
        with self._lock:
            return self._reader.take()

    def _fetch(self, timeout_seconds: float) -> None:
        with self._lock:
            self._reader.fetch(timeout_seconds)
