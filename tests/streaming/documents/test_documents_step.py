"""The second stage of the job `documents` writes what the model says, however operations arrive."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.operations.operation import Operation, Value
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_streaming.errors import JobSettingsError, StateLayoutError, StateMissingError
from culm_streaming.p2panda_documents import history as pages
from culm_streaming.p2panda_documents import reduction
from culm_streaming.p2panda_documents.document_state import LARGE, DocumentState
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


def _batches(made: list[AuthoredOperation], seed: int) -> list[list[AuthoredOperation]]:
    """Return operations in any order and batches, some twice; the create is in the first batch."""
    draw = random.Random(seed)
    order = made[1:] + draw.choices(made, k=len(made) // 4)
    draw.shuffle(order)
    batches = [[made[0]]]
    while order:
        size = draw.randint(1, 1 + len(order) // 2)
        batches.append(order[:size])
        order = order[size:]
    return batches


def _in_order(made: list[AuthoredOperation], seed: int) -> list[list[AuthoredOperation]]:
    """Return operations nearly in the order in which they were made, in small batches."""
    draw = random.Random(seed)
    late = {added.id: number + draw.randrange(6) for number, added in enumerate(made[1:])}
    order = [made[0], *sorted(made[1:], key=lambda added: late[added.id])]
    cuts = sorted(draw.sample(range(1, len(order) + 1), k=len(order) // 3))
    return [order[start:end] for start, end in pairwise([0, *cuts, len(order)]) if end > start]


@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 1), st.sampled_from([0.0, 0.03]))
@settings(max_examples=200)
def test_records_are_those_of_the_model_however_operations_arrive(
    seed: int, size: int, late: float, deletes: float
) -> None:
    made = history(seed, size, late=late, deletes=deletes)
    whole = Shard(made)
    whole.take(made)
    assert_equal(whole.document(), reduced([made], of=made))
    for batches in (_batches(made, seed), _in_order(made, seed)):
        shard = Shard(made)
        fed: list[list[AuthoredOperation]] = []
        for batch in batches:
            fed.append(batch)
            shard.take(batch)
            assert_equal(shard.document(), reduced(fed, of=made))
        assert shard.records == whole.records


@given(st.integers(0, 2**32), st.floats(0, 1))
@settings(max_examples=40)
def test_a_history_of_many_pages_is_that_of_the_model(seed: int, late: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_SIZE", 8)
        patch.setattr(pages, "PAGE_BYTES", 700)
        patch.setattr(reduction, "RECENT_BYTES", 300)
        test_records_are_those_of_the_model_however_operations_arrive.hypothesis.inner_test(  # type: ignore[attr-defined]
            seed, 150, late, 0.0
        )


def test_an_operation_that_follows_all_heads_reads_no_page_and_no_value() -> None:
    made = history(1, 2_000, late=0.0)
    shard = Shard(made)
    for start in range(0, len(made), 100):
        shard.take(made[start : start + 100])
    shard.store.loads = shard.store.saves = 0
    last = _update(made[-1], {"name": "new"})
    output = Shard([*made, last], store=shard.store).take([last])
    assert len(output.documents) == 1
    assert (shard.store.loads, shard.store.saves, shard.read) == (2, 1, 0)


@pytest.mark.parametrize("size", [1, 20])
def test_an_operation_of_many_names_is_not_written_again_and_again(size: int) -> None:
    names = [f"{number:0250}" for number in range(1_000)]
    made = [_numbered(0)]
    for _ in range(60):
        made.append(_update(made[-1], dict.fromkeys(names, 1)))
    shard = Shard(made)
    for start in range(0, len(made), size):
        shard.take(made[start : start + size])
    written = shard.store.of(pages.PAGES)
    assert max(map(len, written.values())) < 2 * pages.PAGE_BYTES
    assert sum(map(len, written.values())) > 60 * 250_000
    late = _follower(0, made[30].id)
    Shard([*made, late], store=shard.store).take([late])
    assert max(map(len, shard.store.of(pages.PAGES).values())) < 2 * pages.PAGE_BYTES
    assert len(shard.store.of(pages.PAGES)) == len(_only_state(shard).pages)


def test_a_value_of_an_earlier_batch_that_wins_again_is_read_in_logs() -> None:
    """The create 0 has the successors 5 and 7; when 2 comes, the order becomes 0, 2, 7, 5."""
    create, five, seven, two = (_numbered(number) for number in (0, 5, 7, 2))
    made = [create, five, seven, two]
    shard = Shard(made)
    shard.take([create, five, seven])
    assert shard.document().fields[0].read() == "7"
    shard.take([two])
    assert shard.document().fields[0].read() == "5"
    assert shard.read == 1


def test_an_operation_that_follows_two_heads_takes_from_the_last_one_that_it_is_a_bottleneck() -> None:
    """0 has the successors 5 and 7, which 8 follows; 9 follows 7 alone, and 10 follows 8."""
    made = [_numbered(number) for number in (0, 5, 7)]
    for number, heads in ((8, (5, 7)), (9, (7,)), (10, (8,))):
        operation = Operation(1, "update", SCHEMA, tuple(map(_id, heads)), {"name": str(number)})
        made.append(AuthoredOperation(_id(number), bytes(32), operation))
    shard = Shard(made)
    for added in made:
        shard.take([added])
    assert_equal(shard.document(), reduced([made], of=made))


def test_a_value_that_is_gone_from_logs_stops_the_job() -> None:
    made = [_numbered(number) for number in (0, 5, 7, 2)]
    shard = Shard(made)
    shard.take(made[:3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "_read_fields", lambda *_: {})
        with pytest.raises(StateMissingError):
            shard.take(made[3:])


def test_long_values_are_in_logs_only() -> None:
    create = AuthoredOperation(
        _id(0), bytes(32), Operation(1, "create", SCHEMA, None, {"a": "x" * 50, "b": 1})
    )
    shard = Shard([create], DocumentsLayout(shards=1, blocks=4, max_value_bytes=50))
    shard.take([create])
    first, second = shard.document().fields
    assert (first.read(), second.read()) == (None, 1)
    assert (first.partition, first.offset) == (0, 0)


def test_the_longest_values_of_a_record_are_left_out_until_the_others_fit() -> None:
    fields: dict[str, Value] = {"a": "x" * 40, "b": "x" * 60, "c": "x" * 50}
    create = AuthoredOperation(_id(0), bytes(32), Operation(1, "create", SCHEMA, None, fields))
    shard = Shard([create], DocumentsLayout(shards=1, blocks=4, max_record_bytes=100))
    shard.take([create])
    assert [field.name for field in shard.document().fields if field.value] == ["a", "c"]


def test_a_large_document_has_a_row_of_its_own_until_it_is_small_again() -> None:
    create = AuthoredOperation(_id(0), bytes(32), Operation(1, "create", SCHEMA, None, {"a": "x" * 9_000}))
    shard = Shard([create])
    shard.take([create])
    assert list(shard.store.of(LARGE)) == [create.id[2:18]]
    small = _update(create, {"a": 1})
    Shard([create, small], store=shard.store).take([small])
    assert not shard.store.of(LARGE)


def test_another_create_and_another_schema_are_refused_and_stated() -> None:
    made = history(1, 3, late=0.0)
    second = AuthoredOperation(_id(1), bytes(32), made[0].operation)
    other = AuthoredOperation(
        _id(2), bytes(32), Operation(1, "update", "blob_v1", (made[2].id,), {"length": 1})
    )
    for batches in ([[*made, second, other]], [made, [second], [other]], [[*made, other], [second, other]]):
        shard = Shard([*made, second, other])
        refused = [record for batch in batches for record in shard.take(batch).rejected]
        codes = {RejectedRecord.decode(value).code for _, value in refused}
        assert codes == {"p2panda.document.create", "p2panda.document.schema"}
        record = shard.document()
        assert record.version == 3
        assert [(problem.operation_id, problem.code) for problem in record.problems] == [
            (second.id, "p2panda.document.create"),
            (other.id, "p2panda.document.schema"),
        ]


def test_operations_that_wait_are_limited_and_named() -> None:
    made = history(1, 2, late=0.0)
    lost = [_follower(number, _id(200)) for number in range(5)]
    shard = Shard([*made, *lost], DocumentsLayout(shards=1, blocks=4, max_waiting_operations=3))
    output = shard.take([*made, *lost])
    record = shard.document()
    assert (record.version, record.waiting, record.missing) == (2, 3, (_id(200),))
    assert [problem.code for problem in record.problems].count("p2panda.document.previous") == 3
    assert [RejectedRecord.decode(value).code for _, value in output.rejected] == [
        "documents.document_full"
    ] * 2


def test_operations_that_wait_are_limited_in_bytes() -> None:
    create = _numbered(0)
    many = tuple(sorted(random.Random(1).randbytes(33).rjust(34, b"\0") for _ in range(50_000)))
    lost = [
        AuthoredOperation(_id(number), bytes(32), Operation(1, "update", SCHEMA, many[number:], {}))
        for number in range(1, 5)
    ]
    shard = Shard([create, *lost])
    output = shard.take(shard.made)
    assert shard.document().waiting == 2
    assert len(output.rejected) == 2
    assert max(map(len, shard.store.of(WAITING).values())) < 1.1 * MAX_WAITING_BYTES


def test_what_waits_does_not_slow_down_what_follows_all_heads() -> None:
    made = history(1, 600, late=0.0)
    shard = Shard([*made, _follower(0, _id(200))])
    shard.take(shard.made)
    shard.store.loads = 0
    last = _update(made[-1], {"name": "new"})
    Shard([*made, last], store=shard.store).take([last])
    assert shard.store.loads == 3  # the shard, its block, and the operations that wait


def test_heads_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_HEADS", 4)
    create = _numbered(0)
    branches = [_follower(number, create.id) for number in range(1, 7)]
    shard = Shard([create, *branches])
    output = shard.take(shard.made)
    assert len(shard.document().view_id) == 4
    assert len(output.rejected) == 2


def test_a_document_of_too_many_operations_only_takes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(1, 2_000, late=0.0)
    other = history(2, 20)
    late, last = _follower(0, made[5].id), _update(made[-1], {"name": "new"})
    shard = Shard([*made, *other, late, last])
    shard.take(made)
    monkeypatch.setattr(pages, "MAX_HISTORY_BYTES", 100_000)
    rows = shard.rows([late, last])
    rows.documents += shard.rows(other, other[0].id).documents
    output = step(shard.store, rows, shard.layout, lambda places: {}, "culm.logs")
    shard.records.update(output.documents)
    assert [RejectedRecord.decode(value).code for _, value in output.rejected] == ["documents.document_full"]
    record = DocumentRecord.decode(shard.records[made[0].id])
    assert (record.version, record.view_id) == (2_001, (last.id,))
    assert [problem.operation_id for problem in record.problems] == [late.id]
    assert DocumentRecord.decode(shard.records[other[0].id]).version == 20


def test_fields_are_limited_to_the_lowest_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_FIELDS", 2)
    create = _numbered(0, {"c": 1, "d": 2})
    first, second = _update(create, {"b": 3}), None
    second = _update(first, {"d": 4, "a": 5})
    for batches in ([[create, first, second]], [[create], [first], [second]]):
        shard = Shard([create, first, second])
        for batch in batches:
            shard.take(batch)
        record = shard.document()
        assert [field.name for field in record.fields] == ["a", "b"]
        assert [problem.code for problem in record.problems] == ["documents.document_full"]


def test_a_deleted_document_has_not_too_many_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MAX_FIELDS", 2)
    create = _numbered(0, {"a": 1, "b": 2, "c": 3})
    delete = AuthoredOperation(_id(1), bytes(32), Operation(1, "delete", SCHEMA, (create.id,), None))
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
    ids = [_id(0)[:-2] + number.to_bytes(2) for number in range(reduction.MAX_HEADS)]
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


def test_operations_of_another_document_are_unaffected() -> None:
    one, other = history(1, 20), history(2, 20)
    shard = Shard([*one, *other])
    rows = shard.rows(one)
    rows.documents += shard.rows(other, other[0].id).documents
    assert len({row.document_id for row in rows.documents}) == 2
    shard.take(one)
    before = dict(shard.records)
    shard.take(other, other[0].id)
    assert before.items() <= shard.records.items()
    assert DocumentRecord.decode(shard.records[other[0].id]).version == 20


def test_another_layout_of_the_state_is_refused() -> None:
    made = history(1, 3)
    shard = Shard(made)
    shard.take(made)
    with pytest.raises(StateLayoutError):
        Shard(made, DocumentsLayout(shards=1, blocks=8), shard.store).take(made)


def _only_state(shard: Shard) -> DocumentState:
    """Return the state of the only document, which is a large one."""
    (blob,) = shard.store.of(LARGE).values()
    return DocumentState.decode(blob)


def _numbered(number: int, fields: dict[str, Value] | None = None) -> AuthoredOperation:
    """Return a create, or an update of the create 0, whose field has its number."""
    previous = (_id(0),) if number else None
    values: dict[str, Value] = {"name": str(number)} if fields is None else fields
    operation = Operation(1, "update" if number else "create", SCHEMA, previous, values)
    return AuthoredOperation(_id(number), bytes(32), operation)


def _follower(number: int, previous: bytes) -> AuthoredOperation:
    return AuthoredOperation(
        _id(100 + number), bytes(32), Operation(1, "update", SCHEMA, (previous,), {"name": number})
    )


def _update(before: AuthoredOperation, fields: dict[str, Value]) -> AuthoredOperation:
    operation_id = bytes([0, 0x20]) + random.Random(before.id).randbytes(32)
    return AuthoredOperation(operation_id, bytes(32), Operation(1, "update", SCHEMA, (before.id,), fields))


def _id(number: int) -> bytes:
    return b"\x00\x20" + bytes(31) + bytes([number])
