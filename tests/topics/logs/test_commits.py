"""Committing while the group or its coordinator moves: what passes is tried again, within a bound."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from culm_topics.errors import CommitFailed
from culm_topics.logs.consumer.commits import AutoCommit, CommitPosition, Commits
from culm_topics.readers.batch import Partition


class Client:
    """Answers commits with the errors it is given, then takes them."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.taken: list[dict[int, int]] = []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        self.taken.append({topic_partition.partition: topic_partition.offset for topic_partition in offsets})
        return offsets


def commits(client: Client, *, timeout_seconds: float = 60.0, rule: AutoCommit | None = None) -> Commits:
    made: Any = client
    return Commits(made, rule=rule, timeout_seconds=timeout_seconds)


POSITIONS: dict[Partition, CommitPosition] = {("logs", 0): (5, ""), ("logs", 1): (7, "")}
MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._TRANSPORT,
)


def test_errors_that_pass_are_waited_for() -> None:
    client = Client(*MOVING)
    served: list[float] = []

    def serve(seconds: float) -> frozenset[Partition]:
        served.append(seconds)
        return frozenset()

    assert commits(client).commit(lambda: POSITIONS, serve) == POSITIONS
    assert (client.taken, len(served)) == ([{0: 5, 1: 7}], len(MOVING))


def test_a_partition_that_goes_to_another_member_uncommitted_is_said() -> None:
    client = Client(KafkaError.ILLEGAL_GENERATION)
    with pytest.raises(CommitFailed, match="partitions 1 went to another member") as caught:
        commits(client).commit(lambda: POSITIONS, lambda _: frozenset({("logs", 1)}))
    assert (caught.value.code, client.taken) == ("topics.commit", [])
    assert caught.value.hint is not None


@pytest.mark.parametrize("error", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.ILLEGAL_GENERATION])
def test_what_does_not_pass_within_the_bound_is_one_error(error: int) -> None:
    with pytest.raises(CommitFailed, match="positions are not committed"):
        commits(Client(*[error] * 9), timeout_seconds=0).commit(lambda: POSITIONS, lambda _: frozenset())


def test_a_commit_that_is_due_is_tried_again_later_and_the_program_goes_on() -> None:
    client = Client(KafkaError.NOT_COORDINATOR)
    due = commits(client, rule=AutoCommit(entries=1, seconds=3600))
    assert not due.is_due()
    due.count()
    assert due.is_due()
    assert not due.commit_when_due(POSITIONS)
    assert not due.is_due(), "not before some time has passed"
    assert due.commit_when_due(POSITIONS)
    assert client.taken == [{0: 5, 1: 7}]


def test_a_commit_that_is_due_fails_for_good_when_it_is_refused() -> None:
    due = commits(Client(KafkaError.GROUP_AUTHORIZATION_FAILED), rule=AutoCommit())
    with pytest.raises(CommitFailed):
        due.commit_when_due(POSITIONS)
