"""`SdsEventReader` on the real broker: each event once, each channel's in order, from where one likes."""

from __future__ import annotations

import pytest

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.event_sequence import EventGap
from culm_topics.sds.events import SdsEventReader
from culm_topics.sds.keys import channel_key, shard_of
from culm_topics.sds.records import SdsEventRecord
from tests.support.sds.topics import PARTITIONS, sds_settings, write, write_events

pytestmark = pytest.mark.kafka

HERE = "general"
NEIGHBOUR = next(
    name for name in map(str, range(99)) if shard_of(name, PARTITIONS) == shard_of(HERE, PARTITIONS)
)
ELSEWHERE = next(
    name for name in map(str, range(99)) if shard_of(name, PARTITIONS) != shard_of(HERE, PARTITIONS)
)


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "sds.events")


def events(*numbers: int, time_ms: int = 0) -> list[SdsEventRecord]:
    return [SdsEventRecord(number, "received", None, f"m{number}", time_ms) for number in numbers]


def numbers(reader: SdsEventReader) -> list[tuple[str, int]]:
    return [(channel_event.channel_id, channel_event.event.number) for channel_event in reader]


def take(reader: SdsEventReader, count: int) -> list[int]:
    """The next `count` numbers, waiting for them."""
    return [next(reader).event.number for _ in range(count)]


def test_each_event_comes_once_although_batches_were_written_twice(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 2, 3, 1, 2, 3, 4))
    write_events(settings, ELSEWHERE, events(2, 1, 2, 3))
    with SdsEventReader(settings, follow=False) as reader:
        numbered = numbers(reader)
    assert [number for channel, number in numbered if channel == HERE] == [1, 2, 3, 4]
    assert [number for channel, number in numbered if channel == ELSEWHERE] == [1, 2, 3]


def test_only_the_channels_asked_for_are_handed_out(settings: KafkaSettings) -> None:
    for channel in (HERE, NEIGHBOUR, ELSEWHERE):
        write_events(settings, channel, events(1, 2))
    with SdsEventReader(settings, [HERE], follow=False) as reader:
        assert numbers(reader) == [(HERE, 1), (HERE, 2)]


def test_a_reader_follows_until_it_is_stopped(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1))
    with SdsEventReader(settings, [HERE]) as reader:
        assert take(reader, 1) == [1]
        assert reader.at_present
        write_events(settings, HERE, events(2, 3))
        assert take(reader, 2) == [2, 3]
        reader.stop()
        assert list(reader) == []


def test_from_now_on_only_news_is_handed_out_and_a_repeat_is_none(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 2, 3))
    with SdsEventReader(settings, [HERE], start="now") as reader:
        write_events(settings, HERE, events(2, 3, 4))
        assert take(reader, 1) == [4]


def test_a_reader_goes_on_after_the_number_it_has_seen(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 2, 3, 4))
    write_events(settings, NEIGHBOUR, events(1, 2))
    with SdsEventReader(settings, [HERE, NEIGHBOUR], after={HERE: 3}, follow=False) as reader:
        assert numbers(reader) == [(HERE, 4), (NEIGHBOUR, 1), (NEIGHBOUR, 2)]
        assert dict(reader.numbers) == {HERE: 4, NEIGHBOUR: 2}


def test_with_the_time_of_the_last_event_nothing_behind_it_is_missed(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 2, 3, 4))
    with SdsEventReader(settings, [HERE], follow=False) as reader:
        written_ms = [channel_event.timestamp_ms for channel_event in reader]
    with SdsEventReader(settings, [HERE], after={HERE: 2}, since_ms=written_ms[1], follow=False) as reader:
        assert numbers(reader) == [(HERE, 3), (HERE, 4)]
    with SdsEventReader(settings, [HERE], since_ms=written_ms[-1] + 3_600_000, follow=False) as reader:
        assert numbers(reader) == []


def test_a_hole_that_a_second_run_fills_is_no_gap(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 3))
    with SdsEventReader(settings, [HERE]) as reader:
        assert take(reader, 1) == [1]
        assert reader.poll(0.5) is None
        write_events(settings, HERE, events(1, 2, 3))
        assert take(reader, 2) == [2, 3]


def test_a_missing_event_ends_a_strict_reader(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 3, 4))
    with (
        SdsEventReader(settings, [HERE], gap_wait_seconds=0.0, strict=True) as reader,
        pytest.raises(EventGap, match="event 2 is missing"),
    ):
        list(reader)


def test_a_channel_that_lacks_an_event_is_set_aside_and_the_others_go_on(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 3, 4))
    write_events(settings, NEIGHBOUR, events(1, 2))
    with SdsEventReader(settings, [HERE, NEIGHBOUR], follow=False, gap_wait_seconds=0.0) as reader:
        assert sorted(numbers(reader)) == sorted([(HERE, 1), (NEIGHBOUR, 1), (NEIGHBOUR, 2)])
        assert list(reader.channels_set_aside) == [HERE]


def test_the_end_comes_after_the_hole_has_been_judged(settings: KafkaSettings) -> None:
    write_events(settings, HERE, events(1, 3))
    with (
        SdsEventReader(settings, [HERE], follow=False, gap_wait_seconds=0.0, strict=True) as reader,
        pytest.raises(EventGap),
    ):
        list(reader)


def test_a_record_of_another_shape_is_passed_over_and_counted_with_its_place(settings: KafkaSettings) -> None:
    write(settings, "sds.events", [(HERE, channel_key(HERE), b"no event")])
    write_events(settings, HERE, events(1))
    with SdsEventReader(settings, [HERE]) as reader:
        assert take(reader, 1) == [1]
        assert reader.passed_over.records == 1
        assert "offset 0" in reader.passed_over.first[0]
