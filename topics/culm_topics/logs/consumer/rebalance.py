"""Handles rebalances of a consumer's group: partitions are assigned to this member or taken from it.

Kafka reports them from within `consume` and `commit` of the client, never in between:

- assigned: reading begins at the group's committed position (`assignment`); records before it only raise
  the heights of logs.
- revoked: the program is informed (`on_revoke`), handled entries are committed, so that the next member
  continues after them, and all state of the partition is dropped.
- lost: as revoked, but without a commit, because the group has continued without this member.

If handling one fails, `consume` raises the error after it has kept the records that were fetched, and
partitions that could not be taken over are taken over by a later call.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from culm_topics.logs.consumer.commits import CommitPosition, Commits
from culm_topics.readers.batch import Partition


class GroupMember(Protocol):
    """The reader whose partitions come and go."""

    def take_over(self, partitions: Sequence[int]) -> None:
        """Begin to read these partitions."""

    def uncommitted(self) -> dict[Partition, CommitPosition]:
        """Return the positions to commit: those that have moved, up to the last handled entry."""

    def note_committed(self, done: Mapping[Partition, CommitPosition]) -> None:
        """Record the committed positions."""

    def forget(self, gone: frozenset[int]) -> None:
        """Drop these partitions, which another member holds now."""

    def consume(self, timeout_seconds: float) -> None:
        """Fetch records; Kafka reports rebalances meanwhile."""


class Rebalances:
    """Takes part in the rebalances of a group for one reader."""

    def __init__(
        self, member: GroupMember, commits: Commits, on_revoke: Callable[[tuple[int, ...]], None] | None
    ) -> None:
        self._member = member
        self._commits = commits
        self._on_revoke = on_revoke
        self._committing = False
        self._in_callback = False
        self._given_up: set[Partition] = set()
        self._failure: Exception | None = None
        self._untaken: set[int] = set()
        self._closed = False

    @property
    def untaken(self) -> frozenset[int]:
        """Partitions that this member has, but could not take over yet."""
        return frozenset(self._untaken)

    def raise_failure(self) -> None:
        """Raise the error of the last rebalance, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def take_over_again(self, client: Consumer, topic: str) -> None:
        """Take over the partitions that could not be taken over before."""
        if not self._untaken:
            return
        # The client itself has begun to read them at the group's positions.
        begun = [each for each in client.assignment() if each.partition in self._untaken]
        if begun:
            client.incremental_unassign([TopicPartition(topic, each.partition) for each in begun])
        self._member.take_over(sorted(self._untaken))
        self._untaken.clear()

    def join(self, client: Consumer, topic: str) -> None:
        """Join the group of the client as a reader of this topic."""
        client.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def commit(self) -> dict[Partition, CommitPosition]:
        """Commit everything, within the timeout and through rebalances. Raises `CommitFailed`."""
        self._given_up.clear()
        self._committing = True
        try:
            return self._commits.commit(self._member.uncommitted, self._serve)
        finally:
            self._committing = False

    def close(self) -> None:
        """Ignore Kafka's reports while the client closes."""
        self._closed = True

    def _serve(self, seconds: float) -> frozenset[Partition]:
        """Take part in a rebalance while a commit waits; returns partitions given up without a commit."""
        if self._in_callback:
            time.sleep(seconds)
        else:
            self._member.consume(seconds)
        given_up = frozenset(self._given_up)
        self._given_up.clear()
        return given_up

    def _assigned(self, _client: Any, partitions: list[TopicPartition]) -> None:
        if not self._closed:
            self._untaken.update(assigned.partition for assigned in partitions)
            with self._callback():
                self._member.take_over([assigned.partition for assigned in partitions])
                self._untaken.difference_update(assigned.partition for assigned in partitions)

    def _revoked(self, _client: Any, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, commits=self._committing or self._commits.rule is not None)

    def _lost(self, _client: Any, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, commits=False)

    def _give_up(self, partitions: list[TopicPartition], *, commits: bool) -> None:
        if self._closed:
            return
        gone = frozenset(revoked.partition for revoked in partitions)
        self._untaken -= gone
        with self._callback():
            if self._on_revoke is not None:
                self._on_revoke(tuple(sorted(gone)))
            if commits and self._commits.commit_revoked(offsets := self._member.uncommitted()):
                self._member.note_committed(offsets)
        self._given_up |= {partition for partition in self._member.uncommitted() if partition[1] in gone}
        self._member.forget(gone)

    @contextmanager
    def _callback(self) -> Iterator[None]:
        self._in_callback = True
        try:
            yield
        except Exception as error:
            # If it were raised here, the client would drop the records that it has just fetched.
            self._failure = self._failure or error
        finally:
            self._in_callback = False
