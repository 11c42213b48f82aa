"""Documents: the recorded histories of p2panda-rs, and the same result however operations arrive."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.conform.dispatch import Conformance
from culm_models.p2panda.documents.document import AuthoredOperation, Document
from culm_models.p2panda.documents.errors import UnknownViewError
from culm_models.p2panda.documents.graph import Graph
from culm_models.p2panda.documents.linear_order import Node, last_places, walk
from culm_models.p2panda.operations.operation import Action, Operation
from tests.support.p2panda import vectors
from tests.support.p2panda.document_histories import SCHEMA, history, reader, reduced, state

ORDERS: list[dict[str, Any]] = vectors.read("document-orders.json")
REPEATS: list[dict[str, Any]] = vectors.read("document-repeats.json")
HISTORIES: list[dict[str, Any]] = vectors.read("documents.json")


def _reduce(operations: list[list[str]]) -> dict[str, Any]:
    """Return the answer of `culm conform`."""
    request = json.dumps({"do": "p2panda.document.reduce", "operations": operations})
    ok: dict[str, Any] = json.loads(Conformance().answer_line(request))["ok"]
    return ok


RECORDED = [row for row in HISTORIES if "ok" in row["want"]]
REFUSED = [row for row in HISTORIES if "ok" not in row["want"]]


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['shape']}-{row['size']}")
def test_a_recorded_history_has_the_recorded_order_and_winners(row: dict[str, Any]) -> None:
    answer = _reduce(row["operations"])
    want = row["want"]["ok"]
    fields = answer.pop("fields")
    winners = fields and {name: {"operation_id": field["operation_id"]} for name, field in fields.items()}
    assert winners == want["fields"]
    assert {name: answer[name] for name in want if name != "fields"} == {
        name: value for name, value in want.items() if name != "fields"
    }
    assert answer["missing"] == answer["waiting"] == answer["refused"] == []


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row['shape']}-{row['size']}")
def test_a_history_that_p2panda_rs_refuses_is_reduced_as_far_as_it_goes(row: dict[str, Any]) -> None:
    answer = _reduce(row["operations"])
    ids = {operation_id for operation_id, _, _ in row["operations"]}
    placed = set(answer["order"])
    assert placed | set(answer["waiting"]) | {operation_id for operation_id, _ in answer["refused"]} == ids
    match row["shape"]:
        case "missing":
            assert answer["missing"] and answer["waiting"] and placed
        case "no create":
            assert answer["document_id"] is None and not placed
        case "two creates":
            assert [code for _, code in answer["refused"]] == ["p2panda.document.create"]
        case "other schema":
            assert [code for _, code in answer["refused"]] == ["p2panda.document.schema"]
        case _:  # an update beside or after a delete
            assert answer["deleted"] and answer["fields"] is None and placed == ids


@pytest.mark.parametrize("start", range(0, len(ORDERS), 50))
def test_recorded_graphs_have_the_recorded_order_however_they_arrive(start: int) -> None:
    """In a part of them an operation comes before one that it follows, as p2panda-rs orders them."""
    for number, row in enumerate(ORDERS[start : start + 50], start):
        made = [_numbered(operation, previous) for operation, previous in row["operations"]]
        for batches in ([made], [[added] for added in made], _shuffled(made, number)):
            order = reduced(batches, of=made).graph.order
            assert [node.id[-1] for node in order] == row["order"]


@pytest.mark.parametrize("start", range(0, len(REPEATS), 50))
def test_the_last_place_counts_if_an_operation_is_applied_more_than_once(start: int) -> None:
    """So it is if an operation names another one and one before it."""
    for number, row in enumerate(REPEATS[start : start + 50], start):
        made = [_numbered(operation, previous) for operation, previous in row["operations"]]
        walked = row["order"]
        last_places = sorted(set(walked), key=lambda place: len(walked) - walked[::-1].index(place))
        for batches in ([made], [[added] for added in made], _shuffled(made, number)):
            document = reduced(batches, of=made)
            assert [node.id[-1] for node in document.graph.order] == last_places
            assert [
                node.id[-1] for node in walk(document.graph.order[0], set(document.graph.nodes))
            ] == walked


def test_a_field_keeps_the_value_of_an_operation_that_is_applied_again() -> None:
    """3 names 2 and, needlessly, 1. It is applied again after 4, which follows it."""
    ids = {number: _id(number) for number in (1, 2, 3, 4)}
    made = [
        _numbered(number, previous)._replace(
            operation=Operation(
                1,
                "update" if previous else "create",
                SCHEMA,
                tuple(map(_id, previous)) or None,
                {"name": number},
            )
        )
        for number, previous in ((1, []), (2, [1]), (3, [1, 2]), (4, [3]))
    ]
    for order in itertools.permutations(made):
        view = reduced([[added] for added in order], of=made).view()
        assert view is not None and view.fields is not None
        assert (view.view_id, view.fields["name"].value) == ((ids[4],), 3)


def _numbered(number: int, previous: list[int]) -> AuthoredOperation:
    """Return an operation whose id ends with a number."""
    named = tuple(_id(other) for other in previous)
    action: Action = "update" if named else "create"
    return AuthoredOperation(_id(number), bytes(32), Operation(1, action, SCHEMA, named or None, {}))


def _id(number: int) -> bytes:
    return b"\x00\x20" + bytes(31) + bytes([number])


def _shuffled(operations: list[AuthoredOperation], seed: int) -> list[list[AuthoredOperation]]:
    """Return the operations in random batches and order, some of them twice."""
    draw = random.Random(seed)
    order = operations + draw.choices(operations, k=len(operations) // 4)
    draw.shuffle(order)
    batches = []
    while order:
        size = draw.randint(1, 1 + len(order) // 2)
        batches.append(order[:size])
        order = order[size:]
    return batches


@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 1), st.sampled_from([0.0, 0.03]))
@settings(max_examples=300)
def test_arrival_batches_and_repeats_change_nothing(
    seed: int, size: int, late: float, deletes: float
) -> None:
    made = history(seed, size, late=late, deletes=deletes)
    whole = reduced([made], of=made)
    assert state(reduced(_shuffled(made, seed), of=made)) == state(whole)
    assert state(reduced([[added] for added in made], of=made)) == state(whole)
    assert [added.id for added in made if added.id not in whole.graph.nodes] == []


@pytest.mark.parametrize("seed", range(6))
def test_every_permutation_of_a_small_history_is_reduced_alike(seed: int) -> None:
    made = history(seed, 6, late=0.7)
    states = {
        repr(state(reduced([[added] for added in order], of=made))) for order in itertools.permutations(made)
    }
    assert len(states) == 1


@given(st.integers(0, 2**32), st.integers(2, 80), st.floats(0, 1))
@settings(max_examples=300)
def test_a_walk_from_a_bottleneck_gives_the_order_of_a_walk_from_the_create(
    seed: int, size: int, late: float
) -> None:
    made = history(seed, size, late=late)
    document = reduced(_shuffled(made, seed), of=made)
    order = document.graph.order
    assert last_places(walk(order[0], {node.id for node in order})) == order
    assert [node.position for node in order] == list(range(len(order)))


@given(st.integers(0, 2**32), st.integers(2, 40), st.floats(0, 1))
@settings(max_examples=200)
def test_a_part_of_a_history_is_reduced_as_its_connected_part(seed: int, size: int, late: float) -> None:
    made = history(seed, size, late=late)
    draw = random.Random(seed)
    known = [made[0], *(added for added in made[1:] if draw.random() < 0.7)]
    document = reduced(_shuffled(known, seed), of=made)
    connected = [added for added in known if document.graph.is_connected(added.id)]
    alone = reduced([connected], of=made)
    assert document.view() == alone.view()
    assert document.graph.missing() <= {added.id for added in made} - {added.id for added in known}


@given(st.integers(0, 2**32), st.integers(2, 40), st.floats(0, 1))
@settings(max_examples=200)
def test_a_view_is_that_of_a_document_with_these_heads(seed: int, size: int, late: float) -> None:
    made = history(seed, size, late=late)
    document = reduced(_shuffled(made, seed), of=made)
    draw = random.Random(seed)
    before = document.graph.ancestors({draw.choice(made).id for _ in range(2)})
    then = reduced([[added for added in made if added.id in before]], of=made).view()
    assert then is not None
    assert document.view_at(then.view_id) == then


def test_a_view_that_is_not_here_is_named() -> None:
    made = history(1, 5)
    document = reduced([made], of=made)
    with pytest.raises(UnknownViewError, match="00" * 34):
        document.view_at((bytes(34),))
    with pytest.raises(UnknownViewError):
        document.view_at(())


def test_a_late_operation_lets_an_older_one_win_again() -> None:
    """The create has the successors 5 and 7; when 2 arrives, 7 comes before 5."""
    ids = {number: b"\x00\x20" + bytes(31) + bytes([number]) for number in (0, 2, 5, 7)}

    def operation(number: int, previous: tuple[int, ...] | None, **fields: int) -> AuthoredOperation:
        named = None if previous is None else tuple(ids[other] for other in previous)
        action: Action = "create" if previous is None else "update"
        return AuthoredOperation(ids[number], bytes(32), Operation(1, action, SCHEMA, named, dict(fields)))

    made = [
        operation(0, None, name=0),
        operation(5, (0,), name=5),
        operation(7, (0,), name=7),
        operation(2, (0,), seats=2),
    ]
    asked: list[bytes] = []

    def read(wanted: Iterable[bytes]) -> Mapping[bytes, Operation]:
        asked.extend(wanted)
        return reader(made)(asked)

    document = Document(ids[0], read)
    document.add(made[:3])
    assert [node.id[-1] for node in document.graph.order] == [0, 5, 7]
    document.add(made[3:])
    assert [node.id[-1] for node in document.graph.order] == [0, 2, 7, 5]
    view = document.view()
    assert view is not None and view.fields is not None
    assert {name: field.value for name, field in view.fields.items()} == {"name": 5, "seats": 2}
    assert asked == [ids[5]]


def test_an_endless_chain_of_waiting_operations_connects_without_recursion() -> None:
    made = history(3, 10_000, late=0.0)
    document = reduced([list(reversed(made[1:])), made[:1]], of=made)
    assert [node.id for node in document.graph.order] == [added.id for added in made]


class _Counted(list[Node]):
    """Successors that count how often they are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[Node]:
        type(self).looks += len(self)
        return super().__iter__()


