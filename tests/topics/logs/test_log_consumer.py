"""LogConsumer on a real broker: every entry once, in order, across repeats, restarts and new partitions."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from culm_topics.catalogue.topics import spec
from culm_topics.errors import (
    LogGap,
    OffsetOutOfRange,
    OriginChanged,
    RecordError,
    TopicMissing,
    TopicRecreated,
)
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer, LogProblem
from tests.support.p2panda.log_topic import (
    ONCE,
    REPEATED,
    Step,
    author_key,
    everything,
    log_record,
    new_log_topic,
    steps_of,
    take,
    write_steps,
)
from tests.support.process.waiting import looks

pytestmark = pytest.mark.kafka


def delete_records(settings: KafkaSettings, before: int) -> None:
    client = kafka.admin(settings)
    for future in client.delete_records([TopicPartition(settings.topic("logs"), 0, before)]).values():
        future.result(30)


def delete_topic(settings: KafkaSettings) -> None:
    client = kafka.admin(settings)
    for future in client.delete_topics([settings.topic("logs")]).values():
        future.result(30)
    wait_until(lambda: not admin.list_topics(settings, [spec("logs")])[0].exists)


def add_partitions(settings: KafkaSettings, total: int) -> None:
    client = kafka.admin(settings)
    for future in client.create_partitions([NewPartitions(settings.topic("logs"), total)]).values():
        future.result(30)
    wait_until(lambda: admin.list_topics(settings, [spec("logs")])[0].partitions == total)


def wait_until(ready: Callable[[], bool]) -> None:
    for _ in looks("the broker's answer", step_s=0.02):
        if ready():
            break


def test_repeats_and_interleaved_repeats_are_dropped(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    assert everything(settings) == ONCE


def test_an_entry_carries_what_the_record_holds(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1)], schema_id="venue")
    with LogConsumer(settings, stop_at_end=True) as consumer:
        (entry,) = consumer
    assert (entry.public_key, entry.log_id, entry.seq_num) == (author_key("a"), 0, 1)
    assert (entry.schema_id, entry.operation_bytes, entry.partition, entry.offset) == (
        "venue",
        b"operation",
        0,
        0,
    )
    assert len(entry.hash) == 34
    assert entry.timestamp_ms > 0


def test_filters_restrict_what_is_handed_out(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("b", 1)], schema_id="one")
    write_steps(settings, [("c", 1), ("c", 1), ("c", 2)], schema_id="two")
    assert everything(settings, schema_ids=["two"]) == [("c", 1), ("c", 2)]
    assert everything(settings, public_keys=[author_key("a"), author_key("c")]) == [
        ("a", 1),
        ("c", 1),
        ("c", 2),
    ]
    assert everything(settings, logs=[(author_key("b"), 0)]) == [("b", 1)]
    assert everything(settings, logs=[(author_key("b"), 1)]) == []
    assert everything(settings, schema_ids=["one"], public_keys=[author_key("c")]) == []


def test_another_selection_does_not_use_the_snapshot_of_the_first(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("b", 1)])
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path, public_keys=[author_key("b")]) as consumer:
        take(consumer, 1)
        consumer.commit()
    write_steps(settings, [("a", 2), ("b", 2)])
    assert everything(settings, group_id=group, state_dir=tmp_path) == [("a", 2), ("b", 2)]


def test_a_log_that_continues_in_a_new_partition_stays_in_order(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 2)])
    with LogConsumer(settings, topic_check_seconds=0.05) as follower:
        assert take(follower, 2) == [("a", 1), ("a", 2)]
        add_partitions(settings, 2)
        write_steps(settings, [("a", 2), ("a", 3)], partition=1)
        assert take(follower, 1) == [("a", 3)]
    # Read from the start, either partition may come first.
    assert everything(settings) == [("a", 1), ("a", 2), ("a", 3)]
    write_steps(settings, [(f"n{n}", 1) for n in range(2000)] + [("z", 1)], partition=0)
    write_steps(settings, [("z", 2)], partition=1)
    seen = everything(settings)
    assert len(seen) == 2005
    assert seen.index(("z", 1)) < seen.index(("z", 2))


def test_a_group_takes_up_new_partitions(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1)])
    with LogConsumer(settings, group_id=f"{settings.prefix}g", topic_check_seconds=0.1) as consumer:
        assert take(consumer, 1) == [("a", 1)]
        add_partitions(settings, 3)
        write_steps(settings, [("b", 1)], partition=2)
        assert take(consumer, 1, timeout_seconds=60) == [("b", 1)]


def test_an_offset_out_of_range_is_an_error(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group) as consumer:
        take(consumer, 1)
        consumer.commit()
    delete_records(settings, 5)
    with pytest.raises(OffsetOutOfRange), LogConsumer(settings, group_id=group) as consumer:
        take(consumer, 1)
    with pytest.raises(OffsetOutOfRange):
        LogConsumer(settings, start_at={0: 99})


def test_a_topic_created_anew_is_an_error(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
        take(consumer, 1)
        consumer.commit()
    with LogConsumer(settings, topic_check_seconds=0.05) as follower:
        take(follower, len(ONCE))
        delete_topic(settings)
        admin.create(settings, [spec("logs")])
        write_steps(settings, REPEATED)
        with pytest.raises((TopicRecreated, TopicMissing)):
            take(follower, 1)
    (file,) = tmp_path.glob("*.sqlite")
    before = file.read_bytes()
    with pytest.raises(OriginChanged, match="deleted and created again") as caught:
        LogConsumer(settings, group_id=group, state_dir=tmp_path)
    assert file.read_bytes() == before
    assert caught.value.hint is not None and str(file) in caught.value.hint
    with pytest.raises(OriginChanged), LogConsumer(settings, start_at={0: 1}, origin=follower.origin):
        pass


def test_a_record_that_is_none_is_passed_over_counted_and_reported_with_its_place(
    kafka_bootstrap: str,
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    client = kafka.producer(settings)
    for key, value in (
        (log_record("a", 1)[0], b"\x80"),
        (b"poison", log_record("a", 1)[1]),
        (None, None),
        log_record("a", 1),
    ):
        client.produce(settings.topic("logs"), value, key)
    assert client.flush(30) == 0
    reported: list[LogProblem] = []
    with LogConsumer(settings, stop_at_end=True, on_problem=reported.append) as consumer:
        assert steps_of(consumer) == [("a", 1)]
        assert consumer.bad_records == 3
    assert [(problem.code, problem.offset) for problem in reported] == [
        ("topics.record", n) for n in range(3)
    ]
    with pytest.raises(RecordError, match="partition 0 offset 0"):
        everything(settings, strict=True)


def test_a_reader_may_begin_at_the_end(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 2)])
    with LogConsumer(settings, start="end") as consumer:
        write_steps(settings, [("a", 3), ("b", 1), ("a", 3), ("a", 4)])
        assert take(consumer, 3) == [("a", 3), ("b", 1), ("a", 4)]


def test_two_members_that_commit_each_entry_share_the_partitions_while_the_group_moves(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = new_log_topic(kafka_bootstrap, partitions=4)
    steps = [(f"w{number}", seq_num) for seq_num in (1, 2, 3) for number in range(40)]
    write_steps(settings, steps)
    group = f"{settings.prefix}g"
    seen: list[Step] = []
    with LogConsumer(settings, group_id=group, state_dir=tmp_path / "one", auto_commit=None) as first:
        seen += take(first, 5)
        first.commit()
        with LogConsumer(settings, group_id=group, state_dir=tmp_path / "two", auto_commit=None) as second:
            for _ in looks("all entries", progress=seen.__len__, step_s=0.0):
                if len(seen) >= len(steps):
                    break
                for member in (first, second):
                    entry = member.poll(0.05)
                    if entry is not None:
                        seen += steps_of([entry])
                        member.commit()
    assert sorted(seen) == sorted(steps)
    for number in range(40):
        assert [seq_num for name, seq_num in seen if name == f"w{number}"] == [1, 2, 3]


# An entry that `logs` lacks costs its own log and no other, and what only comes late is no gap.


def test_a_gap_sets_its_log_aside_and_costs_no_other(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    reported: list[LogProblem] = []
    with LogConsumer(settings, stop_at_end=True, on_problem=reported.append) as consumer:
        assert steps_of(consumer) == [("a", 1), ("b", 1)]
        assert consumer.logs_set_aside == tuple(reported)
    (problem,) = reported
    assert (problem.code, problem.log, problem.missing_seq_num) == ("topics.gap", (author_key("a"), 0), 2)
    assert (problem.partition, problem.offset) == (0, 1)
    assert "entry 2 is missing" in str(problem.error)


def test_a_strict_reader_ends_at_a_gap(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    with LogConsumer(settings, stop_at_end=True, strict=True) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        with pytest.raises(LogGap):
            next(consumer)
    with LogConsumer(settings, gap_wait_seconds=0, strict=True) as consumer, pytest.raises(LogGap):
        take(consumer, 3)


def test_a_log_that_was_set_aside_goes_on_when_the_missing_entry_comes(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    with LogConsumer(settings, gap_wait_seconds=0) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        while not consumer.logs_set_aside:
            consumer.poll(0.1)
        assert consumer.positions() == {0: 3}, "what is set aside holds no position back"
        write_steps(settings, [("a", 4), ("a", 2), ("a", 3), ("a", 4)])
        assert take(consumer, 3) == [("a", 2), ("a", 3), ("a", 4)]
        assert not consumer.logs_set_aside


@pytest.mark.parametrize("with_state", [True, False])
def test_a_log_that_was_set_aside_stays_so_across_a_restart(
    kafka_bootstrap: str, tmp_path: Path, with_state: bool
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    state_dir = tmp_path if with_state else None
    group = f"{settings.prefix}g"
    assert everything(settings, group_id=group, state_dir=state_dir) == [("a", 1), ("b", 1)]
    write_steps(settings, [("a", 4), ("b", 2)])
    assert everything(settings, group_id=group, state_dir=state_dir) == [("b", 2)]
    write_steps(settings, [("a", 2), ("a", 3)])
    assert everything(settings, group_id=group, state_dir=state_dir) == [("a", 2), ("a", 3)]


def test_a_log_that_does_not_begin_at_one_is_set_aside(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 2)])
    with LogConsumer(settings, stop_at_end=True) as consumer:
        assert steps_of(consumer) == []
        assert [problem.missing_seq_num for problem in consumer.logs_set_aside] == [1]


def test_a_hole_that_the_second_run_of_a_batch_fills_is_no_gap(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1), ("a", 1), ("a", 2), ("a", 3), ("a", 4)])
    assert everything(settings) == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 4)]
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        assert consumer.positions() == {0: 1}, "a record set aside holds the position back"
        consumer.commit()
    # b 1 was committed with the heights, although its offset is behind the committed one.
    assert everything(settings, group_id=group, state_dir=tmp_path) == [("a", 2), ("a", 3), ("a", 4)]
