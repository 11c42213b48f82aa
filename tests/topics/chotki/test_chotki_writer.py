"""`ChotkiWriter` on the real broker, with the job between it and those who read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.tlv import record
from culm_streaming.chotki.rows import TOPICS
from culm_topics.chotki.changes import Edit, NewClass, NewObject, Plus
from culm_topics.chotki.consumer import ChotkiConsumer
from culm_topics.chotki.errors import FieldUnknown, SourceTaken, WriterAhead, WriterBroken
from culm_topics.chotki.records import PacketRecord, RecordOrigin, source_key, source_partition
from culm_topics.chotki.sources import FREE, read_sources
from culm_topics.chotki.writer import PACKETS_TOPIC, ChotkiWriter
from culm_topics.kafka.clients import KafkaSettings
from tests.streaming.chotki.test_chotki_epochs import CLASS_BODY, Writer
from tests.support.chotki.bridge import PARTITIONS, JobOnKafka, chotki_settings
from tests.support.chotki.job import ChotkiTopics
from tests.support.kafka.topic_io import read_records, write_records
from tests.support.process.groups import child

pytestmark = pytest.mark.kafka

PERSON = NewClass({"Name": "S", "Visits": "N"}, "person")


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return chotki_settings(kafka_bootstrap, topic_prefix)


def packets(settings: KafkaSettings) -> list[tuple[int, bytes | None, PacketRecord]]:
    rows = read_records(settings, PACKETS_TOPIC)
    return [(partition, key, PacketRecord.decode(value)) for partition, key, value in rows]


def fields(settings: KafkaSettings, name: str) -> Mapping[str, object]:
    with ChotkiConsumer(settings) as consumer:
        assert consumer.load()
        object_ = consumer.get(name)
        assert object_ is not None
        return object_.fields


def test_what_was_written_is_read_when_the_job_has_merged_it(settings: KafkaSettings) -> None:
    job = JobOnKafka(settings)
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        cls, ann = writer.write(PERSON, NewObject("person", {"Name": "Ann"}, "ann"))
        assert (cls, ann) == (Id.make(10, 1), Id.make(10, 3))
        job.run()
        writer.write(Edit("ann", {"Visits": Plus(1)}))
        writer.write(Edit("ann", {"Visits": Plus(1)}))
        job.run()
        with ChotkiConsumer(settings) as consumer:
            assert consumer.load()
            object_ = consumer.get("ann")
            assert object_ is not None and object_.id == ann
            assert object_.fields == {"Name": "Ann", "Visits": 2}
            assert writer.last_id is not None
            assert consumer.vector[10] == writer.last_id.pro, "it counts without a gap"
    assert job.job.rejected == []


def test_packets_lie_in_their_order_in_the_partition_of_the_source(settings: KafkaSettings) -> None:
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        writer.write(PERSON, *(NewObject("person", {"Name": str(number)}) for number in range(100)))
    stored = packets(settings)
    assert {(partition, key) for partition, key, _ in stored} == {
        (source_partition(10, PARTITIONS), source_key(10))
    }
    assert [record.after for _, _, record in stored] == sorted(record.after for _, _, record in stored)
    assert len(stored) == 103


def test_a_second_writer_is_refused_until_the_first_has_closed(settings: KafkaSettings) -> None:
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        with pytest.raises(SourceTaken, match="has a writer"):
            ChotkiWriter(settings, owner="a")
        with pytest.raises(SourceTaken, match="belongs to"):
            ChotkiWriter(settings, owner="b", source=10)
        writer.write(PERSON)
    assert read_sources(settings).holders[10].run == FREE
    with pytest.raises(WriterBroken):
        writer.write(PERSON)
    with ChotkiWriter(settings, owner="a") as writer:
        assert writer.source == 10


def test_a_writer_that_was_taken_over_writes_no_more(settings: KafkaSettings) -> None:
    with ChotkiWriter(settings, owner="a", source=10) as first:
        first.write(PERSON)
        with ChotkiWriter(settings, owner="a", take_over=True) as second:
            with pytest.raises(SourceTaken, match="taken over"):
                first.write(NewObject("person", {}))
            assert second.write(NewClass({"A": "S"})) == [Id.make(10, 3)]
            first.close()
            assert second.write(NewObject("a-3", {})) == [Id.make(10, 4)]


@pytest.mark.parametrize("merged", [True, False])
def test_a_writer_goes_on_behind_what_the_topic_holds(settings: KafkaSettings, merged: bool) -> None:
    job = JobOnKafka(settings)
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        writer.write(PERSON, NewObject("person", {}, "ann"))
        job.run()
        writer.write(Edit("ann", {"Visits": 5, "Name": "Bea"}))
        last = writer.last_id
    if merged:
        job.run()
    assert last is not None
    with ChotkiWriter(settings, owner="a") as writer:
        (id,) = writer.write(Edit("ann", {"Visits": Plus(2), "Name": "Al"}))
        assert id == Id.make(10, last.seq + 1)
    job.run()
    assert fields(settings, "ann") == {"Visits": 7, "Name": "Al"}
    assert job.job.vector[10] == id.pro


def test_a_packet_that_never_came_holds_up_nothing(settings: KafkaSettings) -> None:
    """The one behind it stands in the topic and does not count: the next writer's packet heals that."""
    job = JobOnKafka(settings)
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        writer.write(PERSON, NewObject("person", {}, "ann"))
        assert writer.last_id is not None
        lost = Id.make(10, writer.last_id.seq + 1)
    stray = Id.make(10, lost.seq + 1)
    packet = write_live("E", stray, Id.make(10, 3), record("f", b"\x01") + record("S", b"\x31\x02stray"))
    value = PacketRecord(RecordOrigin(bytes(32), 0, 0), lost.pro, packet).encode()
    write_records(settings, PACKETS_TOPIC, [(source_partition(10, PARTITIONS), source_key(10), value)])
    for merged in (False, True):
        if merged:
            job.run()
            assert job.job.vector[10] < lost.pro
        with ChotkiWriter(settings, owner="a") as writer:
            assert writer.last_id == stray, "its id is not given again, merged or not"
    with ChotkiWriter(settings, owner="a") as writer:
        (id,) = writer.write(Edit("ann", {"Visits": 1}))
    job.run()
    assert id == Id.make(10, stray.seq + 1) and job.job.vector[10] == id.pro


