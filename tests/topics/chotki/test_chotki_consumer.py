"""`ChotkiConsumer` on the real broker: objects, changes, and where reading goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.tlv import record
from culm_streaming.chotki.rows import TOPICS
from culm_topics.chotki.consumer import Change, ChotkiConsumer, ClassChange, ObjectChange
from culm_topics.chotki.errors import StateFileFailed
from culm_topics.chotki.objects import ChotkiObject
from culm_topics.chotki.state_file import StateFile
from culm_topics.errors import OriginChanged, RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from tests.streaming.chotki.test_chotki_epochs import CLASS_BODY, OBJECT_BODY, Writer, entry
from tests.support.chotki.bridge import JobOnKafka, chotki_settings
from tests.support.chotki.job import ChotkiTopics
from tests.support.kafka.failing_client import FailsOnce
from tests.support.kafka.topic_io import write_records

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return chotki_settings(kafka_bootstrap, topic_prefix)


class Story:
    """A replica whose packets are on Kafka, and the job over them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._topics = ChotkiTopics()
        self.writer = Writer(10, self._topics)
        self.job = JobOnKafka(settings)
        self.cls = self.writer.publish("C", Id(0, 0), CLASS_BODY)
        self.first = self.writer.publish("O", self.cls, OBJECT_BODY)

    def merge(self) -> int:
        for (source, partition), records in self._topics.records.items():
            write_records(self._settings, TOPICS[source], [(partition, *record) for record in records])
        self._topics.records.clear()
        return self.job.run()

    def rename(self, text: str) -> Id:
        operand = record("t", b"\x02") + parse_text("S", text)[1:]
        return self.writer.publish("E", self.first, record("f", b"\x01") + record("S", operand))


def test_objects_are_there_by_class_once_an_epoch_has_them(settings: KafkaSettings) -> None:
    story = Story(settings)
    with ChotkiConsumer(settings) as consumer:
        assert consumer.load()
        assert (consumer.epoch, consumer.get(story.first)) == (0, None)
        story.merge()
        assert consumer.load()
        (object_,) = consumer.objects(story.cls)
        assert (object_.id, object_.fields) == (story.first, {"Name": "tide", "Count": 0, "Tags": {}})
        assert consumer.get(str(story.first)) == object_
        assert consumer.get("nothing") is None
        assert [each.id for each in consumer.classes()] == [Id.make(0, 1), Id.make(0, 3), story.cls]
        assert consumer.vector == story.job.job.vector
        assert consumer.poll(0.1) is None, "what was loaded is not handed out"


def test_changes_come_epoch_by_epoch_and_go_on_from_an_offset(settings: KafkaSettings) -> None:
    story = Story(settings)
    story.merge()
    with ChotkiConsumer(settings, classes=[story.cls], stop_at_end=True) as consumer:
        seen = list(consumer)
        since, origin = consumer.positions(), consumer.origin
    assert [type(change) for change in seen] == [ClassChange, ObjectChange]
    assert isinstance(seen[1], ObjectChange) and seen[1].is_new
    assert seen[1].fields == ("Name", "Count", "Tags")

    story.rename('"flood"')
    story.merge()
    story.writer.publish("C", story.cls, entry("S", "Title", 1))
    story.merge()
    with ChotkiConsumer(settings, since=since, origin=origin, stop_at_end=True) as consumer:
        object_change, class_change = consumer
        assert consumer.poll(0) is None
        assert consumer.positions() != since
    assert isinstance(object_change, ObjectChange) and not object_change.is_new
    assert (
        object_change.object.id,
        object_change.epoch,
        object_change.object.fields[object_change.fields[0]],
    ) == (story.first, 2, "flood")
    assert isinstance(class_change, ClassChange) and list(class_change.class_.fields) == [
        "Title",
        "Count",
        "Tags",
    ]


def test_positions_stay_until_an_epoch_is_handed_out(settings: KafkaSettings) -> None:
    Story(settings).merge()
    with ChotkiConsumer(settings, stop_at_end=True) as consumer:
        assert consumer.poll(10) is not None
        assert consumer.positions() == {}
        list(consumer)
        assert len(consumer.positions()) == 3


def test_changes_come_in_an_event_loop(settings: KafkaSettings) -> None:
    story = Story(settings)

    async def listen() -> list[Change]:
        async with ChotkiConsumer(settings) as consumer:
            await consumer.load_async()
            await asyncio.to_thread(story.merge)
            changes: list[Change] = []
            async for change in consumer:
                changes.append(change)
                if isinstance(change, ObjectChange) and change.object.id == story.first:
                    consumer.stop()
            return changes

    assert any(isinstance(change, ClassChange) for change in asyncio.run(listen()))


