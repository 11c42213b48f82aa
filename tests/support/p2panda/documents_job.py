"""Records of `logs` with documents of several authors, and what the job `documents` has written."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.operations.operation import encode_operation
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord
from culm_topics.p2panda.documents.record import DocumentRecord
from culm_topics.records import log_key
from tests.support.kafka.topic_io import read_all
from tests.support.p2panda.document_histories import history, reduced
from tests.support.p2panda.document_rows import assert_equal

Histories = list[list[AuthoredOperation]]


def histories(count: int, size: int, *, late: float = 0.4) -> Histories:
    """Return the operations of documents; every author keeps one log of each document."""
    return [history(seed, size, late=late) for seed in range(count)]


def in_logs(documents: Histories, seed: int) -> list[tuple[bytes, bytes]]:
    """Return the (key, value) of records of `logs`: every log in order, the logs in any order."""
    draw = random.Random(seed)
    logs: list[list[tuple[bytes, bytes]]] = []
    for number, made in enumerate(documents):
        by_author: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for added in made:
            records = by_author.setdefault(added.author, [])
            records.append((log_key(added.author, number), _record(added, len(records) + 1)))
        logs += by_author.values()
    return list(_mixed(logs, draw))


def written(kafka: KafkaSettings) -> dict[bytes, bytes]:
    """Return the latest record of each document, as readers keep them."""
    latest: dict[bytes, bytes] = {}
    for key, value in read_all(kafka, "documents"):
        assert key is not None and value is not None
        known = latest.get(key)
        if known is None or DocumentRecord.decode(value).version >= DocumentRecord.decode(known).version:
            latest[key] = value
    return latest


def assert_reduced(records: dict[bytes, bytes], documents: Iterable[list[AuthoredOperation]]) -> None:
    """Assert that the records say what the model says of each document."""
    expected = {made[0].id: made for made in documents}
    assert records.keys() == expected.keys()
    for document_id, made in expected.items():
        assert_equal(DocumentRecord.decode(records[document_id]), reduced([made], of=made))


def _record(added: AuthoredOperation, seq_num: int) -> bytes:
    operation = added.operation
    payload = encode_operation(
        operation.action, operation.schema_id, previous=operation.previous, fields=operation.fields
    )
    return LogRecord(seq_num, b"an entry", payload, added.id, operation.schema_id).encode()


def _mixed(logs: list[list[tuple[bytes, bytes]]], draw: random.Random) -> Iterator[tuple[bytes, bytes]]:
    waiting = [iter(records) for records in logs]
    while waiting:
        turn = draw.randrange(len(waiting))
        record = next(waiting[turn], None)
        if record is None:
            del waiting[turn]
        else:
            yield record
