"""What the job `chotki` merges and counts, without Spark: any order of any batches leads to one state."""

from __future__ import annotations

import random
from itertools import pairwise

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import delta, parse_text, parse_vector, print_text, write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_streaming.chotki.epochs import count_epoch
from culm_streaming.chotki.output_records import OutputStage
from culm_streaming.chotki.rows import EpochRows, InputTopic, Run
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.state import BLOBS
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.chotki.records import (
    CommitRecord,
    EpochRecord,
    FieldRecord,
    PacketRecord,
    RecordOrigin,
    block_partition,
    is_epoch_key,
    source_key,
    source_partition,
)
from culm_topics.records import RejectedRecord
from tests.support.chotki.job import ChotkiJob, ChotkiTopics, fields_of

NORTH = RecordOrigin(b"north".ljust(32, b"."), 0, 0)


def entry(letter: str, name: str, offset: int) -> bytes:
    stamp = record("t", bytes([2 * offset]))
    return record("T", stamp, letter.encode(), b"\0", name.encode())


CLASS_BODY = entry("S", "Name", 1) + entry("N", "Count", 2) + entry("M", "Tags", 3)
OBJECT_BODY = record("S", parse_text("S", '"tide"')) + record("N") + record("M")


class Writer:
    """A replica whose changes go to `chotki.packets`."""

    def __init__(self, src: int, topics: ChotkiTopics) -> None:
        self.replica = Replica(src)
        self._topics = topics
        self._held = 0

    def commit(self, letter: str, ref: Id, body: bytes) -> tuple[Id, bytes]:
        done = self.replica.commit(letter, ref, body, 0)
        return done.id, done.packet

    def publish(self, letter: str, ref: Id, body: bytes) -> Id:
        id, packet = self.commit(letter, ref, body)
        self._topics.packet(NORTH, self._held, packet)
        self._held = self.replica.counter
        return id

    def count(self, ref: Id, number: int) -> None:
        key = object_key(Id(ref.src, ref.pro + 2), "N")
        old = self.replica.store.get(key) or b""
        new = parse_text("N", str(int(print_text("N", old)) + number))
        operand = delta("N", old, new, src=self.replica.src)
        self.publish("E", ref, record("f", b"\x02") + record("N", operand))


def of_all(*replicas: Replica) -> dict[bytes, bytes]:
    """What a replica holds that has heard everything from these, without their own objects."""
    store = MemoryStore()
    for replica in replicas:
        store.merge((key, value, None) for key, value in replica.store.values().items())
    return store.values()


def without_own(values: dict[bytes, bytes], *sources: int) -> dict[bytes, bytes]:
    """Without the replicas' own objects, which never were packets."""
    own = {object_key(Id.make(src, 0, off), letter) for src in sources for off, letter in enumerate("YSVS")}
    return {key: value for key, value in values.items() if key not in own}


def story(topics: ChotkiTopics, seed: int) -> list[Writer]:
    """Two writers, a class, objects, and concurrent edits."""
    chance = random.Random(seed)
    ann, ben = Writer(0xA, topics), Writer(0xB, topics)
    ann.publish("C", Id(0, 0), CLASS_BODY)
    class_id = ann.replica.last_id
    objects = [ann.publish("O", class_id, OBJECT_BODY) for _ in range(4)]
    objects = [Id(object_id.src, object_id.pro & ~0xFFF) for object_id in objects]
    for _ in range(30):
        chance.choice((ann, ben)).count(chance.choice(objects), chance.randint(1, 9))
    return [ann, ben]


@settings(max_examples=40)
@given(st.integers(0, 1000), st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 9)), max_size=12))
def test_any_batches_lead_to_what_a_replica_holds(seed: int, batches: list[dict[int, int]]) -> None:
    topics = ChotkiTopics()
    writers = story(topics, seed)
    job = ChotkiJob(topics)
    input_partitions = [(source, number) for source in InputTopic for number in range(3)]
    vectors = [job.vector]
    for batch in batches:
        job.run({input_partitions[index]: limit for index, limit in batch.items()})
        vectors.append(job.vector)
    job.run()
    expected = without_own(of_all(*(writer.replica for writer in writers)), 0xA, 0xB)
    # Ben has made nothing of his own but edits, which stand in the vector of Ann's block.
    del expected[vector_key(Id(0xB, 0))]
    assert job.values() == expected
    for before, after in pairwise(vectors):
        assert all(after.get(src, 0) >= pro for src, pro in before.items())
    assert job.rejected == []


