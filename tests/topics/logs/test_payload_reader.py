"""PayloadReader on a real broker: whole payloads of several chunks, looked for by hash, resumed, refused."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from culm_models.bamboo.hashes import YAMF, YASMF
from culm_topics.errors import PayloadTooLarge, RecordError, TopicsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.payload_chunks import PayloadAssembly, cut_payload
from culm_topics.logs.payload_reader import PayloadReader
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    PayloadChunkRecord,
    payload_chunk_key,
    payload_partition,
)
from tests.support.log_topic import new_sparse_topics
from tests.support.topic_io import write_records

pytestmark = pytest.mark.kafka

PARTITIONS = 3
LARGE = random.Random(1).randbytes(5 * PAYLOAD_CHUNK_BYTES + 7)
SMALL, OTHER = b"small", b"other"


def write(settings: KafkaSettings, *payloads: bytes, only: Iterable[int] | None = None) -> None:
    """Each payload's chunks, or those of these numbers, where they belong."""
    for payload in payloads:
        payload_hash = YAMF.hash(payload)
        place = payload_partition(payload_hash, PARTITIONS)
        write_records(
            settings,
            "payloads",
            [
                (place, key, record.encode())
                for key, record in cut_payload(payload_hash, len(payload), [payload])
                if only is None or record.index in only
            ],
        )


def contents(payloads: Iterable[PayloadAssembly]) -> list[bytes]:
    out = []
    for payload in payloads:
        with payload:
            out.append(payload.read())
    return sorted(out)


@pytest.fixture
def settings(kafka_bootstrap: str) -> KafkaSettings:
    return new_sparse_topics(kafka_bootstrap, partitions=PARTITIONS)


def test_payloads_come_whole_and_once(settings: KafkaSettings) -> None:
    write(settings, LARGE, only=[1, 3])
    write(settings, SMALL)
    write(settings, LARGE, SMALL)
    with PayloadReader(settings, stop_at_end=True) as reader:
        assert contents(reader) == sorted([LARGE, SMALL])
        assert reader.passed_over.records == 0


def test_one_payload_is_found_by_its_hash(settings: KafkaSettings) -> None:
    write(settings, OTHER, LARGE, SMALL)
    with PayloadReader(settings) as reader:
        payload = reader.fetch(YAMF.hash(LARGE))
        assert payload is not None
        with payload:
            assert (payload.payload_size, b"".join(payload.blocks())) == (len(LARGE), LARGE)
        assert reader.fetch(YASMF.hash(LARGE)) is None
        assert contents(reader.find([YAMF.hash(SMALL), YAMF.hash(OTHER), YAMF.hash(b"?")])) == [OTHER, SMALL]
        assert list(reader.find([])) == []
        with pytest.raises(RecordError):
            reader.fetch(b"no hash")


def test_a_payload_that_is_not_whole_yet_is_not_found_and_comes_when_it_is(settings: KafkaSettings) -> None:
    write(settings, LARGE, only=[0, 1, 2, 3])
    with PayloadReader(settings) as reader:
        assert reader.fetch(YAMF.hash(LARGE)) is None
        assert reader.poll(1.0) is None
        write(settings, LARGE, only=[4, 5])
        payload = reader.poll(30)
        assert payload is not None and contents([payload]) == [LARGE]


def test_reading_is_resumed_where_something_was_unfinished(settings: KafkaSettings) -> None:
    write(settings, SMALL)
    write(settings, LARGE, only=[0, 1, 2, 3])
    with PayloadReader(settings, stop_at_end=True) as reader:
        assert contents(reader) == [SMALL]
        positions = reader.positions()
    write(settings, LARGE, only=[4, 5])
    with PayloadReader(settings, stop_at_end=True, start_at=positions) as reader:
        assert LARGE in contents(reader)
        positions = reader.positions()
    with PayloadReader(settings, stop_at_end=True, start_at=positions) as reader:
        assert contents(reader) == []


def test_what_is_refused_is_counted_told_and_costs_only_itself(settings: KafkaSettings) -> None:
    forged = payload_chunk_key(YAMF.hash(SMALL), 0)
    place = payload_partition(YAMF.hash(SMALL), PARTITIONS)
    write_records(
        settings,
        "payloads",
        [
            (place, b"poison", b"\x80"),
            (place, forged, b"\x80"),
            (place, forged, PayloadChunkRecord(5, 0, b"smalk").encode()),
            (place, forged, PayloadChunkRecord(9, 0, b"too large").encode()),
            (place, forged, None),
        ],
    )
    write(settings, SMALL)
    told: list[TopicsError] = []
    with PayloadReader(settings, stop_at_end=True, max_payload_bytes=8, on_problem=told.append) as reader:
        assert contents(reader) == [SMALL]
        assert reader.passed_over.records == 4
        assert [error.code for error in told] == [
            "topics.record",
            "topics.record",
            "topics.payload_hash",
            "topics.payload_size",
        ]
        payload = reader.fetch(YAMF.hash(SMALL))
        assert payload is not None and contents([payload]) == [SMALL]


def test_a_payload_that_is_looked_for_and_too_large_is_an_error(settings: KafkaSettings) -> None:
    write(settings, OTHER)
    with PayloadReader(settings, max_payload_bytes=4) as reader, pytest.raises(PayloadTooLarge):
        reader.fetch(YAMF.hash(OTHER))
