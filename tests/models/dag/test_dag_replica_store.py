"""Stores of nodes (reference 3.2): what a set says does not depend on the order in which it came."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, Cid, cid_of
from culm_models.dag.errors import DagError
from culm_models.dag.replica.codec import encode_append, encode_join
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.replica.store import ReplicaStore
from tests.models.dag.signers import publish

SHARDS = [cid_of(CAR, bytes([n])) for n in range(8)]


def drawn_nodes(random: Random, size: int, *, wrong: bool) -> list[ReplicaNode]:
    """Appends and joins on earlier ones; with `wrong`, also nodes that break the rules of chains."""
    nodes: dict[Cid, ReplicaNode] = {}
    for _ in range(size):
        if wrong and random.random() < 0.2:
            node = publish(id=random.randrange(2), prior=random.choice([None, *nodes]))
        else:
            parents = random.sample(list(nodes), min(len(nodes), random.randrange(4)))
            shards = random.sample(SHARDS, random.randrange(3))
            prior = parents[0] if parents else None
            node = encode_join(parents) if len(parents) > 1 else encode_append(shards, prior)
        nodes[node.cid] = node
    return list(nodes.values())


def below(nodes: dict[Cid, ReplicaNode], cid: Cid) -> set[Cid]:
    """All that a node builds on, itself too, by the definition."""
    return {cid}.union(*(below(nodes, parent) for parent in nodes[cid].parents))


def picture(store: ReplicaStore) -> Any:
    state = store.state()
    # Which of its faults a node fell for may differ; that it fell does not.
    return store.heads(), state.shards, state.missing, set(store.nodes), set(store.refused)


def taken(nodes: list[ReplicaNode]) -> ReplicaStore:
    store = ReplicaStore()
    for node in nodes:
        try:
            store.add(node.data)
        except DagError as error:
            assert store.refused[node.cid] is error
    return store


@given(st.randoms(use_true_random=False), st.integers(1, 12))
@settings(max_examples=40)
def test_heads_states_and_joins_are_what_their_definitions_say(random: Random, size: int) -> None:
    nodes = {node.cid: node for node in drawn_nodes(random, size, wrong=False)}
    store = taken(list(nodes.values()))
    reach = {cid: below(nodes, cid) for cid in nodes}
    heads = [cid for cid in nodes if not any(cid in reach[other] for other in nodes if other != cid)]
    assert store.heads() == sorted(heads)
    for cid in nodes:
        shards = {shard for reached in reach[cid] for shard in nodes[reached].shards}
        assert store.state((cid,)).shards == shards
    asked = random.sample(sorted(nodes), random.randrange(len(nodes)) + 1)
    tops = {cid for cid in asked if not any(cid in reach[other] for other in asked if other != cid)}
    if len(tops) > 1:
        join = store.join(asked)
        assert join == encode_join(tops)
        assert store.add(join.data)[1] == []
        assert store.state((join.cid,)).shards == store.state(tops).shards
    else:
        with pytest.raises(DagError) as caught:
            store.join(asked)
        assert caught.value.code == "dag.nothing_to_join"


@given(st.randoms(use_true_random=False), st.integers(1, 10))
@settings(max_examples=40)
def test_the_order_of_arrival_decides_nothing(random: Random, size: int) -> None:
    nodes = drawn_nodes(random, size, wrong=True)
    first = picture(taken(nodes))
    for _ in range(2):
        random.shuffle(nodes)
        assert picture(taken(nodes)) == first
    assert picture(taken(nodes + nodes)) == first


@given(st.randoms(use_true_random=False), st.integers(2, 10))
@settings(max_examples=40)
def test_a_node_that_lacks_something_says_so(random: Random, size: int) -> None:
    nodes = drawn_nodes(random, size, wrong=False)
    gone = nodes.pop(random.randrange(len(nodes)))
    store = taken(nodes)
    named = {parent for node in nodes for parent in node.parents}
    assert store.state().missing == ({gone.cid} & named)
    for node in nodes:
        assert store.missing_parents(node) == [cid for cid in node.parents if cid == gone.cid]
    if gone.cid in named:
        with pytest.raises(DagError) as caught:
            store.join()
        assert caught.value.code == "dag.missing"


def test_three_writers_mint_one_join() -> None:
    a1 = encode_append([SHARDS[0]])
    a2, b2, c2 = (encode_append([SHARDS[n]], a1.cid) for n in (1, 2, 3))
    joins = {taken([a1, *order]).join().cid for order in ([a2, b2, c2], [c2, a2, b2], [b2, c2, a2])}
    assert len(joins) == 1


def test_what_builds_on_a_refused_node_falls_with_it() -> None:
    root = publish(id=0)
    other = publish(id=1, prior=root.cid)
    child = publish(id=1, prior=other.cid)
    store = ReplicaStore()
    assert store.add(child.data)[1] == []
    assert store.add(other.data)[1] == []
    _, fallen = store.add(root.data)
    assert {refused.cid: refused.error.code for refused in fallen} == {
        other.cid: "dag.id_changed",
        child.cid: "dag.prior_refused",
    }
    for node, code in ((other, "dag.id_changed"), (child, "dag.prior_refused")):
        with pytest.raises(DagError) as caught:
            store.add(node.data)
        assert caught.value.code == code


def test_children_of_a_block_that_is_no_node_fall() -> None:
    broken = b"\xa0"
    child = encode_append([], cid_of(DAG_CBOR, broken))
    for order in ([broken, child.data], [child.data, broken]):
        store = ReplicaStore()
        for data in order:
            try:
                store.add(data)
            except DagError:
                continue
        assert store.refused[child.cid].code == "dag.prior_refused"
        assert store.heads() == []


def test_a_long_chain_is_walked_without_recursion() -> None:
    store = ReplicaStore()
    prior: Cid | None = None
    for n in range(3000):
        node = encode_append([SHARDS[n % 8]], prior)
        store.add(node.data)
        prior = node.cid
    assert prior is not None
    assert store.state((prior,)).shards == set(SHARDS)