def test_a_repeat_of_everything_writes_no_field_again() -> None:
    topics = ChotkiTopics()
    story(topics, 1)
    job = ChotkiJob(topics)
    job.run()
    for input_partition, records in topics.records.items():
        topics.records[input_partition] = records * 2
    again = job.run()
    assert fields_of(again) == []
    assert {output.stage for output in again} == {OutputStage.MARKS, OutputStage.TOLD}


def test_a_new_state_begins_with_the_common_objects() -> None:
    topics = ChotkiTopics()
    Writer(0xA, topics).publish("Y", Id(0, 0), record("S", parse_text("S", '"ann"')))
    job = ChotkiJob(topics)
    job.run()
    fresh = Replica(0xC).store.values()
    common = {key for key in fresh if key[1:9] == bytes(8) and key != GLOBAL_VECTOR_KEY}
    assert {key: job.values()[key] for key in common} == {key: fresh[key] for key in common}


def edit(src: int, seq: int, number: int) -> bytes:
    body = record("f", b"\x02") + record("I", parse_text("I", str(number)))
    return write_live("E", Id.make(src, seq), Id.make(0xA, 1), body)


def test_a_packet_counts_when_what_it_builds_on_has_come() -> None:
    topics = ChotkiTopics()
    first, second = (Id.make(0xB, seq).pro for seq in (1, 2))
    topics.packet(NORTH, first, edit(0xB, 2, 5))
    job = ChotkiJob(topics)
    job.run()
    assert 0xB not in job.vector
    # It is merged all the same.
    assert FieldRecord.decode(job.state[object_key(Id.make(0xA, 1, 2), "I")]).value
    topics.packet(NORTH, 0, edit(0xB, 1, 4))
    job.run()
    assert job.vector[0xB] == second


def sync(topics: ChotkiTopics, origin: RecordOrigin, ends: int | None = None) -> CommitRecord:
    """The records of a diff that brings one field of source c; the commit is not produced."""
    at = Id.make(0xC, 1)
    topics.operand(origin, object_key(Id.make(0xC, 1, 1), "I"), parse_text("I", "7"))
    vector = write_vector({0xC: at.pro})
    topics.operand(origin, vector_key(at), vector)
    where = (
        topics.ends()
        if ends is None
        else tuple((partition, offset + ends) for partition, offset in topics.ends())
    )
    return CommitRecord(origin, at, vector, b"", where)


def test_a_sync_counts_once_all_its_fields_are_merged() -> None:
    topics = ChotkiTopics()
    origin = RecordOrigin(NORTH.edge, 0xC, 1)
    topics.commit(sync(topics, origin))
    job = ChotkiJob(topics)
    job.run({(InputTopic.COMMITS, 0): 1})
    assert 0xC not in job.vector
    job.run()
    assert job.vector[0xC] == Id.make(0xC, 1).pro
    seen = FieldRecord.decode(job.state[object_key(Id.make(0xC, 1, 1), "I")]).seen
    assert seen is None
    assert parse_vector(job.values()[vector_key(Id.make(0xC, 1))]) == {0xC: Id.make(0xC, 1).pro}


def test_what_waits_too_long_is_told_and_waited_for_no_longer() -> None:
    topics = ChotkiTopics()
    topics.packet(NORTH, Id.make(0xB, 1).pro, edit(0xB, 2, 5))
    job = ChotkiJob(topics, ChotkiStateSettings(shards=3, gap_ms=1_000))
    for seq, batch_ms in enumerate((5_000, 5_500), 1):
        job.run(batch_ms=batch_ms)
        assert job.rejected == []
        topics.packet(NORTH, 0, edit(0xD, seq, 1))
    job.run(batch_ms=6_000)
    assert [RejectedRecord.decode(rejected).code for rejected in job.rejected] == ["chotki.gap"]
    topics.packet(NORTH, 0, edit(0xB, 1, 4))
    job.run(batch_ms=7_000)
    assert job.vector[0xB] == Id.make(0xB, 1).pro


