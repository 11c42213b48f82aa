"""Limits of a document in the job `documents`: its state, its record, and what waits."""

from __future__ import annotations

import random

import pytest

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.operations.operation import Operation, Value
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_streaming.errors import JobSettingsError
from culm_streaming.p2panda_documents import document_state, reduction
from culm_streaming.p2panda_documents import history as pages
from culm_streaming.p2panda_documents.document_state import BLOCKS, OWN_ROWS, DocumentState
from culm_streaming.p2panda_documents.output_records import document_record
from culm_streaming.p2panda_documents.packing import MAX_NAME_BYTES
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.step import step
from culm_streaming.p2panda_documents.waiting_operations import MAX_WAITING_BYTES, WAITING
from culm_topics.p2panda.documents.record import MAX_MISSING, DocumentRecord
from culm_topics.records import RejectedRecord
from culm_topics.topic_spec import MAX_MESSAGE_BYTES
from tests.support.p2panda.document_histories import SCHEMA, history, reduced
from tests.support.p2panda.document_rows import Shard, assert_equal
from tests.support.p2panda.numbered_operations import follower, id_of_number, numbered, update_of


@pytest.mark.parametrize("size", [1, 20])
def test_an_operation_of_many_names_is_not_written_again_and_again(size: int) -> None:
    names = [f"{number:0250}" for number in range(1_000)]
    made = [numbered(0)]
    for _ in range(60):
        made.append(update_of(made[-1], dict.fromkeys(names, 1)))
    shard = Shard(made)
    for start in range(0, len(made), size):
        shard.take(made[start : start + size])
    written = shard.store.of(pages.PAGES)
    assert max(map(len, written.values())) < 2 * pages.PAGE_BYTES
    assert sum(map(len, written.values())) > 60 * 250_000
    late = follower(0, made[30].id)
    Shard([*made, late], store=shard.store).take([late])
    assert max(map(len, shard.store.of(pages.PAGES).values())) < 2 * pages.PAGE_BYTES
    assert len(shard.store.of(pages.PAGES)) == len(_only_state(shard).pages)


def test_a_change_of_one_among_many_documents_does_not_write_all_of_its_block() -> None:
    draw = random.Random(0)
    operation = Operation(1, "create", SCHEMA, None, {"a": "x" * 1_000})
    creates = [AuthoredOperation(b"\x00\x20" + draw.randbytes(32), bytes(32), operation) for _ in range(250)]
    shard = Shard(creates, DocumentsLayout(shards=1, blocks=1))
    for create in creates:
        shard.take([create], create.id)
    (block,) = shard.store.of(BLOCKS).values()
    assert len(block) < 100_000
    written = shard.store.saved_bytes
    updates = [update_of(create, {"b": 1}) for create in creates]
    shard.made = [*creates, *updates]
    for create, update in zip(creates, updates, strict=True):
        shard.take([update], create.id)
    assert shard.store.saved_bytes - written < len(updates) * 100_000
    records = {key: DocumentRecord.decode(value) for key, value in shard.records.items()}
    assert {key: [field.name for field in record.fields] for key, record in records.items()} == {
        create.id: ["a", "b"] for create in creates
    }


@pytest.mark.parametrize("seed", range(5))
def test_documents_of_a_full_block_are_those_of_the_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_state, "MAX_BLOCK_BYTES", 3_000)
    draw = random.Random(seed)
    documents = [history(10 * seed + number, 20, deletes=0.05) for number in range(6)]
    shard = Shard([added for made in documents for added in made], DocumentsLayout(shards=1, blocks=1))
    parts = [(made[0].id, made[at : at + 5]) for made in documents for at in range(0, 20, 5)]
    draw.shuffle(parts)
    for document_id, part in sorted(parts, key=lambda each: each[1][0].id != each[0]):
        shard.take(part, document_id)
    assert 0 < len(shard.store.of(OWN_ROWS)) < len(documents)
    for made in documents:
        assert_equal(DocumentRecord.decode(shard.records[made[0].id]), reduced([made], of=made))


def test_long_values_are_in_logs_only() -> None:
    create = AuthoredOperation(
        id_of_number(0), bytes(32), Operation(1, "create", SCHEMA, None, {"a": "x" * 50, "b": 1})
    )
    shard = Shard([create], DocumentsLayout(shards=1, blocks=4, max_value_bytes=50))
    shard.take([create])
    first, second = shard.document().fields
    assert (first.read(), second.read()) == (None, 1)
    assert (first.partition, first.offset) == (0, 0)


def test_the_longest_values_of_a_record_are_left_out_until_the_others_fit() -> None:
    fields: dict[str, Value] = {"a": "x" * 40, "b": "x" * 60, "c": "x" * 50}
    create = AuthoredOperation(id_of_number(0), bytes(32), Operation(1, "create", SCHEMA, None, fields))
    shard = Shard([create], DocumentsLayout(shards=1, blocks=4, max_record_bytes=100))
    shard.take([create])
    assert [field.name for field in shard.document().fields if field.value] == ["a", "c"]


