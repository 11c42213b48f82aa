"""The list that records of `dag.order` make, and what changed between two records of `dag.published`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.publish.states import PublishState
from culm_topics.dag.consumer.changes import DagChangeKind, changes_between
from culm_topics.dag.orders import ORDER_TOPIC, KnownOrder, read_orders
from culm_topics.dag.records import (
    NO_LINKS,
    CompletePublish,
    OrderRecord,
    PublishedRecord,
    first_links,
    order_records,
)
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import produce

A, B, C, D = (cid_of(DAG_CBOR, bytes([number])) for number in range(4))
ID, OTHER = bytes(32), bytes([1]) * 32
pools = st.lists(st.sampled_from([A, B, C, D]), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 8), pools), max_size=9))
def test_an_order_is_what_its_records_make(changes: list[tuple[int, list[Cid]]]) -> None:
    known, expected = KnownOrder(), list[Cid]()
    for position, links in changes:
        position = min(position, len(expected))
        expected = [*expected[:position], *links]
        for record in order_records(position, links):
            known.take(record)
        assert (known.links, known.length, known.is_whole) == (expected, len(expected), True)


@given(pools, st.integers(0, 9), pools)
def test_records_that_were_forgotten_leave_the_rest_in_its_place(
    first: list[Cid], more: int, then: list[Cid]
) -> None:
    late = KnownOrder()
    late.take(OrderRecord(len(first) + more, tuple(then)))
    assert (late.start, late.links) == ((len(first) + more), then)
    late.take(OrderRecord(0, tuple(first)))
    assert (late.start, late.links, late.is_whole) == (0, first, True)
    late.take(OrderRecord(len(first) + 3, (D,)))
    assert (late.start, late.links) == (len(first) + 3, [D])


def record(tip: Cid, *, complete: Cid | None = None, revoked: tuple[Cid, ...] = ()) -> PublishedRecord:
    complete_publish = None if complete is None else CompletePublish(complete, A, A, None)
    return PublishedRecord(
        tip, (tip,), 1, PublishState.PENDING, NO_LINKS, first_links(revoked), complete_publish
    )


PRIORS = {C: B, B: A, D: A}


def builds_on(new: Cid, old: Cid) -> bool:
    return new == old or (new in PRIORS and builds_on(PRIORS[new], old))


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (None, record(A), ["tip"]),
        (None, record(A, complete=A, revoked=(B,)), ["tip", "complete", "revoked"]),
        (record(A), record(A), []),
        (record(A), record(C), ["tip"]),
        (record(B), record(D), ["superseded", "tip"]),
        (record(B), record(B, complete=A), ["complete"]),
        (record(B, complete=B), record(B, complete=A, revoked=(B,)), ["complete", "revoked"]),
        (record(B, complete=A, revoked=(B,)), record(B, revoked=(B,)), []),
    ],
)
def test_a_change_is_told_by_its_kind(
    before: PublishedRecord | None, after: PublishedRecord, changes: list[str]
) -> None:
    reported = changes_between(ID, before, after, builds_on)
    assert [change.kind for change in reported] == changes
    for change in reported:
        if change.kind is DagChangeKind.SUPERSEDED:
            assert before is not None and change.cid == before.tip
        if change.kind is DagChangeKind.TIP:
            assert change.cid == after.tip


@pytest.mark.kafka
def test_orders_are_read_from_the_topic(kafka_bootstrap: str, topic_prefix: str) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    produce(
        settings,
        ORDER_TOPIC,
        [
            (ID, OrderRecord(0, (A, B)).encode()),
            (b"short", OrderRecord(0, (A,)).encode()),
            (OTHER, OrderRecord(0, (D,)).encode()),
            (ID, b"junk"),
            (ID, OrderRecord(1, (C, B)).encode()),
        ],
    )
    orders, passed_over = read_orders(settings)
    assert orders == {ID: KnownOrder(0, [A, C, B]), OTHER: KnownOrder(0, [D])}
    assert passed_over.records == 2
    assert read_orders(settings, [OTHER])[0] == {OTHER: KnownOrder(0, [D])}
