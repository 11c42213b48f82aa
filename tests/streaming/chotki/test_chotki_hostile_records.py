"""What somebody writes to the job's topics that is none of theirs is refused, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from culm_models.chotki import errors
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.rdx import parse_text, write_vector
from culm_topics.chotki.records import (
    BlockVectorRecord,
    CommitRecord,
    FieldRecord,
    RecordOrigin,
    is_field_key,
)
from culm_topics.records import RejectedRecord
from tests.streaming.chotki.test_chotki_epochs import NORTH, story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics, Place

Records = Mapping[Place, Sequence[tuple[bytes, bytes]]]
CODES = {"topics.record", "chotki.gap", "chotki.class_conflict", "chotki.unique_duplicate"} | {
    value.code
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, ChotkiError)
}
BATCH = 50


def sound() -> Records:
    """Packets, and a sync of every type of field."""
    topics = ChotkiTopics()
    story(topics, 1)
    origin = RecordOrigin(NORTH.edge, 0xC, 1)
    texts = {"I": "7", "S": '"x"', "N": "5", "Z": "-5", "E": "{a,1}", "M": '{a:"b"}', "V": "a-1", "F": "1.5"}
    for number, (letter, text) in enumerate(texts.items(), 1):
        topics.operand(origin, object_key(Id.make(0xC, 1, number), letter), parse_text(letter, text))
    at = Id.make(0xC, 1)
    vector = write_vector({0xC: at.pro})
    topics.operand(origin, vector_key(at), vector)
    topics.commit(CommitRecord(origin, at, vector, write_vector({0xC: 0}), topics.ends()))
    return topics.records


def changed(chance: random.Random, data: bytes) -> bytes:
    mutated = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        index = chance.randrange(len(mutated) + 1)
        match chance.randrange(3):
            case 0 if index < len(mutated):
                mutated[index] = chance.randrange(256)
            case 1:
                mutated[index:index] = chance.randbytes(chance.randrange(4))
            case _:
                del mutated[index : index + chance.randrange(4)]
    return bytes(mutated)


def take_mutations(seed: int, count: int) -> set[str]:
    """Give the job so many mutated records; the codes that it has refused them with."""
    chance = random.Random(seed)
    records = {partition: rows for partition, rows in sound().items() if rows}
    job = ChotkiJob(ChotkiTopics())
    codes: set[str] = set()
    for number in range(count):
        partition = chance.choice(tuple(records))
        key, value = chance.choice(records[partition])
        if chance.random() < 0.2:
            key = changed(chance, key)
        job.topics.records[partition].append((key, changed(chance, value)))
        if number % BATCH == BATCH - 1:
            job.run(batch_ms=number * 100)
            codes |= {RejectedRecord.decode(value).code for value in job.rejected}
            job.rejected.clear()
            job.written.clear()
        if number % 10_000 == 9_999:
            job = ChotkiJob(ChotkiTopics())
    for key, value in job.state.items():
        if is_field_key(key):
            FieldRecord.decode(value)
        elif key[:1] == b"V":
            BlockVectorRecord.decode(value)
    return codes


def test_no_mutation_of_a_record_stops_the_job() -> None:
    codes = take_mutations(0, 40_000)
    assert codes <= CODES
    assert {"topics.record", "chotki.value", "chotki.packet", "chotki.gap"} <= codes


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_mutation_of_millions_stops_the_job(seed: int) -> None:
    assert take_mutations(seed, 500_000) <= CODES


def test_what_is_refused_beside_sound_records_changes_nothing_of_them() -> None:
    chance = random.Random(1)
    mixed, whole = ChotkiTopics(), ChotkiTopics()
    for partition, records in sound().items():
        whole.records[partition] = list(records)
        for record in records:
            mixed.records[partition] += [
                (record[0], chance.randbytes(40)),
                record,
                (chance.randbytes(8), record[1][:-1]),
            ]
    # Ends of the sync's fields lie elsewhere among so many more records: they are reached all the same.
    jobs = [ChotkiJob(topics) for topics in (whole, mixed)]
    for job in jobs:
        job.run()
    assert jobs[1].rejected and not jobs[0].rejected
    assert jobs[0].values() == jobs[1].values()