def test_a_refused_change_leaves_the_call_undone(settings: KafkaSettings) -> None:
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        with pytest.raises(FieldUnknown):
            writer.write(PERSON, NewObject("person", {"Nme": "x"}))
        assert packets(settings) == []
        assert writer.write(PERSON) == [Id.make(10, 1)]


def test_calls_of_an_event_loop_keep_their_order(settings: KafkaSettings) -> None:
    async def write() -> list[list[Id | None]]:
        async with await ChotkiWriter.open_async(settings, owner="a", source=10) as writer:
            first = await writer.write_async(PERSON, NewObject("person", {}, "ann"))
            several = [writer.write_async(Edit("ann", {"Visits": Plus(1)})) for _ in range(20)]
            return [first, *await asyncio.gather(*several)]

    ids_by_call = asyncio.run(write())
    assert [ids[-1] for ids in ids_by_call[1:]] == [Id.make(10, 5 + number) for number in range(20)]
    JobOnKafka(settings).run()
    assert fields(settings, "ann")["Visits"] == 20


def test_a_source_of_a_replica_elsewhere_is_refused(settings: KafkaSettings) -> None:
    topics = ChotkiTopics(PARTITIONS)
    Writer(11, topics).publish("C", Id(0, 0), CLASS_BODY)
    for (source, partition), records in topics.records.items():
        write_records(settings, TOPICS[source], [(partition, *record) for record in records])
    JobOnKafka(settings).run()
    with pytest.raises(SourceTaken, match="in use by a replica"):
        ChotkiWriter(settings, owner="a", source=11)
    assert read_sources(settings).holders == {}


def test_a_packet_that_kafka_refuses_breaks_the_writer(kafka_bootstrap: str, topic_prefix: str) -> None:
    config = {PACKETS_TOPIC: {"max.message.bytes": "1000"}}
    settings = chotki_settings(kafka_bootstrap, topic_prefix, config)
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        writer.write(PERSON)
        text = "".join(f"{number:x} " for number in range(5_000))
        with pytest.raises(WriterBroken):
            writer.write(NewObject("person", {"Name": text}))
        with pytest.raises(WriterBroken):
            writer.write(NewObject("person", {}))
    with ChotkiWriter(settings, owner="a") as writer:
        assert writer.write(NewObject("person", {})) == [Id.make(10, 3)]


def test_a_writer_far_ahead_of_the_job_waits_for_it_and_then_refuses(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    job = JobOnKafka(settings)
    with ChotkiWriter(
        settings, owner="a", source=10, state_dir=tmp_path, max_unmerged_packets=5, timeout_seconds=1
    ) as writer:
        writer.write(PERSON, NewObject("person", {}, "ann"))
        with pytest.raises(WriterAhead):
            writer.write(Edit("ann", {"Name": "Bea"}))
        job.run()
        writer.write(Edit("ann", {"Name": "Cy"}))
    with ChotkiWriter(settings, owner="a", state_dir=tmp_path) as writer:
        writer.write(Edit("ann", {"Visits": Plus(1)}))
    job.run()
    assert fields(settings, "ann") == {"Name": "Cy", "Visits": 1}


PROGRAM = """
import sys
from culm_topics.chotki.changes import Edit, Plus
from culm_topics.chotki.writer import ChotkiWriter
from culm_topics.kafka.clients import KafkaSettings

settings = KafkaSettings(bootstrap=sys.argv[1], prefix=sys.argv[2])
with ChotkiWriter(settings, owner="a", source=10) as writer:
    while True:
        print(writer.write(Edit("ann", {"Visits": Plus(1)}))[0], flush=True)
"""


def test_a_writer_that_was_killed_gave_no_id_twice_and_lost_nothing_confirmed(
    settings: KafkaSettings,
) -> None:
    job = JobOnKafka(settings)
    with ChotkiWriter(settings, owner="a", source=10) as writer:
        writer.write(PERSON, NewObject("person", {}, "ann"))
    command = [sys.executable, "-c", PROGRAM, settings.bootstrap, settings.prefix]
    for killed in (7, 23):
        # The first one merges in between, the second one begins with what no epoch has.
        if killed == 7:
            job.run()
        with child(command) as program:
            assert program.stdout is not None
            confirmed = [program.stdout.readline().strip() for _ in range(killed)]
        stored = [str(parse(record.packet).id) for _, _, record in packets(settings)]
        assert set(confirmed) <= set(stored) and len(stored) == len(set(stored))
        with pytest.raises(SourceTaken, match="has a writer"):
            ChotkiWriter(settings, owner="a")
        with ChotkiWriter(settings, owner="a", take_over=True) as writer:
            writer.write(Edit("ann", {"Visits": Plus(1)}))
            last = writer.last_id
    job.run()
    assert last is not None and job.job.vector[10] == last.pro
    # All but the source's own object, the class, the object and their names are edits.
    counted = len(packets(settings)) - 5
    assert fields(settings, "ann")["Visits"] == counted
