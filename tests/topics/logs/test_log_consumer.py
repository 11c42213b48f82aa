"""LogConsumer on a real broker: every entry once, in order, across repeats, restarts and new partitions."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, TopicPartition
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
from culm_topics.logs.consumer import AutoCommit, LogConsumer, Problem, RebuildProgress
from tests.support.log_topic import Step, author_key, log_record, new_log_topic, steps_of, take, write_steps

pytestmark = pytest.mark.kafka

# Two logs; a batch that was written twice, its repeats between and behind later records.
REPEATED: list[Step] = [
    ("a", 1),
    ("b", 1),
    ("a", 2),
    ("a", 1),
    ("b", 1),
    ("a", 2),
    ("a", 3),
    ("b", 2),
    ("b", 1),
    ("a", 3),
    ("a", 4),
    ("b", 2),
    ("b", 3),
]
ONCE: list[Step] = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 4), ("b", 3)]


def everything(settings: KafkaSettings, **arguments: object) -> list[Step]:
    with LogConsumer(settings, stop_at_end=True, **arguments) as consumer:  # type: ignore[arg-type]
        return steps_of(consumer)


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
    deadline_s = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


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


@pytest.mark.parametrize("with_state", [True, False])
def test_a_restart_at_any_point_neither_repeats_nor_skips(
    kafka_bootstrap: str, tmp_path: Path, with_state: bool
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    for taken in range(len(ONCE) + 1):
        group = {
            "group_id": f"{settings.prefix}restart-{taken}",
            "state_dir": tmp_path if with_state else None,
        }
        with LogConsumer(settings, **group) as consumer:  # type: ignore[arg-type]
            before = take(consumer, taken)
            # Also before the first entry: the group's position is then the beginning.
            consumer.commit()
        assert before + everything(settings, **group) == ONCE


def test_a_restart_after_every_entry_neither_repeats_nor_skips(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    seen: list[Step] = []
    for _ in ONCE:
        with LogConsumer(settings, group_id=f"{settings.prefix}g", state_dir=tmp_path) as consumer:
            seen += take(consumer, 1)
            consumer.commit()
    assert seen == ONCE


def test_what_was_not_committed_is_handed_out_again(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path, auto_commit=None) as consumer:
        take(consumer, 2)
        consumer.commit()
        take(consumer, 3)
    assert everything(settings, group_id=group, state_dir=tmp_path) == ONCE[2:]


def test_without_a_state_directory_the_partition_is_read_again(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    for state_dir, rebuilt in ((None, True), (tmp_path, False)):
        group = f"{settings.prefix}{rebuilt}"
        with LogConsumer(settings, group_id=group, state_dir=state_dir) as consumer:
            take(consumer, 4)
            consumer.commit()
        progress: list[RebuildProgress] = []
        assert (
            everything(settings, group_id=group, state_dir=state_dir, on_rebuild=progress.append) == ONCE[4:]
        )
        assert bool(progress) is rebuilt
        assert all(step.target_offset == 7 for step in progress)


class Interleaved:
    """Hands over records in an order of the test's choice."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def consume(self, _count: int, timeout: float) -> list[Message]:
        messages, self._messages = self._messages, []
        return messages

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 6

    def pause(self, _partitions: list[TopicPartition]) -> None: ...

    def resume(self, _partitions: list[TopicPartition]) -> None: ...


def test_records_put_off_while_heights_are_raised_are_not_overtaken_by_later_ones(
    kafka_bootstrap: str,
) -> None:
    settings = new_log_topic(kafka_bootstrap, partitions=2)
    for partition, name in enumerate("ab"):
        write_steps(settings, [(name, number) for number in range(1, 7)], partition=partition)
    client = kafka.consumer(settings, group_id="tests")
    found: dict[tuple[int, int], Message] = {}
    client.assign([TopicPartition(settings.topic("logs"), partition, 0) for partition in (0, 1)])
    while len(found) < 12:
        for message in client.consume(12, 5.0):
            found[message.partition() or 0, message.offset() or 0] = message
    client.close()
    with LogConsumer(settings, start_at={0: 2, 1: 2}) as consumer:
        # Partition 0 is past its heights while partition 1 is not, which comes to them between two of 0.
        order = [
            (0, 0),
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 0),
            (1, 1),
            (0, 4),
            (0, 5),
            *((1, n) for n in range(2, 6)),
        ]
        own, consumer._reader._client = consumer._reader._client, Interleaved([found[at] for at in order])  # type: ignore[assignment]
        consumer._reader._put_off._client = consumer._reader._client
        try:
            seen = take(consumer, 8)
        finally:
            consumer._reader._client = own
    assert [number for name, number in seen if name == "a"] == [3, 4, 5, 6]
    assert [number for name, number in seen if name == "b"] == [3, 4, 5, 6]