def test_what_waits_is_no_gap_before_a_job_that_stood_still_has_read_its_backlog() -> None:
    topics = ChotkiTopics()
    ground, second = (Id.make(0xB, seq).pro for seq in (1, 2))
    topics.packet(NORTH, ground, edit(0xB, 2, 5))
    job = ChotkiJob(topics)
    job.run(batch_ms=0)
    (input_partition,) = (input_partition for input_partition, records in topics.records.items() if records)
    # Its ground came ten seconds later, behind much else; the job was down then, for an hour.
    other = next(src for src in range(16, 99) if source_partition(src, 3) == input_partition[1])
    for seq in range(1, 120):
        topics.packet(NORTH, 0, edit(other, seq, 1))
    topics.packet(NORTH, 0, edit(0xB, 1, 4))
    topics.written_ms = {(input_partition, offset): 10_000 for offset in range(200)}
    for batch in range(21):
        job.run({input_partition: 6}, batch_ms=3_600_000 + 5_000 * batch)
    assert job.rejected == [] and job.vector[0xB] == second


def test_time_between_micro_batches_counts_at_most_by_half_a_gap() -> None:
    topics = ChotkiTopics()
    topics.packet(NORTH, Id.make(0xB, 1).pro, edit(0xB, 2, 5))
    job = ChotkiJob(topics, ChotkiStateSettings(shards=3, gap_ms=1_000))
    rejected_counts = []
    for seq in range(1, 4):
        job.run(batch_ms=seq * 3_600_000)
        rejected_counts.append(len(job.rejected))
        topics.packet(NORTH, 0, edit(0xD, seq, 1))
    assert rejected_counts == [0, 0, 1], "who is written to rarely is told of gaps too"


def test_what_waits_is_bounded() -> None:
    topics = ChotkiTopics()
    for src in range(16, 24):
        topics.packet(NORTH, Id.make(src, 1).pro, edit(src, 2, 5))
    job = ChotkiJob(topics, ChotkiStateSettings(shards=3, max_waiting=5))
    job.run()
    assert len(job.rejected) == 3


def test_an_epoch_says_up_to_where_everything_is_merged() -> None:
    topics = ChotkiTopics()
    story(topics, 2)
    job = ChotkiJob(topics)
    job.run()
    marks = job.marks
    assert len(marks) == 3 and len({mark.encode() for mark in marks}) == 1
    ends = {
        input_partition[1]: len(records)
        for input_partition, records in topics.records.items()
        if input_partition[0] is InputTopic.PACKETS
    }
    assert dict(marks[0].packets) == {number: end for number, end in ends.items() if end}


def test_what_waits_is_not_covered_and_comes_again_without_a_checkpoint() -> None:
    topics = ChotkiTopics()
    origin = RecordOrigin(NORTH.edge, 0xC, 1)
    topics.commit(sync(topics, origin))
    topics.packet(origin, Id.make(0xC, 1).pro, edit(0xC, 2, 5))
    job = ChotkiJob(topics)
    limits = {
        input_partition: 1
        for input_partition in topics.records
        if input_partition[0] is not InputTopic.FIELDS
    }
    job.run(limits)
    (mark, *_) = job.marks
    assert dict(mark.commits) == {0: 0} and set(dict(mark.packets).values()) == {0}
    job.restore(of_state(job))
    job.run()
    assert job.vector[0xC] == Id.make(0xC, 2).pro
    assert dict(job.marks[0].commits) == {0: 1}


def of_state(job: ChotkiJob) -> list[list[tuple[bytes, bytes]]]:
    """`chotki.state` by partition."""

    def partition_of(key: bytes) -> int:
        return int.from_bytes(key[1:], "big") if is_epoch_key(key) else block_partition(key, 3)

    return [
        [(key, value) for key, value in job.state.items() if partition_of(key) == number]
        for number in range(3)
    ]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (b"", b"", "topics.record"),
        (bytes(7) + b"\x0b", b"\x86", "topics.record"),
    ],
)
def test_what_is_no_record_is_told(key: bytes, value: bytes, code: str) -> None:
    topics = ChotkiTopics()
    topics.records[InputTopic.PACKETS, 0].append((key, value))
    job = ChotkiJob(topics)
    job.run()
    assert [RejectedRecord.decode(rejected).code for rejected in job.rejected] == [code]


def test_a_packet_that_is_none_is_told_and_nothing_of_it_is_merged() -> None:
    topics = ChotkiTopics()
    good = edit(0xB, 1, 4)
    cut = good[:1] + bytes([good[1] - 1]) + good[2:-1]
    for packet in (cut, b"\x70\x050ping", b"", record("X", b"")):
        topics.records[InputTopic.PACKETS, 0].append(
            (source_key(0xB), PacketRecord(NORTH, 0, packet).encode())
        )
    job = ChotkiJob(topics)
    job.run()
    assert len(job.rejected) == 4 and 0xB not in job.vector
    assert all(RejectedRecord.decode(rejected).code.startswith("chotki.") for rejected in job.rejected)


