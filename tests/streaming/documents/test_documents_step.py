"""The second stage of the job `documents` writes what the model says, however operations arrive."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.operations.operation import Operation, Value
from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.kafka_io.fetching import RecordPlace
from culm_streaming.p2panda_documents import history as pages
from culm_streaming.p2panda_documents import reduction
from culm_streaming.p2panda_documents.document_state import OWN_ROWS
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_topics.p2panda.documents.record import DocumentRecord
from culm_topics.records import RejectedRecord
from tests.support.p2panda.document_histories import SCHEMA, history, reduced
from tests.support.p2panda.document_rows import Shard, assert_equal
from tests.support.p2panda.numbered_operations import follower, id_of_number, numbered, update_of


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
    last = update_of(made[-1], {"name": "new"})
    output = Shard([*made, last], store=shard.store).take([last])
    assert len(output.documents) == 1
    assert (shard.store.loads, shard.store.saves, shard.read) == (2, 1, 0)


def test_a_value_of_an_earlier_batch_that_wins_again_is_read_in_logs() -> None:
    """The create 0 has the successors 5 and 7; when 2 comes, the order becomes 0, 2, 7, 5."""
    create, five, seven, two = (numbered(number) for number in (0, 5, 7, 2))
    made = [create, five, seven, two]
    shard = Shard(made)
    shard.take([create, five, seven])
    assert shard.document().fields[0].read() == "7"
    shard.take([two])
    assert shard.document().fields[0].read() == "5"
    assert shard.read == 1


def test_operations_that_are_read_in_logs_are_in_memory_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, where 10, 11 and 12 follow 5, each with a field of its own, and 7 sets all of these."""
    names = dict(zip((5, 10, 11, 12), "abcd", strict=True))
    made = [numbered(0)]
    for number, previous in ((5, 0), (10, 5), (11, 10), (12, 11), (7, 0), (2, 0)):
        fields: dict[str, Value] = dict.fromkeys(names.get(number, "abcd"), str(number))
        operation = Operation(1, "update", SCHEMA, (id_of_number(previous),), fields)
        made.append(AuthoredOperation(id_of_number(number), bytes(32), operation))

    class Fields(dict[str, bytes]):
        """Fields of an operation that count those in memory."""

        held, most = 0, 0

        def __init__(self, fields: Mapping[str, bytes]) -> None:
            super().__init__(fields)
            Fields.held += 1
            Fields.most = max(Fields.most, Fields.held)

        def __del__(self) -> None:
            Fields.held -= 1

    def counted(shard: Shard, places: Sequence[RecordPlace]) -> Iterator[tuple[RecordPlace, Fields]]:
        return ((place, Fields(fields)) for place, fields in read(shard, places))

    read = Shard._read_fields
    monkeypatch.setattr(Shard, "_read_fields", counted)
    shard = Shard(made)
    shard.take(made[:-1])
    shard.take(made[-1:])
    assert {field.name: field.read() for field in shard.document().fields if field.name in "abcd"} == {
        name: str(number) for number, name in names.items()
    }
    assert (shard.read, Fields.most) == (4, 2)


def test_an_operation_that_follows_two_heads_takes_from_the_last_one_that_it_is_a_bottleneck() -> None:
    """0 has the successors 5 and 7, which 8 follows; 9 follows 7 alone, and 10 follows 8."""
    made = [numbered(number) for number in (0, 5, 7)]
    for number, heads in ((8, (5, 7)), (9, (7,)), (10, (8,))):
        operation = Operation(1, "update", SCHEMA, tuple(map(id_of_number, heads)), {"name": str(number)})
        made.append(AuthoredOperation(id_of_number(number), bytes(32), operation))
    shard = Shard(made)
    for added in made:
        shard.take([added])
    assert_equal(shard.document(), reduced([made], of=made))


def test_a_value_that_is_gone_from_logs_stops_the_job() -> None:
    made = [numbered(number) for number in (0, 5, 7, 2)]
    shard = Shard(made)
    shard.take(made[:3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "_read_fields", lambda *_: [])
        with pytest.raises(StateMissingError):
            shard.take(made[3:])


def test_a_large_document_has_a_row_of_its_own_until_it_is_small_again() -> None:
    create = AuthoredOperation(
        id_of_number(0), bytes(32), Operation(1, "create", SCHEMA, None, {"a": "x" * 9_000})
    )
    shard = Shard([create])
    shard.take([create])
    assert list(shard.store.of(OWN_ROWS)) == [create.id[2:18]]
    small = update_of(create, {"a": 1})
    Shard([create, small], store=shard.store).take([small])
    assert not shard.store.of(OWN_ROWS)


def test_another_create_and_another_schema_are_refused_and_stated() -> None:
    made = history(1, 3, late=0.0)
    second = AuthoredOperation(id_of_number(1), bytes(32), made[0].operation)
    other = AuthoredOperation(
        id_of_number(2), bytes(32), Operation(1, "update", "blob_v1", (made[2].id,), {"length": 1})
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


def test_what_waits_does_not_slow_down_what_follows_all_heads() -> None:
    made = history(1, 600, late=0.0)
    shard = Shard([*made, follower(0, id_of_number(200))])
    shard.take(shard.made)
    shard.store.loads = 0
    last = update_of(made[-1], {"name": "new"})
    Shard([*made, last], store=shard.store).take([last])
    assert shard.store.loads == 3  # the shard, its block, and the operations that wait


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
