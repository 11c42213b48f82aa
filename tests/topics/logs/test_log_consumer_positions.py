"""Where LogConsumer goes on: committed, kept in a snapshot, or read again, it neither repeats nor skips."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Message, TopicPartition

from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import AutoCommit, LogConsumer, RebuildProgress
from tests.support.p2panda.log_topic import (
    ONCE,
    REPEATED,
    Step,
    everything,
    new_log_topic,
    steps_of,
    take,
    write_steps,
)

pytestmark = pytest.mark.kafka


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
    messages: dict[tuple[int, int], Message] = {}
    client.assign([TopicPartition(settings.topic("logs"), partition, 0) for partition in (0, 1)])
    while len(messages) < 12:
        for message in client.consume(12, 5.0):
            messages[message.partition() or 0, message.offset() or 0] = message
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
        own, consumer._reader._client = consumer._reader._client, Interleaved([messages[at] for at in order])  # type: ignore[assignment]
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
        (position,) = client.committed([TopicPartition(settings.topic("logs"), 0)], timeout=30)
        return max(position.offset, 0)
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
