"""`LogConsumer`: every entry of the replicated logs once, each log in sequence order, without gaps.

The topic `logs` may hold repeats, also interleaved with later records, because the streaming sink is
at-least-once. The consumer drops them, also across its own restarts, and it never jumps over anything: a log
that lacks an entry is set aside, and an offset out of range or a topic created anew is an error.
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
from culm_topics.logs.consumer.problems import Problem, Problems
from culm_topics.logs.consumer.reader import PartitionReader
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.sparse import LogCoverage, LogPosition
from culm_topics.readers.consumer import TopicConsumer
from culm_topics.records import log_key

DEFAULT_AUTO_COMMIT = AutoCommit()


class LogConsumer(TopicConsumer[LogEntry]):
    """Reads the replicated logs from Kafka; an iterator and an asynchronous iterator of `LogEntry`.

    `kafka`: bootstrap servers, or settings. `schema_ids`, `public_keys` and `logs` ((public_key, log_id)
    pairs) restrict what is handed out; with more than one given, an entry must fit each. Logs whose payloads
    are operations are handed out, and with `bare_logs` those of any other payloads too, of either flavour of
    hashes (`LogEntry.is_bare`, `.flavour`, `.payload`); `schema_ids` restricts the former, so none and
    `bare_logs` are bare logs alone.

    `kafka` left out means the cluster that the environment names (see `culm_topics.kafka.local`).

    With a `group_id` the consumer shares the partitions with the other members of its group and resumes where
    the group committed. Positions are committed by `auto_commit` (by default every 1,000 entries or 5
    seconds), before a partition goes to another member, and at the end; an entry counts as handled when the
    program asks for the next one or leaves the `with` block without an error. `commit()` commits everything
    handed out so far at once; `auto_commit=None` leaves it at that.

    The guarantee: across the group every entry is handed out, each log in sequence order. None comes twice
    while members join and leave; after a kill, or when a member was out of reach for longer than
    `session.timeout.ms`, those come again that were not committed. A commit that fails because the group or
    its coordinator moves is tried again for `commit_timeout_seconds`, then it is a `CommitFailed`.

    Without a `group_id` it reads all partitions by itself and commits nothing; `start_at` (offsets by
    partition, such as an earlier `positions()`) resumes it, and `origin`, taken at the same time, makes sure
    that they are offsets of this topic.

    To know repeats after a restart, the heights of the logs must be known again. With a `state_dir` they
    are on local disk, written by `commit()`. Without one, or where another member held a partition
    before, the partition is read again up to the committed offset (`on_rebuild` is called with how far it is)
    before anything is handed out. Memory: about 200 bytes for each log handed out.

    `start="end"` begins a new reader at the end of the topic; it then takes the first entry that it sees of a
    log for a new one, which may be a repeat of an older one. `stop_at_end` ends the iteration at the end that
    the topic had at the start; nothing else but `stop()` and errors does.

    `sparse` (which includes `bare_logs`) reads `fragments` too: entries with gaps before them are handed out
    with `is_sparse`, once, in no order, whatever `schema_ids` says, since their schema is not known; each
    comes again in its place when its log has reached it. `coverage` says what of a log was seen and what is
    missing, `log_positions` of every log. Committed positions hold for both topics; `positions()` are of
    `logs` alone, so a reader without a group gets the fragments of now at each start. About 100 bytes of
    memory for each run of fragments.

    A record that is none is passed over. A missing entry is given `gap_wait_seconds` to turn up (a failed
    batch of the streaming job may leave a hole that its second run fills), then its log is set aside: it goes
    on when the missing entry comes. Both are counted (`bad_records`, `logs_set_aside`) and logged, or given
    to `on_problem`; with `strict` they end the iteration with `RecordError` or `LogGap`.

    Errors: `OffsetOutOfRange`, `OriginChanged`, `TopicRecreated`, `TopicMissing`, `CommitFailed`,
    `KafkaFailure`, each a `TopicsError` with a `code` and mostly a `hint`.
    Not for use by several threads or tasks at once, but for `stop()`.
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
        on_problem: Callable[[Problem], None] | None = None,
        on_rebuild: Callable[[RebuildProgress], None] | None = None,
        on_revoke: Callable[[tuple[int, ...]], None] | None = None,
    ) -> None:
        if group_id is None and state_dir is not None:
            raise ValueError("state_dir goes with group_id: without commits there is nothing to resume from")
        if group_id is not None and start_at is not None:
            raise ValueError("start_at goes without group_id: a group resumes where it committed")
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
        """Return the next entry, or None if none comes in time (or `stop_at_end` has come to the end)."""
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
        """Whether `stop_at_end` has come to the end."""
        return self._reader.finished

    def commit(self) -> None:
        """Commit everything handed out so far, for the group, and save the heights to `state_dir`.

        Returns when Kafka has it; `CommitFailed` when it has not within `commit_timeout_seconds`, or when a
        partition went to another member before: what is not committed is handed out again, here or there.
        Partitions may come and go meanwhile.
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

    @property
    def is_assigned(self) -> bool:
        """Whether the partitions are known that this consumer reads; in a group it may be none for now."""
        return self._reader.is_assigned

    @property
    def origin(self) -> Origin:
        """The cluster and the topic that `positions()` belong to: to be kept beside them."""
        return self._reader.origin

    @property
    def bad_records(self) -> int:
        """How many records were passed over because they are none."""
        return self._sequencer.problems.bad_records

    @property
    def logs_set_aside(self) -> tuple[Problem, ...]:
        """The logs that wait for a missing entry."""
        return tuple(self._sequencer.problems.set_aside.values())

    def coverage(self, log: tuple[bytes, int], flavour: HashFlavour = YASMF) -> LogCoverage:
        """How far a log (public key and number) has come here, with `sparse` also beyond its first gap.

        It names the missing entries and says whether an entry can be proved by what was seen. Of logs in
        partitions that other members hold it knows nothing. Raises `RecordError`.
        """
        with self._lock:
            return self._sequencer.coverage(log_key(*log, flavour))

    def log_positions(self) -> Iterator[LogPosition]:
        """Where this consumer is in each log of which anything came: what was handed out, what is missing.

        Logs in no order, each as it stands when its turn comes, so the program may go on reading between two
        of them. In a group: of the partitions that this member holds, with what the group has handed out of
        them; before `on_rebuild` has come to its end, as far as that is known. Fragments that are not
        remembered are counted by `fragments_not_remembered`; while that is 0 every position is exact.
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
        """How many fragments came for which there was no memory: positions do not name them."""
        sparse = self._sequencer.sparse
        return sparse.not_remembered if sparse is not None else 0

    def remaining_records(self) -> int:
        """With `stop_at_end`: records still to be looked at, repeats and unwanted ones included."""
        with self._lock:
            return self._reader.remaining_records()

    def close(self) -> None:
        """Leave the group and close the connection; with `auto_commit`, commit what was handled first."""
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
