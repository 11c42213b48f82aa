"""A bare log with a large payload, as edges write it: the consumer names it, the payload reader has it."""

from __future__ import annotations

import random

import pytest

from culm_models.bamboo.checks import check_payload
from culm_models.bamboo.entry import decode_entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer, LogEntry
from culm_topics.logs.payload_chunks import cut_payload
from culm_topics.logs.payload_reader import PayloadReader
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    FragmentRecord,
    LogRecord,
    fragment_key,
    fragment_partition,
    payload_partition,
)
from culm_topics.records import key_partition, log_key
from tests.support.log_topic import new_sparse_topics
from tests.support.topic_io import write_records

pytestmark = pytest.mark.kafka

PARTITIONS = 3
AUTHOR = KeyPair.generate(bytes(32))
KEY = log_key(AUTHOR.public_key, 0, YAMF)
LARGE = random.Random(2).randbytes(4 * PAYLOAD_CHUNK_BYTES + 1)
PAYLOADS = [b"one", LARGE, b"", b"four"]


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
    place = fragment_partition(KEY, PARTITIONS)
    records = []
    for number in numbers:
        entry = entries[number - 1]
        records.append((place, fragment_key(KEY, number), FragmentRecord(entry, YAMF.hash(entry)).encode()))
    write_records(settings, "fragments", records)


def write_log(settings: KafkaSettings, entries: list[bytes]) -> None:
    place = key_partition(KEY, PARTITIONS)
    records = [
        LogRecord(number, entry, b"" if payload is LARGE else payload, YAMF.hash(entry), "")
        for number, (entry, payload) in enumerate(zip(entries, PAYLOADS, strict=True), 1)
    ]
    write_records(settings, "logs", [(place, KEY, record.encode()) for record in records])


def payload_of(entry: LogEntry, reader: PayloadReader) -> bytes | None:
    """Where it is: beside the entry, or in the other topic."""
    if entry.payload is not None:
        return entry.payload
    found = reader.fetch(entry.entry().payload_hash)
    if found is None:
        return None
    with found:
        return found.read()


def test_a_fragment_is_proved_its_payload_found_and_the_log_goes_on(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap, partitions=PARTITIONS)
    entries = signed_log()
    write_fragments(settings, entries, 1, 4)
    with LogConsumer(settings, sparse=True, strict=True) as consumer, PayloadReader(settings) as reader:
        fragments = [consumer.poll(30), consumer.poll(30)]
        assert [one and (one.seq_num, one.is_sparse, one.payload) for one in fragments] == [
            (1, True, None),
            (4, True, None),
        ]
        standing = consumer.coverage((AUTHOR.public_key, 0), YAMF)
        assert standing.missing == ((2, 4),) and standing.is_provable(4)
        assert payload_of(fragments[1], reader) is None  # type: ignore[arg-type]
        payload_hash = YAMF.hash(LARGE)
        write_records(
            settings,
            "payloads",
            [
                (payload_partition(payload_hash, PARTITIONS), key, record.encode())
                for key, record in cut_payload(payload_hash, len(LARGE), [LARGE])
            ],
        )
        write_log(settings, entries)
        for number, payload in enumerate(PAYLOADS, 1):
            entry = consumer.poll(30)
            assert entry is not None
            assert (entry.seq_num, entry.is_sparse, entry.is_bare) == (number, False, True)
            assert (entry.payload is None) == (payload is LARGE)
            found = payload_of(entry, reader)
            assert found == payload
            check_payload(decode_entry(entry.entry_bytes, YAMF), found, YAMF)
        assert consumer.coverage((AUTHOR.public_key, 0), YAMF).missing == ()
