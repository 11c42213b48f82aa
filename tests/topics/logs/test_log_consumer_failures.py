"""LogConsumer where the broker or the disk fails: a program that goes on afterwards gets every entry."""

import contextlib
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from culm_topics.errors import KafkaFailure, TopicsError
from culm_topics.logs.consumer import LogConsumer, LogEntry, assignment
from culm_topics.logs.consumer.fragments import FragmentReader
from culm_topics.readers.partitions import watermarks
from tests.support.kafka.failing_client import FailsOnce, failing_clients
from tests.support.p2panda.log_topic import (
    ONCE,
    REPEATED,
    Step,
    everything,
    new_log_topic,
    new_sparse_topics,
    steps_of,
    take,
    write_steps,
)
from tests.support.process.full_disk import leave_no_space, leave_space

pytestmark = pytest.mark.kafka


def test_a_snapshot_that_the_disk_could_not_take_costs_no_entry_later(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    group = f"{settings.prefix}g"
    logs = [str(number) for number in range(200)]
    write_steps(settings, [(name, 1) for name in (*logs, "last")])
    with LogConsumer(settings, group_id=group, state_dir=tmp_path, auto_commit=None) as consumer:
        take(consumer, 200)
        snapshot = consumer._reader._snapshot
        assert snapshot is not None
        leave_no_space(snapshot._database)
        with pytest.raises(TopicsError, match="full"):
            consumer.commit()
        leave_space(snapshot._database)
        take(consumer, 1)
        consumer.commit()
    write_steps(settings, [(name, 2) for name in logs])
    with LogConsumer(settings, group_id=group, state_dir=tmp_path, stop_at_end=True) as consumer:
        assert steps_of(consumer) == [(name, 2) for name in logs]
        assert consumer.logs_set_aside == ()


def test_a_member_leaves_its_group_even_if_the_disk_is_full(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    group = f"{settings.prefix}g"
    write_steps(settings, [(str(number), 1) for number in range(200)])
    consumer = LogConsumer(settings, group_id=group, state_dir=tmp_path)
    take(consumer, 200)
    assert consumer.poll(0) is None
    snapshot = consumer._reader._snapshot
    assert snapshot is not None
    leave_no_space(snapshot._database)
    with pytest.raises(TopicsError, match="full"):
        consumer.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        consumer._reader._client.assignment()


@pytest.mark.parametrize("kind", ["message", "call"])
def test_entries_that_came_with_an_error_of_the_broker_are_handed_out(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    with failing_clients(monkeypatch) as made, LogConsumer(settings, stop_at_end=True) as consumer:
        made[0].fails = kind
        assert _entries_of(consumer) == ONCE
        assert made[0].fails is None


@pytest.mark.parametrize("call", [1, 2])
def test_partitions_that_could_not_be_taken_over_are_taken_over_later(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    settings = new_log_topic(kafka_bootstrap, partitions=2)
    write_steps(settings, [("a", 1), ("a", 2)], partition=0)
    write_steps(settings, [("b", 1)], partition=1)
    away = FailsOnce(watermarks, KafkaFailure("the broker is away"), call)
    monkeypatch.setattr(assignment, "watermarks", away)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, stop_at_end=True) as consumer:
        assert sorted(_entries_of(consumer)) == [("a", 1), ("a", 2), ("b", 1)]
        assert consumer.positions() == {0: 2, 1: 1}
    assert away.has_failed
    assert everything(settings, group_id=group) == []


def test_fragments_of_a_partition_that_could_not_be_taken_over_are_read(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write_steps(settings, [("a", 1)])
    fails = FailsOnce(FragmentReader.add, KafkaFailure("the broker is away"))
    monkeypatch.setattr(FragmentReader, "add", fails)
    with LogConsumer(settings, group_id=f"{settings.prefix}g", sparse=True, stop_at_end=True) as consumer:
        assert _entries_of(consumer) == [("a", 1)]
    assert fails.calls > 1


def _entries_of(consumer: LogConsumer) -> list[Step]:
    """What a consumer hands out to a program that goes on after each failure of the broker."""
    entries: list[LogEntry] = []
    for _ in range(5):
        with contextlib.suppress(KafkaFailure, KafkaException):
            entries.extend(consumer)
    assert consumer.finished
    return steps_of(entries)