def test_a_walk_looks_at_each_link_once_however_often_operations_are_applied() -> None:
    """A chain of 20; 20 operations each name all of it; another 20 each name all of these."""
    layers = [
        [Node(_id(60 * layer + number), bytes(32), (), ()) for number in range(20)] for layer in range(3)
    ]
    for before, behind in pairwise(layers[0]):
        behind.previous = (before.id,)
    for above, below in pairwise(layers):
        for node in below:
            node.previous = tuple(other.id for other in above)
    nodes = {node.id: node for layer in layers for node in layer}
    for node in nodes.values():
        node.successors = _Counted(other for other in nodes.values() if node.id in other.previous)
    _Counted.looks = 0
    walked = walk(layers[0][0], set(nodes))
    assert len(walked) > 300  # most of the second layer is applied for each operation of the first
    assert _Counted.looks == sum(len(node.previous) for node in nodes.values())


def test_what_an_operation_waits_for_is_looked_up_once() -> None:
    """200 operations follow the create, in the order in which the last one names them."""

    class Counting(Graph):
        looks = 0

        def is_connected(self, operation_id: bytes) -> bool:
            self.looks += 1
            return super().is_connected(operation_id)

    graph = Counting()
    ids = [_id(number) for number in range(202)]
    graph.add(Node(ids[201], bytes(32), tuple(ids[1:201]), ()))
    for operation_id in ids[:201]:
        graph.add(Node(operation_id, bytes(32), () if operation_id == ids[0] else (ids[0],), ()))
    assert graph.heads == {ids[201]}
    assert graph.looks < 1_000


@pytest.mark.parametrize("late", [0.02, 0.5])
def test_long_histories_of_six_authors(late: float) -> None:
    made = history(11, 10_000, late=late)
    whole = state(reduced([made], of=made))
    assert state(reduced(_shuffled(made, 5), of=made)) == whole


def test_operations_of_another_schema_are_refused_also_if_they_come_before_the_create() -> None:
    made = history(4, 6, late=0.0)
    other = made[2]._replace(
        operation=Operation(1, "update", "blob_v1", made[2].operation.previous, {"length": 1})
    )
    for order in ([made[0], made[1], other, *made[3:]], [*made[3:], other, made[1], made[0]]):
        document = Document(made[0].id, reader(made))
        refused = document.add(order[:3]) | document.add(order[3:])
        assert {operation_id: error.code for operation_id, error in refused.items()} == {
            other.id: "p2panda.document.schema"
        }
        assert len(document.graph.order) == 2
        assert {node.id for node in document.graph.waiting()} == {added.id for added in made[3:]}
        assert document.add([other]).keys() == {other.id}
