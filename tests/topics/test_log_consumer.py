"""LogConsumer on a real broker: every entry once, in order, across repeats, restarts and new partitions."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from culm_topics import admin, kafka
from culm_topics.catalogue import spec
from culm_topics.consumer import LogConsumer, RebuildProgress
from culm_topics.errors import (
    KafkaFailure,
    LogGap,
    OffsetOutOfRange,
    RecordError,
    TopicMissing,
    TopicRecreated,
)
from culm_topics.kafka import KafkaSettings
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
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
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


def test_a_gap_is_an_error(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    seen: list[Step] = []
    with LogConsumer(settings, stop_at_end=True) as consumer, pytest.raises(LogGap) as caught:
        for entry in consumer:
            seen += steps_of([entry])
    assert seen == [("a", 1), ("b", 1)]
    assert caught.value.code == "topics.gap"
    assert "entry 2 is missing" in str(caught.value)
    with LogConsumer(settings, gap_wait_seconds=0) as consumer, pytest.raises(LogGap):
        take(consumer, 3)


def test_a_log_that_does_not_begin_at_one_is_a_gap(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 2)])
    with pytest.raises(LogGap):
        everything(settings)


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
    with pytest.raises(TopicRecreated):
        LogConsumer(settings, group_id=group, state_dir=tmp_path)


def test_a_missing_topic_is_an_error(kafka_bootstrap: str) -> None:
    with pytest.raises(TopicMissing):
        LogConsumer(KafkaSettings(bootstrap=kafka_bootstrap, prefix="nowhere."))


def test_a_record_of_another_shape_is_an_error_that_names_its_place(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    client = kafka.producer(settings)
    client.produce(settings.topic("logs"), b"\x80", log_record("a", 1)[0])
    assert client.flush(30) == 0
    with pytest.raises(RecordError, match="partition 0 offset 0"):
        everything(settings)


def test_a_reader_may_begin_at_the_end(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 2)])
    with LogConsumer(settings, start="end") as consumer:
        write_steps(settings, [("a", 3), ("b", 1), ("a", 3), ("a", 4)])
        assert take(consumer, 3) == [("a", 3), ("b", 1), ("a", 4)]


def test_two_members_share_the_partitions(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap, partitions=4)
    steps = [(f"w{number}", seq_num) for seq_num in (1, 2, 3) for number in range(40)]
    write_steps(settings, steps)
    group = f"{settings.prefix}g"
    seen: list[Step] = []
    with LogConsumer(settings, group_id=group, state_dir=tmp_path / "one") as first:
        seen += take(first, 5)
        first.commit()
        with LogConsumer(settings, group_id=group, state_dir=tmp_path / "two") as second:
            deadline_s = time.monotonic() + 60
            while len(seen) < len(steps):
                assert time.monotonic() < deadline_s
                for member in (first, second):
                    entry = member.poll(0.05)
                    if entry is not None:
                        # What was not committed before a rebalance is handed out again.
                        seen += [step for step in steps_of([entry]) if step not in seen]
                        with contextlib.suppress(KafkaFailure):
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
