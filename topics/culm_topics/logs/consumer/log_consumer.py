"""`LogConsumer`: every entry of the replicated logs once, each log in sequence order, without gaps.

The topic `logs` may hold repeats, also interleaved with later records, because the streaming sink is
at-least-once. The consumer drops them, also across its own restarts, and it never skips an entry: a log with
a missing entry is set aside, and an offset out of range or a topic created again is an error.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from culm_models.bamboo.hashes import YASMF, HashFlavour
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin
from culm_topics.logs.consumer.assignment import Start
from culm_topics.logs.consumer.commits import AutoCommit
from culm_topics.logs.consumer.entry import LogEntry, RebuildProgress, Selection
from culm_topics.logs.consumer.problems import LogProblem, Problems
from culm_topics.logs.consumer.reader import PartitionReader
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.sparse import LogCoverage, LogPosition
from culm_topics.readers.consumer import TopicConsumer
from culm_topics.records import log_key

DEFAULT_AUTO_COMMIT = AutoCommit()


class LogConsumer(TopicConsumer[LogEntry]):
    """Reads the replicated logs from Kafka; an iterator and an asynchronous iterator of `LogEntry`.

    `kafka` is bootstrap servers, or settings; without it, the cluster that the environment names (see
    `culm_topics.kafka.local`).

    `schema_ids`, `public_keys` and `logs` ((public_key, log_id) pairs) restrict which entries are handed out;
    an entry must match all that are given. Logs whose payloads are operations are handed out, and with
    `bare_logs` also logs of any other payloads, in either flavour of hashes (`LogEntry.is_bare`, `.flavour`,
    `.payload`). `schema_ids` restricts only the former, so an empty `schema_ids` with `bare_logs` selects
    bare logs alone.

    With a `group_id` the consumer shares the partitions with the other members of its group and resumes where
    the group committed. Positions are committed by `auto_commit` (by default every 1,000 entries or 5
    seconds), before a partition goes to another member, and at the end; an entry counts as handled when the
    program asks for the next one or leaves the `with` block without an error. `commit()` immediately commits
    everything handed out so far; with `auto_commit=None` nothing else commits.

    The guarantee: across the group every entry is handed out, each log in sequence order. No entry is
    repeated while members join and leave. After a kill, or if a member was unreachable for longer than
    `session.timeout.ms`, uncommitted entries are handed out again. A commit that fails because the group or
    its coordinator moves is retried for `commit_timeout_seconds`, then it is a `CommitFailed`.

    Without a `group_id` it reads all partitions by itself and commits nothing. `start_at` (offsets by
    partition, such as an earlier `positions()`) resumes it, and `origin`, taken at the same time, ensures
    that they are offsets of this topic.

    To recognise repeats after a restart, the heights of the logs must be known again. With a `state_dir` they
    are on local disk, written by `commit()`. Without one, or if another member held a partition before, the
    partition is read again up to the committed offset (`on_rebuild` receives the progress) before anything is
    handed out. Memory: about 200 bytes for each log handed out.

    `start` is where a new reader begins: at the beginning of the topic, at its `"end"`, or at offsets by
    partition (in other partitions at the end). Except at the beginning, it takes the first entry that it sees
    of a log for a new one, although it may repeat an older one. `stop_at_end` ends the iteration at the end
    that the topic had at the start; otherwise only `stop()` and errors end it.

    `sparse` (which includes `bare_logs`) reads `fragments` too: entries with gaps before them are handed out
    with `is_sparse`, once, in no order, regardless of `schema_ids`, since their schema is not known. Each is
    handed out again in its place when its log has reached it. `coverage` returns what was seen of a log and
    what is missing, `log_positions` the same for every log. Committed positions hold for both topics;
    `positions()` covers `logs` alone, so a reader without a group gets the present fragments at each start.
    About 100 bytes of memory for each run of fragments.

    A malformed record is skipped. A missing entry has `gap_wait_seconds` to arrive (a failed batch of the
    streaming job may leave a hole that its second run fills), then its log is set aside until the entry
    arrives. Both are counted (`bad_records`, `logs_set_aside`) and logged, or passed to `on_problem`; with
    `strict` they end the iteration with `RecordError` or `LogGap`.

    Raises `OffsetOutOfRange`, `OriginChanged`, `TopicRecreated`, `TopicMissing`, `CommitFailed`,
    `KafkaFailure`, each a `TopicsError` with a `code` and mostly a `hint`. Not for several threads or tasks
    at once, except `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        group_id: str | None = None,
        schema_ids: Iterable[str] | None = None,
        public_keys: Iterable[bytes] | None = None,
        logs: Iterable[tuple[bytes, int]] | None = None,
        bare_logs: bool = False,
        sparse: bool = False,
        state_dir: Path | str | None = None,
        start: Start = "beginning",
        start_at: Mapping[int, int] | None = None,
        origin: Origin | None = None,
        stop_at_end: bool = False,
        gap_wait_seconds: float = 30.0,
        topic_check_seconds: float = 30.0,
        auto_commit: AutoCommit | None = DEFAULT_AUTO_COMMIT,
        commit_timeout_seconds: float = 60.0,
        strict: bool = False,
        on_problem: Callable[[LogProblem], None] | None = None,
        on_rebuild: Callable[[RebuildProgress], None] | None = None,
        on_revoke: Callable[[tuple[int, ...]], None] | None = None,
    ) -> None:
        if group_id is None and state_dir is not None:
            raise ValueError("state_dir goes with group_id: without commits there is nothing to resume from")
        if group_id is not None and start_at is not None:
            raise ValueError(
                "start_at cannot be combined with group_id: a group resumes at its committed offsets"
            )
        settings = named_kafka(kafka)
        super().__init__()
        self._sequencer = Sequencer(
            Selection.of(schema_ids, public_keys, logs, bare_logs=bare_logs or sparse),
            Problems(on_problem, strict=strict),
            gap_wait_seconds=gap_wait_seconds,
            remember_changes=state_dir is not None,
            sparse=sparse,
        )
        self._reader = PartitionReader(
            settings,
            self._sequencer,
            group_id=group_id,
            state_dir=None if state_dir is None else Path(state_dir),
            start=start,
            start_at=dict(start_at or {}),
            origin=origin,
            stop_at_end=stop_at_end,
            topic_check_seconds=topic_check_seconds,
            auto_commit=auto_commit,
            commit_timeout_seconds=commit_timeout_seconds,
            on_rebuild=on_rebuild,
            on_revoke=on_revoke,
        )

    def poll(self, timeout_seconds: float) -> LogEntry | None:
        """Return the next entry, or None if none arrives in time (or `stop_at_end` has reached the end)."""
        self._reader.handled()
        self._commit_when_due()
        return super().poll(timeout_seconds)

    def __next__(self) -> LogEntry:
        self._reader.handled()
        return super().__next__()

    async def __anext__(self) -> LogEntry:
        self._reader.handled()
        if self._reader.commit_is_due and not self._stopped.is_set():
            await asyncio.to_thread(self._commit_when_due)
        return await super().__anext__()

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has reached the end."""
        return self._reader.finished

    def commit(self) -> None:
        """Commit everything handed out so far, for the group, and save the heights to `state_dir`.

        Returns when Kafka has stored it. Raises `CommitFailed` if that takes longer than
        `commit_timeout_seconds`, or if a partition went to another member before; uncommitted entries are
        handed out again, here or there. Partitions may come and go meanwhile.
        """
        with self._lock:
            self._reader.commit()

    async def commit_async(self) -> None:
        """Run `commit` without blocking the event loop."""
        await asyncio.to_thread(self.commit)

    def positions(self) -> dict[int, int]:
        """Return the offset to resume from, by partition; entries handed out so far are before it."""
        with self._lock:
            return self._reader.positions()

    @property
    def is_assigned(self) -> bool:
        """Whether this consumer has its assignment; in a group it may hold no partition at present."""
        return self._reader.is_assigned

    @property
    def origin(self) -> Origin:
        """The cluster and the topic to which `positions()` belong: store it with them."""
        return self._reader.origin

    @property
    def bad_records(self) -> int:
        """Number of malformed records that were skipped."""
        return self._sequencer.problems.bad_records

    @property
    def logs_set_aside(self) -> tuple[LogProblem, ...]:
        """The logs that wait for a missing entry."""
        return tuple(self._sequencer.problems.set_aside.values())

    def coverage(self, log: tuple[bytes, int], flavour: HashFlavour = YASMF) -> LogCoverage:
        """Return how far a log (public key and number) has been seen.

        With `sparse` this includes entries beyond its first gap. The result names the missing entries and
        tells whether an entry can be proved by what was seen. Logs in partitions of other members are
        unknown. Raises `RecordError`.
        """
        with self._lock:
            return self._sequencer.coverage(log_key(*log, flavour))

    def log_positions(self) -> Iterator[LogPosition]:
        """Yield this consumer's position in each log of which it has seen anything.

        The logs are in no order. Each position is current when it is yielded, so the program may continue
        reading in between. In a group it covers the partitions that this member holds, with the entries that
        the group has handed out; until `on_rebuild` has reported the end, as far as known. Fragments that are
        not remembered are counted by `fragments_not_remembered`; while it is 0, every position is exact.
        """
        with self._lock:
            keys = self._sequencer.log_keys()
        for key in keys:
            with self._lock:
                position = self._sequencer.position(key)
            if position.handed_out or position.waiting or position.missing:
                yield position

    @property
    def fragments_not_remembered(self) -> int:
        """Number of fragments for which there was no memory: positions do not include them."""
        sparse = self._sequencer.sparse
        return sparse.not_remembered if sparse is not None else 0

    def remaining_records(self) -> int:
        """Return the number of records left with `stop_at_end`, including repeats and unselected ones."""
        with self._lock:
            return self._reader.remaining_records()

    def close(self) -> None:
        """Leave the group and close the connection; with `auto_commit`, commit handled entries first."""
        super().close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._reader.handled()
        self.close()

    def _commit_when_due(self) -> None:
        with self._lock:
            self._reader.commit_when_due()

    def _take(self) -> LogEntry | None:
        return self._reader.take()

    def _fetch(self, timeout_seconds: float) -> None:
        self._reader.fetch(timeout_seconds)
        self._reader.commit_when_due()

    def _close(self) -> None:
        self._reader.close()
