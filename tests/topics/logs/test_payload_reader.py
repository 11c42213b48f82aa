"""PayloadReader on a real broker: whole payloads of several chunks, looked for by hash, resumed, refused."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from culm_models.bamboo.checks import check_payload
from culm_models.bamboo.entry import decode_entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.keys import KeyPair
from culm_topics.errors import PayloadTooLarge, RecordError, TopicsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer, LogEntry
from culm_topics.logs.payload_chunks import PayloadAssembly, cut_payload
from culm_topics.logs.payload_reader import PayloadReader
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    FragmentRecord,
    LogRecord,
    PayloadChunkRecord,
    fragment_key,
    fragment_partition,
    payload_chunk_key,
    payload_partition,
)
from culm_topics.records import key_partition, log_key
from culm_topics.records.chunks import ChunkAssembly
from tests.support.kafka.failing_client import FailsOnce
from tests.support.kafka.topic_io import write_records
from tests.support.p2panda.log_topic import new_sparse_topics

pytestmark = pytest.mark.kafka

PARTITIONS = 3
LARGE = random.Random(1).randbytes(5 * PAYLOAD_CHUNK_BYTES + 7)
SMALL, OTHER = b"small", b"other"


def write(settings: KafkaSettings, *payloads: bytes, only: Iterable[int] | None = None) -> None:
    """Each payload's chunks, or those of these numbers, where they belong."""
    for payload in payloads:
        payload_hash = YAMF.hash(payload)
        partition = payload_partition(payload_hash, PARTITIONS)
        write_records(
            settings,
            "payloads",
            [
                (partition, key, record.encode())
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


@pytest.mark.parametrize("call", [1, 4, 7])
def test_a_chunk_that_the_disk_cannot_take_is_taken_later(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    write(settings, SMALL, LARGE, OTHER)
    full = FailsOnce(ChunkAssembly._put, OSError("no space left on device"), call)
    monkeypatch.setattr(ChunkAssembly, "_put", full)
    read: list[bytes] = []
    with PayloadReader(settings, stop_at_end=True) as reader:
        while not reader.finished:
            try:
                read.extend(contents([payload])[0] for payload in reader)
            except OSError:
                positions = reader.positions()
        assert sum(positions.values()) < sum(reader.positions().values())
    assert sorted(read) == sorted([SMALL, LARGE, OTHER])


def test_what_is_refused_is_counted_told_and_costs_only_itself(settings: KafkaSettings) -> None:
    forged = payload_chunk_key(YAMF.hash(SMALL), 0)
    partition = payload_partition(YAMF.hash(SMALL), PARTITIONS)
    write_records(
        settings,
        "payloads",
        [
            (partition, b"poison", b"\x80"),
            (partition, forged, b"\x80"),
            (partition, forged, PayloadChunkRecord(5, 0, b"smalk").encode()),
            (partition, forged, PayloadChunkRecord(9, 0, b"too large").encode()),
            (partition, forged, None),
        ],
    )
    write(settings, SMALL)
    problems: list[TopicsError] = []
    with PayloadReader(settings, stop_at_end=True, max_payload_bytes=8, on_problem=problems.append) as reader:
        assert contents(reader) == [SMALL]
        assert reader.passed_over.records == 4
        assert [error.code for error in problems] == [
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


# A bare log with a large payload, as edges write it: the consumer names it, the payload reader has it.


AUTHOR = KeyPair.generate(bytes(32))
KEY = log_key(AUTHOR.public_key, 0, YAMF)
BARE_PAYLOAD = random.Random(2).randbytes(4 * PAYLOAD_CHUNK_BYTES + 1)
PAYLOADS = [b"one", BARE_PAYLOAD, b"", b"four"]


def signed_log() -> list[bytes]:
    """The entries of `PAYLOADS`."""
    entries: list[bytes] = []
    for number, payload in enumerate(PAYLOADS, 1):
        backlink = YAMF.hash(entries[-1]) if entries else None
        skiplink = YAMF.hash(entries[lipmaa(number) - 1]) if needs_skiplink(number) else None
        entries.append(
            sign_entry(AUTHOR, 0, number, payload, backlink=backlink, skiplink=skiplink, flavour=YAMF)
        )
    return entries


def write_fragments(settings: KafkaSettings, entries: list[bytes], *numbers: int) -> None:
    partition = fragment_partition(KEY, PARTITIONS)
    records = []
    for number in numbers:
        entry = entries[number - 1]
        records.append(
            (partition, fragment_key(KEY, number), FragmentRecord(entry, YAMF.hash(entry)).encode())
        )
    write_records(settings, "fragments", records)


def write_log(settings: KafkaSettings, entries: list[bytes]) -> None:
    partition = key_partition(KEY, PARTITIONS)
    records = [
        LogRecord(number, entry, b"" if payload is BARE_PAYLOAD else payload, YAMF.hash(entry), "")
        for number, (entry, payload) in enumerate(zip(entries, PAYLOADS, strict=True), 1)
    ]
    write_records(settings, "logs", [(partition, KEY, record.encode()) for record in records])


def payload_of(entry: LogEntry, reader: PayloadReader) -> bytes | None:
    """Where it is: beside the entry, or in the other topic."""
    if entry.payload is not None:
        return entry.payload
    payload = reader.fetch(entry.entry().payload_hash)
    if payload is None:
        return None
    with payload:
        return payload.read()


def test_a_fragment_is_proved_its_payload_found_and_the_log_goes_on(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap, partitions=PARTITIONS)
    entries = signed_log()
    write_fragments(settings, entries, 1, 4)
    with LogConsumer(settings, sparse=True, strict=True) as consumer, PayloadReader(settings) as reader:
        fragments = [consumer.poll(30), consumer.poll(30)]
        assert [
            fragment and (fragment.seq_num, fragment.is_sparse, fragment.payload) for fragment in fragments
        ] == [
            (1, True, None),
            (4, True, None),
        ]
        standing = consumer.coverage((AUTHOR.public_key, 0), YAMF)
        assert standing.missing == ((2, 4),) and standing.is_provable(4)
        assert payload_of(fragments[1], reader) is None  # type: ignore[arg-type]
        payload_hash = YAMF.hash(BARE_PAYLOAD)
        write_records(
            settings,
            "payloads",
            [
                (payload_partition(payload_hash, PARTITIONS), key, record.encode())
                for key, record in cut_payload(payload_hash, len(BARE_PAYLOAD), [BARE_PAYLOAD])
            ],
        )
        write_log(settings, entries)
        for number, payload in enumerate(PAYLOADS, 1):
            entry = consumer.poll(30)
            assert entry is not None
            assert (entry.seq_num, entry.is_sparse, entry.is_bare) == (number, False, True)
            assert (entry.payload is None) == (payload is BARE_PAYLOAD)
            fetched = payload_of(entry, reader)
            assert fetched == payload
            check_payload(decode_entry(entry.entry_bytes, YAMF), fetched, YAMF)
        assert consumer.coverage((AUTHOR.public_key, 0), YAMF).missing == ()
