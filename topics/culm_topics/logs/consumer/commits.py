"""Commits a group's positions: when it is due, and again while the group or its coordinator moves.

Two kinds of errors pass by themselves. Errors in `PASSING` end when a broker answers again. Errors of a group
in motion end when this member has taken part in the rebalance, for which it must poll: `serve` does this. An
error that lasts longer than the limit, or is permanent, becomes a `CommitFailed`.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from culm_topics.errors import CommitFailed
from culm_topics.readers.batch import Partition
from culm_topics.readers.broker_errors import GROUP_MOVES, PASSING

logger = logging.getLogger(__name__)

CommitPosition = tuple[int, str]
"""The next offset to hand out, and the metadata committed with it."""

_RETRY_SECONDS = 0.1
_REVOKED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class AutoCommit:
    """Commit after this many entries or this many seconds, whichever comes first.

    An entry counts as handled when the program asks for the next one, or leaves the `with` block without an
    error. So at most `entries` entries, and the current one, are handed out again after a kill.
    """

    entries: int = 1_000
    seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.entries < 1 or self.seconds <= 0:
            raise ValueError("AutoCommit needs at least one entry and some time")


class Commits:
    """Commits offsets for one group; `timeout_seconds` limits how long an error may last."""

    def __init__(
        self,
        client: Consumer,
        *,
        rule: AutoCommit | None,
        timeout_seconds: float,
    ) -> None:
        self.rule = rule
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._entries = 0
        self._due_s = 0.0
        self._failing_since_s: float | None = None
        self._begin_interval(time.monotonic())

    def count(self) -> None:
        """Count one more entry that has been handed out."""
        self._entries += 1

    def is_due(self) -> bool:
        """Whether the rule requires a commit now."""
        if self.rule is None:
            return False
        if self._failing_since_s is None and self._entries >= self.rule.entries:
            return True
        return time.monotonic() >= self._due_s

    def commit(
        self,
        positions: Callable[[], Mapping[Partition, CommitPosition]],
        serve: Callable[[float], frozenset[Partition]],
    ) -> dict[Partition, CommitPosition]:
        """Commit, with retries. Returns the committed positions. Raises `CommitFailed`.

        `positions` is called before each attempt: partitions may come and go while `serve` polls, which
        returns the partitions that were given up before they were committed.
        """
        wanted = frozenset(positions())
        deadline_s = time.monotonic() + self._timeout_seconds
        while True:
            known = {
                partition: position for partition, position in positions().items() if partition in wanted
            }
            try:
                self._attempt(known)
            except CommitFailed as error:
                if not error.passes or time.monotonic() >= deadline_s:
                    raise
                if gone := wanted & serve(_RETRY_SECONDS):
                    raise CommitFailed(
                        f"{_listed(gone)} went to another member of the group "
                        "before their positions were committed",
                        passes=False,
                    ) from error
                continue
            self._begin_interval(time.monotonic())
            return known

    def commit_when_due(self, positions: Mapping[Partition, CommitPosition]) -> bool:
        """Make one attempt.

        Returns whether it succeeded. Raises `CommitFailed` if attempts failed for too long.
        """
        now_s = time.monotonic()
        try:
            self._attempt(positions)
        except CommitFailed as error:
            if self._failing_since_s is None:
                self._failing_since_s = now_s
                logger.warning("%s; trying again", error)
            if not error.passes or now_s - self._failing_since_s > self._timeout_seconds:
                raise
            self._due_s = now_s + 1.0
            return False
        if self._failing_since_s is not None:
            logger.info("%s: positions are committed again", _listed(positions))
        self._begin_interval(now_s)
        return True

    def commit_revoked(self, positions: Mapping[Partition, CommitPosition]) -> bool:
        """Commit partitions that are being given up, within a few seconds. Returns whether it succeeded."""
        deadline_s = time.monotonic() + _REVOKED_SECONDS
        while True:
            try:
                self._attempt(positions)
            except CommitFailed as error:
                if error.passes and time.monotonic() < deadline_s:
                    time.sleep(_RETRY_SECONDS)
                    continue
                logger.warning("%s; another member gets these entries again", error)
                return False
            return True

    def _begin_interval(self, now_s: float) -> None:
        self._entries = 0
        self._failing_since_s = None
        if self.rule is not None:
            self._due_s = now_s + self.rule.seconds

    def _attempt(self, positions: Mapping[Partition, CommitPosition]) -> None:
        if not positions:
            return
        try:
            results = self._client.commit(
                offsets=[
                    TopicPartition(topic, partition, position, metadata)
                    for (topic, partition), (position, metadata) in positions.items()
                ],
                asynchronous=False,
            )
        except KafkaException as error:
            raise _failed(error.args[0], positions) from error
        for result in results or ():
            if result.error is not None:
                raise _failed(result.error, [(result.topic, result.partition)])


def _failed(error: KafkaError, partitions: Iterable[Partition]) -> CommitFailed:
    passes = error.retriable() or error.code() in PASSING or error.code() in GROUP_MOVES
    message = f"{_listed(partitions)}: positions are not committed: {error.str()}"
    return CommitFailed(message, passes=passes)


def _listed(partitions: Iterable[Partition]) -> str:
    numbers: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(str(partition))
    return "; ".join(f"{topic} partitions {', '.join(known)}" for topic, known in numbers.items())