def test_a_group_that_was_set_back_gets_everything_again(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
        take(consumer, 5)
        consumer.commit()
    operator = kafka.consumer(settings, group_id=group)
    operator.commit(offsets=[TopicPartition(settings.topic("logs"), 0, 2)], asynchronous=False)
    operator.close()
    assert everything(settings, group_id=group, state_dir=tmp_path) == ONCE[2:]


def test_a_snapshot_that_lags_behind_is_caught_up(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    for state_dir, count in ((tmp_path, 2), (None, 3)):  # the second member has no directory
        with LogConsumer(settings, group_id=group, state_dir=state_dir) as consumer:
            take(consumer, count)
            consumer.commit()
    assert everything(settings, group_id=group, state_dir=tmp_path) == ONCE[5:]


def test_a_damaged_snapshot_is_rebuilt(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
        take(consumer, 4)
        consumer.commit()
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"not a database" * 100)
    assert everything(settings, group_id=group, state_dir=tmp_path) == ONCE[4:]


def test_positions_resume_a_reader_without_a_group(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    for taken in range(len(ONCE)):
        with LogConsumer(settings) as consumer:
            take(consumer, taken)
            positions = consumer.positions()
        assert everything(settings, start_at=positions) == ONCE[taken:]


def test_a_gap_sets_its_log_aside_and_costs_no_other(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    reported: list[Problem] = []
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


def test_a_missing_topic_is_an_error(kafka_bootstrap: str) -> None:
    with pytest.raises(TopicMissing):
        LogConsumer(KafkaSettings(bootstrap=kafka_bootstrap, prefix="nowhere."))


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
    reported: list[Problem] = []
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
            deadline_s = time.monotonic() + 60
            while len(seen) < len(steps):
                assert time.monotonic() < deadline_s
                for member in (first, second):
                    entry = member.poll(0.05)
                    if entry is not None:
                        seen += steps_of([entry])
                        member.commit()
    assert sorted(seen) == sorted(steps)
    for number in range(40):
        assert [seq_num for name, seq_num in seen if name == f"w{number}"] == [1, 2, 3]


async def test_asynchronous_iteration_commits_and_stops(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, REPEATED)
    group = f"{settings.prefix}g"
    seen = []
    consumer = await asyncio.to_thread(LogConsumer, settings, group_id=group)
    async with consumer:
        async for entry in consumer:
            seen.append(entry)
            if len(seen) == 3:
                await consumer.commit_async()
                consumer.stop()
    assert steps_of(seen) == ONCE[:3]
    rest = []
    async with LogConsumer(settings, group_id=group, stop_at_end=True) as again:
        async for entry in again:
            rest.append(entry)  # noqa: PERF401
    assert steps_of(rest) == ONCE[3:]


def committed(settings: KafkaSettings, group: str) -> int:
    client = kafka.consumer(settings, group_id=group)
    try:
        (found,) = client.committed([TopicPartition(settings.topic("logs"), 0)], timeout=30)
        return max(found.offset, 0)
    finally:
        client.close()


def test_positions_are_committed_every_so_many_entries_as_far_as_they_were_handled(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", number) for number in range(1, 8)])
    group = f"{settings.prefix}g"
    rule = AutoCommit(entries=3, seconds=3600)
    consumer = LogConsumer(settings, group_id=group, state_dir=tmp_path, auto_commit=rule)
    known = []
    for _ in consumer:
        known.append(committed(settings, group))
        if len(known) == 7:
            break
    # The third entry is handled when the fourth is asked for.
    assert known == [0, 0, 0, 3, 3, 3, 6]
    consumer.close()
    assert committed(settings, group) == 6, "nobody said that the last entry was handled"
    assert everything(settings, group_id=group, state_dir=tmp_path) == [("a", 7)]


def test_positions_are_committed_after_some_time_without_entries(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 2)])
    group = f"{settings.prefix}g"
    rule = AutoCommit(entries=1000, seconds=0.1)
    with LogConsumer(settings, group_id=group, auto_commit=rule) as consumer:
        take(consumer, 2)
        assert committed(settings, group) < 2
        while committed(settings, group) < 2:
            assert consumer.poll(0.2) is None


def test_leaving_the_loop_commits_and_an_error_in_it_costs_only_the_entry_at_hand(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", number) for number in range(1, 8)])
    group = f"{settings.prefix}g"

    def handle(last: int, error: Exception | None = None) -> list[Step]:
        seen: list[Step] = []
        with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
            for entry in consumer:
                seen += steps_of([entry])
                if entry.seq_num == last:
                    if error is not None:
                        raise error
                    break
        return seen

    assert handle(3) == [("a", 1), ("a", 2), ("a", 3)]
    with pytest.raises(OSError, match="disk"):
        handle(5, OSError("disk"))
    assert handle(7) == [("a", 5), ("a", 6), ("a", 7)]