def test_a_state_dir_is_gone_on_from(settings: KafkaSettings, tmp_path: Path) -> None:
    story = Story(settings)
    story.merge()
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        before = list(consumer)
        since, origin = consumer.positions(), consumer.origin
        with pytest.raises(StateFileFailed):
            ChotkiConsumer(settings, state_dir=tmp_path)
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        assert (consumer.epoch, consumer.remaining_records()) == (1, 0), "nothing is read again"
        assert consumer.get(story.first) is not None
        assert list(consumer) == before, "without `since` everything comes, as new"
    story.rename('"flood"')
    story.merge()
    with ChotkiConsumer(
        settings, state_dir=tmp_path, since=since, origin=origin, stop_at_end=True
    ) as consumer:
        assert consumer.remaining_records() > 0
        (change,) = consumer
        assert isinstance(change, ObjectChange) and change.object["Name"] == "flood"
        assert (consumer.remaining_records(), consumer.bad_records) == (0, 0)
    with pytest.raises(StateFileFailed):
        consumer.get(story.first)


def test_a_record_that_is_none_ends_a_strict_reading(settings: KafkaSettings) -> None:
    story = Story(settings)
    write_records(settings, "chotki.state", [(0, b"none", b"of these")])
    story.merge()
    with ChotkiConsumer(settings) as consumer:
        assert consumer.load() and consumer.bad_records == 1
    with ChotkiConsumer(settings, strict=True) as consumer, pytest.raises(RecordError):
        consumer.load()


def test_positions_of_another_topic_are_refused(settings: KafkaSettings) -> None:
    with pytest.raises(OriginChanged):
        ChotkiConsumer(
            settings, since={0: 1}, origin=Origin("elsewhere", {settings.topic("chotki.state"): "x"})
        )


def _going_on(consumer: ChotkiConsumer) -> Iterator[Change]:
    """Yield what a consumer hands out to a program that goes on after each failure of the file."""
    while not consumer.finished:
        try:
            yield from consumer
        except StateFileFailed:
            continue


FULL = StateFileFailed("database or disk is full")


@pytest.mark.parametrize("call", [1, 4, 9, 14])
def test_records_that_the_file_cannot_stage_are_read_again(
    settings: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    story = Story(settings)
    story.merge()
    story.rename('"flood"')
    story.merge()
    with ChotkiConsumer(settings, stop_at_end=True) as consumer:
        expected = list(consumer)
    full = FailsOnce(StateFile.stage, FULL, call)
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        monkeypatch.setattr(StateFile, "stage", full)
        seen = list(_going_on(consumer))
        assert consumer.vector == story.job.job.vector
    assert full.has_failed
    assert _objects(seen) == _objects(expected)
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        (object_,) = consumer.objects(story.cls)
        assert object_["Name"] == "flood"


def test_a_disk_that_is_full_in_the_middle_of_an_epoch_loses_none_of_it(
    settings: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(settings)
    story.merge()
    full = FailsOnce(StateFile.apply, FULL)
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        monkeypatch.setattr(StateFile, "apply", full)
        seen = list(_going_on(consumer))
    assert full.has_failed
    assert [type(change) for change in seen if isinstance(change, ObjectChange)] == [ObjectChange]
    story.rename('"flood"')
    story.merge()
    with ChotkiConsumer(settings, state_dir=tmp_path, stop_at_end=True) as consumer:
        assert consumer.load()
        (object_,) = consumer.objects(story.cls)
        assert object_.fields == {"Name": "flood", "Count": 0, "Tags": {}}


@pytest.mark.parametrize("name", ["changed", "fields"])
@pytest.mark.parametrize("call", [1, 2, 5])
def test_changes_that_could_not_be_computed_are_handed_out_later(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    story = Story(settings)
    for _ in range(3):
        story.writer.publish("O", story.cls, OBJECT_BODY)
    story.merge()
    with ChotkiConsumer(settings, stop_at_end=True) as consumer:
        expected = list(consumer)
    assert len(expected) > 4
    fails = FailsOnce(getattr(StateFile, name), FULL, call)
    with ChotkiConsumer(settings, stop_at_end=True) as consumer:
        monkeypatch.setattr(StateFile, name, fails)
        assert list(_going_on(consumer)) == expected
    assert fails.has_failed or name == "changed"


def _objects(changes: list[Change]) -> dict[Id, ChotkiObject]:
    return {change.object.id: change.object for change in changes if isinstance(change, ObjectChange)}
