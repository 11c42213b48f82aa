"""The checkpoint of the job `chotki`.

What waits in the checkpoint: a packet and a sync whose ground comes later, and one piece of a large operand.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.rdx import parse_text, parse_vector, write_vector
from culm_streaming.chotki.job import ChotkiJobSettings
from culm_streaming.chotki.rows import TOPICS, InputTopic
from culm_topics.chotki.records import (
    BlockVectorRecord,
    CommitRecord,
    EpochRecord,
    FieldRecord,
    RecordOrigin,
    block_partition,
    is_epoch_key,
    is_field_key,
    received,
)
from culm_topics.kafka.clients import KafkaSettings
from tests.streaming.chotki.test_chotki_epochs import edit, story
from tests.support.chotki.job import ChotkiTopics
from tests.support.freeze.job_checkpoint import PARTITIONS, JobCheckpoint
from tests.support.freeze.topics import Input, write
from tests.support.kafka.topic_io import read_all, read_rejected

_PEER = RecordOrigin(b"frozen edge".ljust(32, b"."), 0xC, 1)
_LARGE = object_key(Id.make(0xC, 2, 1), "S")


def inputs() -> tuple[list[Input], list[Input]]:
    """What comes first, and what comes later."""
    whole = ChotkiTopics(PARTITIONS)
    story(whole, 1)
    whole.packet(_PEER, Id.make(0xD, 1).pro, edit(0xD, 2, 5))
    first = {partition: list(records) for partition, records in whole.records.items()}
    at = Id.make(0xC, 2)
    vector = write_vector({0xC: at.pro})
    text = parse_text("S", '"in two pieces"')
    with patch.object(received, "MAX_PIECE_BYTES", len(text) // 2 + 1):
        whole.operand(_PEER, _LARGE, text)
    pieces = (InputTopic.FIELDS, block_partition(_LARGE, PARTITIONS))
    first[pieces] = whole.records[pieces][:1]
    whole.operand(_PEER, vector_key(at), vector)
    whole.commit(CommitRecord(_PEER, at, vector, b"", whole.ends()))
    # The commit comes before the fields of its sync.
    first[InputTopic.COMMITS, 0] = list(whole.records[InputTopic.COMMITS, 0])
    story(whole, 2)
    whole.packet(_PEER, 0, edit(0xD, 1, 4))
    later = {
        partition: records[len(first.get(partition, ())) :] for partition, records in whole.records.items()
    }
    return _rows(first), _rows(later)


def _rows(topics: dict[Any, list[tuple[bytes, bytes]]]) -> list[Input]:
    return [
        (TOPICS[source], partition, key, value)
        for (source, partition), records in topics.items()
        for key, value in records
    ]


def outcome(kafka: KafkaSettings) -> dict[str, Any]:
    """The newest of each key of `chotki.state`, but for how many epochs it took."""
    state = {key: value for key, value in read_all(kafka, "chotki.state") if key is not None}
    fields = {key: FieldRecord.decode(value).value for key, value in state.items() if is_field_key(key)}
    marks = [EpochRecord.decode(value) for key, value in state.items() if is_epoch_key(key)]
    assert len(marks) == PARTITIONS and len(set(marks)) == 1
    return {
        "fields": fields,
        "blocks": {
            key: BlockVectorRecord.decode(value).vector
            for key, value in state.items()
            if not is_field_key(key) and not is_epoch_key(key)
        },
        "vector": {f"{src:x}": f"{pro:x}" for src, pro in parse_vector(marks[0].vector).items()},
        "covered": [dict(offsets) for offsets in (marks[0].packets, marks[0].fields, marks[0].commits)],
        "rejected": [record.code for record in read_rejected(kafka)],
    }


CHECKPOINT = JobCheckpoint("chotki", ChotkiJobSettings(max_offsets_per_trigger=30), inputs, write, outcome)