def test_a_large_operand_is_merged_when_its_last_piece_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culm_topics.chotki.records.received.MAX_PIECE_BYTES", 10)
    topics = ChotkiTopics()
    key = object_key(Id.make(0xC, 1, 1), "S")
    text = parse_text("S", '"a long text in many pieces"')
    topics.operand(RecordOrigin(NORTH.edge, 0xC, 1), key, text)
    job = ChotkiJob(topics)
    input_partition = next(
        input_partition
        for input_partition in topics.records
        if input_partition[0] is InputTopic.FIELDS and topics.records[input_partition]
    )
    job.run({input_partition: 2})
    assert key not in job.values()
    job.run()
    assert job.values()[key] == text


def test_an_object_that_is_said_to_be_of_two_classes_keeps_the_first_and_is_told_of() -> None:
    topics = ChotkiTopics()
    job = ChotkiJob(topics)
    object_id = Id.make(0xB, 1)
    for class_seq in (1, 2, 2):
        topics.packet(NORTH, 0, write_live("O", object_id, Id.make(0xA, class_seq), OBJECT_BODY))
    job.run()
    assert FieldRecord.decode(job.state[object_key(object_id, "O")]).value == Id.make(0xA, 1).zip()
    [refusal] = [RejectedRecord.decode(value) for value in job.rejected]
    assert (refusal.code, refusal.entry) == ("chotki.class_conflict", Id.make(0xA, 2).zip())
    assert "b-1" in refusal.detail and "a-2" in refusal.detail


def test_a_piece_is_not_covered_before_the_last_one_and_comes_again_without_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("culm_topics.chotki.records.received.MAX_PIECE_BYTES", 10)
    topics = ChotkiTopics()
    key = object_key(Id.make(0xC, 1, 1), "S")
    text = parse_text("S", '"a long text in many pieces"')
    topics.operand(RecordOrigin(NORTH.edge, 0xC, 1), key, text)
    job = ChotkiJob(topics, ChotkiStateSettings(shards=3, gap_ms=1_000))
    (input_partition,) = (input_partition for input_partition, records in topics.records.items() if records)
    job.run({input_partition: 2})
    assert dict(job.marks[0].fields) == {input_partition[1]: 0}
    job.restore(of_state(job))
    job.run()
    assert job.values()[key] == text
    assert dict(job.marks[0].fields) == {input_partition[1]: len(topics.records[input_partition])}
    # Of a session that has ended in the midst of an operand the rest is not waited for.
    topics.records[input_partition].append(topics.records[input_partition][0])
    for seq, batch_ms in enumerate((5_000, 5_500), 1):
        job.run(batch_ms=batch_ms)
        topics.packet(NORTH, 0, edit(0xD, seq, 1))
    job.run(batch_ms=6_000)
    assert dict(job.marks[0].fields) == {input_partition[1]: len(topics.records[input_partition])}


@pytest.mark.parametrize(
    ("number", "record", "rest"),
    [(1, [], []), (2, [[0, 0, 0]], []), (3, [[0, 0, 0]], [{}]), (4, [[0, 0, 0]], [{}, None])],
)
def test_what_an_earlier_format_kept_goes_on(
    number: int, record: list[list[int]], rest: list[object]
) -> None:
    state = MemoryState()
    ground, second = Id.make(0xB, 1).pro, Id.make(0xB, 2).pro
    waiting = [0xB, ground, second, [], bytes(40), 0, *record]
    state.save(BLOBS, b"E", cbor2.dumps([number, 5, {0xB: 0}, [{0: 1}, {}, {}], [waiting], *rest]))
    a_month_ms = 30 * 86_400_000
    list(count_epoch(state, EpochRows(), a_month_ms, ChotkiStateSettings(shards=1)))
    rows = EpochRows(runs=[Run(0xB, 0, ground, bytes(40), 0, 1)])
    written = list(count_epoch(state, rows, a_month_ms + 1, ChotkiStateSettings(shards=1)))
    (mark,) = [
        EpochRecord.decode(output.value or b"") for output in written if output.stage is OutputStage.MARKS
    ]
    assert mark.epoch == 7 and parse_vector(mark.vector) == {0xB: second}