def test_operations_that_wait_are_limited_and_named() -> None:
    made = history(1, 2, late=0.0)
    lost = [follower(number, id_of_number(200)) for number in range(5)]
    shard = Shard([*made, *lost], DocumentsLayout(shards=1, blocks=4, max_waiting_operations=3))
    output = shard.take([*made, *lost])
    record = shard.document()
    assert (record.version, record.waiting, record.missing) == (2, 3, (id_of_number(200),))
    assert [problem.code for problem in record.problems].count("p2panda.document.previous") == 3
    assert [RejectedRecord.decode(value).code for _, value in output.rejected] == [
        "documents.document_full"
    ] * 2


def test_operations_that_wait_are_limited_in_bytes() -> None:
    create = numbered(0)
    many = tuple(sorted(random.Random(1).randbytes(33).rjust(34, b"\0") for _ in range(50_000)))
    lost = [
        AuthoredOperation(id_of_number(number), bytes(32), Operation(1, "update", SCHEMA, many[number:], {}))
        for number in range(1, 5)
    ]
    shard = Shard([create, *lost])
    output = shard.take(shard.made)
    assert shard.document().waiting == 2
    assert len(output.rejected) == 2
    assert max(map(len, shard.store.of(WAITING).values())) < 1.1 * MAX_WAITING_BYTES


def test_heads_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_HEADS", 4)
    create = numbered(0)
    branches = [follower(number, create.id) for number in range(1, 7)]
    shard = Shard([create, *branches])
    output = shard.take(shard.made)
    assert len(shard.document().view_id) == 4
    assert len(output.rejected) == 2


def test_a_document_of_too_many_operations_only_takes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(1, 2_000, late=0.0)
    other = history(2, 20)
    late, last = follower(0, made[5].id), update_of(made[-1], {"name": "new"})
    shard = Shard([*made, *other, late, last])
    shard.take(made)
    monkeypatch.setattr(pages, "MAX_HISTORY_BYTES", 100_000)
    rows = shard.rows([late, last])
    rows.documents += shard.rows(other, other[0].id).documents
    output = step(shard.store, rows, shard.layout, lambda places: [], "culm.logs")
    shard.records.update(output.documents)
    assert [RejectedRecord.decode(value).code for _, value in output.rejected] == ["documents.document_full"]
    record = DocumentRecord.decode(shard.records[made[0].id])
    assert (record.version, record.view_id) == (2_001, (last.id,))
    assert [problem.operation_id for problem in record.problems] == [late.id]
    assert DocumentRecord.decode(shard.records[other[0].id]).version == 20


def test_fields_are_limited_to_the_lowest_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_FIELDS", 2)
    create = numbered(0, {"c": 1, "d": 2})
    first, second = update_of(create, {"b": 3}), None
    second = update_of(first, {"d": 4, "a": 5})
    for batches in ([[create, first, second]], [[create], [first], [second]]):
        shard = Shard([create, first, second])
        for batch in batches:
            shard.take(batch)
        record = shard.document()
        assert [field.name for field in record.fields] == ["a", "b"]
        assert [problem.code for problem in record.problems] == ["documents.document_full"]


def test_a_deleted_document_has_not_too_many_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_FIELDS", 2)
    create = numbered(0, {"a": 1, "b": 2, "c": 3})
    delete = AuthoredOperation(id_of_number(1), bytes(32), Operation(1, "delete", SCHEMA, (create.id,), None))
    records = []
    for batches in ([[create, delete]], [[create], [delete]]):
        shard = Shard([create, delete])
        for batch in batches:
            shard.take(batch)
        records.append(shard.records)
    assert records[0] == records[1]
    assert shard.document().problems == ()


def test_the_longest_record_of_a_document_fits_into_a_message() -> None:
    schema_id = "v" + "_0020".join(["", *(f"{number:064x}" for number in range(MAX_OPERATION_BYTES // 69))])
    layout = DocumentsLayout(max_record_bytes=1_048_576)
    value = bytes(layout.max_record_bytes // reduction.MAX_FIELDS)
    ids = [id_of_number(0)[:-2] + number.to_bytes(2) for number in range(reduction.MAX_HEADS)]
    state = DocumentState(
        ids[0],
        schema_id,
        bytes(32),
        version=2**63 - 1,
        heads=set(ids),
        fields={
            f"{number:0{MAX_NAME_BYTES}}": [value, ids[0], bytes(32), 2**31, 2**63 - 1]
            for number in range(reduction.MAX_FIELDS)
        },
        waiting=2**31,
        missing=ids[:MAX_MISSING],
        refused=[(operation_id, "documents.document_full") for operation_id in ids],
    )
    record = document_record(state, max_value_bytes=layout.max_record_bytes).encode()
    assert len(record) + 1_024 < MAX_MESSAGE_BYTES
    with pytest.raises(JobSettingsError, match="max_record_bytes"):
        DocumentsLayout(max_record_bytes=layout.max_record_bytes + 1)


def _only_state(shard: Shard) -> DocumentState:
    """Return the state of the only document, which is a large one."""
    (blob,) = shard.store.of(OWN_ROWS).values()
    return DocumentState.decode(blob)
