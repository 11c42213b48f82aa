"""What of `chotki.state` counts, and when: epochs whose marks stand in every partition."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.rdx import parse_vector
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.records import FieldRecord, is_epoch_key, large_fields
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.state_reader import EpochStaging
from culm_topics.readers.batch import TopicMessage
from tests.streaming.chotki.test_chotki_epochs import story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.chotki.state import StateLog


@pytest.fixture(params=[False, True], ids=["whole", "in pieces"], autouse=True)
def field_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(large_fields, "MAX_WHOLE_BYTES", 20)
        monkeypatch.setattr(large_fields, "STATE_PIECE_BYTES", 8)


def epochs(count: int) -> tuple[ChotkiJob, StateLog]:
    topics = ChotkiTopics()
    job, log = ChotkiJob(topics), StateLog()
    for number in range(count):
        story(topics, number + 1)
        log.write(job.run())
    return job, log


def holds_what(job: ChotkiJob, staging: EpochStaging) -> bool:
    values = job.values()
    state = staging.state
    fields = {key for key in values if key[0] == ord("O")}
    return (
        all(value_of(state.table, key) == values[key] for key in fields)
        and state.vector == parse_vector(values[GLOBAL_VECTOR_KEY])
        and {vector_key(block): vector for block, vector in state.blocks.items()}
        == {key: parse_vector(values[key]) for key in values.keys() - fields - {GLOBAL_VECTOR_KEY}}
    )


def value_of(table: StateFile, key: bytes) -> bytes | None:
    pro = int.from_bytes(key[9:17], "big")
    fields = table.fields(Id(int.from_bytes(key[1:9], "big"), pro & ~0xFFF))
    return fields.get((pro & 0xFFF, chr(key[17])))


def test_a_fresh_state_has_the_common_objects() -> None:
    state = EpochStaging(3).state
    assert Objects(state.table).names() == {
        "Global": Id.make(0, 2),
        "Names": Id(0, 0x2001),
        "Nodes": Id(0, 0x2002),
    }
    assert (state.epoch, state.vector) == (0, {0: 0x3000})


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_epoch_counts_when_its_mark_stands_in_every_partition(order: tuple[int, ...]) -> None:
    job, log = epochs(1)
    staging = EpochStaging(3)
    assert log.read(staging, order[:2]) == []
    assert staging.state.epoch == 0
    (applied,) = log.read(staging, order[2:])
    assert (applied.epoch, staging.state.epoch, staging.waiting) == (1, 1, 0)
    assert holds_what(job, staging)


def test_what_stands_behind_the_last_common_mark_waits() -> None:
    job, log = epochs(1)
    key, value = object_key(Id.make(7, 1, 1), "S"), FieldRecord(b"0later").encode()
    for number in range(2):
        log.partitions[number].append(TopicMessage(key, value, number, 10_000, 0))
    staging = EpochStaging(3)
    log.read(staging)
    assert staging.waiting == 2
    assert holds_what(job, staging)


@pytest.mark.parametrize("compacted", [(0,), (1, 2), (0, 1, 2)])
def test_marks_that_compaction_took_are_not_waited_for(compacted: tuple[int, ...]) -> None:
    job, log = epochs(4)
    log.compact(*compacted)
    staging = EpochStaging(3)
    assert [applied.epoch for applied in log.read(staging)][-1] == 4
    assert holds_what(job, staging)
    ends = {number: records[-1].offset + 1 for number, records in enumerate(log.partitions)}
    assert staging.state.offsets == ends


def test_a_micro_batch_that_ran_again_changes_nothing() -> None:
    job, log = epochs(2)
    again = [output for output in job.written if output.partition is not None]
    log.write(again[len(again) // 2 :])
    staging = EpochStaging(3)
    seen = log.read(staging)
    assert holds_what(job, staging)
    assert all(not list(staging.state.table.changed(applied.window)) for applied in seen[2:])


def test_records_that_are_none_are_passed_over_and_counted() -> None:
    _, log = epochs(1)
    bad = [TopicMessage(b"x", b"", 0, 0, 0), TopicMessage(b"E\0\0\0\0", b"\x00", 0, 1, 0)]
    log.partitions[0] = bad + log.partitions[0]
    staging = EpochStaging(3)
    assert len(log.read(staging)) == 1
    assert staging.passed_over.records == 2
    assert all(not is_epoch_key(record.key) for record in bad[:1])


def test_the_latest_of_a_source_is_known_before_it_counts() -> None:
    job, log = epochs(2)
    staging = EpochStaging(3)
    log.read(staging)
    for src, pro in job.vector.items():
        assert staging.state.latest_of(src) >= pro


def test_a_repeat_of_the_epoch_that_counts_is_not_waited_for_in_other_partitions() -> None:
    _, log = epochs(1)
    staging = EpochStaging(3)
    assert len(log.read(staging)) == 1
    before = staging.state.store()
    first = log.partitions[0]
    again = [replace(message, offset=message.offset + len(first)) for message in first]
    assert [staging.take(message) for message in again] == [None] * len(again)
    assert staging.waiting == 0 and staging.state.offsets[0] == again[-1].offset + 1
    assert staging.state.store() == before
