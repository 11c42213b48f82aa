"""What a p2panda node is sent: each operation once, after those that it refers to, and nothing in the way.

The node is a model that refuses what aquadoggo refuses; `tests/e2e/aquadoggo` has real ones.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.p2panda.aquadoggo import operation_order
from culm_connectors.p2panda.connections.link import PeerLink
from tests.support.p2panda.histories import History, NodeModel, random_history
from tests.support.p2panda.logs import OTHER_SCHEMA, author
from tests.support.p2panda.node_edge import NAMES, ConnectionStub, Edge, conversation


async def test_authors_that_answer_each_other_are_taken_in_one_session(edge: Edge) -> None:
    history = History()
    for log_id in range(4):
        conversation(history, log_id, 9)
    edge.store.append(history.written)
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)


async def test_a_log_many_steps_from_the_create_goes_out_in_its_place(edge: Edge) -> None:
    history = History()
    latest = history.write("fay", 0)
    for name in ("eve", "dan", "cyn", "bob", "ann", "fay"):
        latest = history.write(name, 0, (latest,))
    edge.store.append(
        sorted(history.written, key=lambda operation: (operation.entry.seq_num, operation.log), reverse=False)
    )
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from((1, 40, 65_536)))
@settings(max_examples=60, deadline=None)
async def test_whatever_arrives_in_whatever_order_reaches_the_node_once(
    seed: int, count: int, ahead: int
) -> None:
    rng = random.Random(seed)
    history = random_history(rng, count, NAMES, deletes=rng.choice((0.0, 0.1, 0.3)))
    arrivals = list(history.arrivals(rng))
    node = NodeModel()
    # What it has from elsewhere, or from before: it brings that first.
    node.take(history.written[: rng.randrange(count + 1)] if rng.random() < 0.5 else ())
    node.refusals.clear()
    before = set(node.operations)
    node.brought.clear()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(operation_order, "STEPS_AHEAD", ahead)
        edge = Edge(Path(folder), node, rng.randint(1, 9))
        edge.store.append([operation for log in node.logs.values() for operation in log])
        in_parts = rng.random() < 0.7
        while arrivals:
            size = rng.randint(1, 8) if in_parts else len(arrivals)
            edge.store.append(arrivals[:size])
            del arrivals[:size]
            assert await edge.session(), node.refusals
        assert await edge.session(), node.refusals
        last = await edge.arranged()
        edge.store.close()
    assert not node.refusals
    assert set(node.brought.values()) <= {1}
    assert not before & set(node.brought)
    assert last == []
    deleted = history.deleted()
    assert {operation for operation, document in history.document.items() if document not in deleted} <= set(
        node.operations
    )
    # Not one whose every delete follows another delete in its log.
    assert node.deleted == deleted


async def test_what_cannot_go_yet_waits_until_what_is_before_it_comes(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    update = history.write("bob", 0, (created,))
    history.write("cyn", 0, (update,))
    merged = history.write("ann", 0, (created, update))
    history.write("dan", 0, (merged,))
    edge.store.append([history.written[0], history.written[2], history.written[3], history.written[4]])
    assert await edge.session()
    assert list(edge.node.operations) == [created]
    assert await edge.arranged() == []
    edge.store.append([history.written[1]])
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)
    assert set(edge.node.brought.values()) == {1}


async def test_what_comes_while_a_session_is_arranged_is_not_taken_for_what_the_node_has(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    later = history.write("bob", 0, (created,))
    history.write("cyn", 0, (later,))
    history.write("cyn", 1)
    edge.store.append([history.written[0], history.written[2], history.written[3]])
    edge.node.take(history.written[:1])
    ranges, parts = edge.lacking(), []
    async for arranged in edge.order.arrange(cast(PeerLink, edge.link), ranges):
        edge.store.append([history.written[1]])
        parts += arranged
    assert edge.node.take(edge.entries(parts))
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)


async def test_a_delete_goes_with_what_is_before_it_and_nothing_else_of_its_document_goes(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    before = history.write("bob", 0, (created,))
    history.write("cyn", 0, (created,))
    gone = history.write("ann", 0, (before,), delete=True)
    history.write("ann", 0, (gone,))
    history.write("bob", 0, (before,))
    history.write("dan", 0, (created, before), delete=True)
    edge.store.append(history.written)
    assert await edge.session()
    first = history.logs[author("ann").public_key, 0][1].hash
    second = history.logs[author("dan").public_key, 0][0].hash
    assert set(edge.node.operations) in ({created, before, first}, {created, before, second})
    assert await edge.arranged() == []


async def test_a_delete_that_follows_on_what_is_not_held_is_in_the_way_of_nothing(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    missing = history.write("bob", 0, (created,))
    history.write("cyn", 0, (missing,), delete=True)
    beside = history.write("dan", 0, (created,))
    edge.store.append([history.written[0], *history.written[2:]])
    assert await edge.session()
    assert set(edge.node.operations) == {created, beside}
    edge.store.append(history.written[1:2])
    assert await edge.session()
    assert edge.node.deleted == {created}


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from((1, 40, 65_536)))
@settings(max_examples=30, deadline=None)
async def test_a_node_holds_nothing_of_a_deleted_document_but_what_is_before_the_delete(
    seed: int, count: int, ahead: int
) -> None:
    rng = random.Random(seed)
    history = random_history(rng, count, NAMES, deletes=0.2)
    node = NodeModel()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(operation_order, "STEPS_AHEAD", ahead)
        edge = Edge(Path(folder), node, rng.randint(1, 9))
        edge.store.append(list(history.arrivals(rng)))
        assert await edge.session(), node.refusals
        edge.store.close()
    deletes = [
        operation
        for operation in history.written
        if operation.facts.action == "delete" and operation.hash in node.operations
    ]
    assert {history.document[delete.hash] for delete in deletes} == history.deleted()
    for delete in deletes:
        document = history.document[delete.hash]
        kept = {key for key, (of, _) in node.operations.items() if of == document}
        assert kept == history.before(delete)


async def test_a_node_that_holds_a_delete_is_sent_nothing_more_of_the_document(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    history.write("ann", 0, (created,), delete=True)
    history.write("bob", 0, (created,))
    history.write("bob", 1)
    edge.node.take(history.written[:2])
    edge.store.append(history.written)
    assert await edge.session()
    assert edge.node.brought.total() == 3


async def test_a_delete_that_only_the_node_knows_costs_one_session(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    history.write("ann", 0, (created,), delete=True)
    history.write("bob", 0, (created,))
    history.write("bob", 1)
    edge.node.take(history.written[:2])
    edge.store.append([history.written[0], *history.written[2:]])
    assert not await edge.session()
    # It has brought the delete meanwhile.
    edge.store.append(history.written[:2])
    assert await edge.session()
    assert history.written[3].hash in edge.node.operations
    assert await edge.arranged() == []


async def test_the_second_log_of_an_author_in_a_document_stays(edge: Edge) -> None:
    history = History()
    created = history.write("ann", 0)
    history.write("bob", 0, (created,))
    history.write("bob", 7, (created,))
    edge.store.append([history.written[0], history.written[2], history.written[1]])
    # The node has met the other one of them first.
    edge.node.take(history.written[:2])
    after = history.write("bob", 0, (created,))
    edge.store.append(history.written[3:])
    assert await edge.session()
    assert after in edge.node.operations and edge.node.heights()[-1] is not None
    other = Edge(edge.store.folder.parent / "other", NodeModel())
    other.store.append([history.written[0], history.written[2], history.written[1]])
    assert await other.session()
    assert (author("bob").public_key, 7, 1) in other.node.heights()
    other.store.close()


async def test_operations_of_two_documents_or_of_another_schema_stay(edge: Edge) -> None:
    history = History()
    first, second = history.write("ann", 0), history.write("ann", 1)
    history.write("bob", 0, (first, second))
    history.write("cyn", 0, (first,), schema_id=OTHER_SCHEMA)
    last = history.write("dan", 0, (second,))
    edge.store.append(history.written)
    assert await edge.session()
    assert set(edge.node.operations) == {first, second, last}


async def test_a_new_connection_knows_nothing_of_the_one_before(edge: Edge) -> None:
    history = History()
    for log_id in range(3):
        conversation(history, log_id, 1)
    edge.store.append(history.written)
    plan = edge.lacking()
    first = await edge.arranged(plan)
    edge.link = ConnectionStub()
    assert await edge.arranged(plan) == first


async def test_a_long_document_is_arranged_without_reading_all_of_it_ahead(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_order, "STEPS_AHEAD", 8)
    history = History()
    conversation(history, 0, 99)
    edge.store.append(history.written)
    assert await edge.session()
    assert set(edge.node.operations) == set(history.document)
    assert edge.reader.longest == 4
    assert edge.reader.entries_read == 100
