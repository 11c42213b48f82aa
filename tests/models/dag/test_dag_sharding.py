"""Cutting a DAG into shards (reference 3.5): the same CIDs everywhere, nothing lost, no CAR over its size."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car import read_car
from culm_models.dag.errors import DagError
from culm_models.dag.replica.store import ReplicaStore
from culm_models.dag.sharding import NO_ROOT, appends_of, blocks_in_order, cut_dag
from culm_models.dag.walk.reach import links_of


def drawn_dag(random: Random, count: int) -> tuple[Cid, dict[Cid, bytes]]:
    blocks: dict[Cid, bytes] = {}
    made: list[Cid] = []
    for number in range(count):
        below = random.sample(made, min(len(made), random.randrange(4)))
        filler = bytes(random.choice([0, 10, 300, 900, 1500]))
        block = encode_dag_cbor([number, filler, *below, *(made[-1:] if number == count - 1 else [])])
        made.append(cid_of(DAG_CBOR, block))
        blocks[made[-1]] = block
    return made[-1], blocks


def visited(cid: Cid, blocks: dict[Cid, bytes], seen: list[Cid]) -> list[Cid]:
    """The order by its definition."""
    if cid not in seen:
        seen.append(cid)
        for child in links_of(cid, blocks[cid]) or []:
            visited(child, blocks, seen)
    return seen


@given(st.integers(0, 1 << 32), st.integers(1, 12), st.integers(1024, 3000))
@settings(max_examples=40)
def test_a_cut_holds_every_block_once_in_order(seed: int, count: int, size: int) -> None:
    root, blocks = drawn_dag(Random(seed), count)
    shards = list(cut_dag(root, blocks.get, size))
    assert shards == list(cut_dag(root, dict(reversed(blocks.items())).get, size))
    cars = [read_car(shard.data) for shard in shards]
    order = [section.cid for car in cars for section in car.sections]
    assert order == visited(root, blocks, []) == [cid for cid, _ in blocks_in_order(root, blocks.get)]
    assert cars[0].roots == (root,)
    assert all(car.roots == (NO_ROOT,) for car in cars[1:])
    for shard, car, after in zip(shards, cars, [*cars[1:], None], strict=True):
        assert len(shard.data) <= size or len(car.sections) == 1
        if after is not None:
            # The next block would not have fitted.
            assert len(shard.data) + len(after.sections[0].data) + 38 > size


@given(st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_appends_name_all_shards(count: int, per_append: int, on_prior: bool) -> None:
    cids = [cid_of(0x0202, bytes([n])) for n in range(count)]
    prior = cid_of(DAG_CBOR, b"prior") if on_prior else None
    nodes = appends_of([*cids, cids[0]], prior, per_append=per_append)
    assert [node.prior for node in nodes] == [prior, *(node.cid for node in nodes[:-1])]
    assert [len(node.shards) for node in nodes[:-1]] == [per_append] * (len(nodes) - 1)
    store = ReplicaStore()
    for node in nodes:
        store.add(node.data)
    assert store.state((nodes[-1].cid,)).shards == set(cids)


def test_a_missing_block_and_one_that_is_too_large() -> None:
    leaf = cid_of(RAW, b"leaf")
    root = encode_dag_cbor([leaf])
    blocks = {cid_of(DAG_CBOR, root): root}
    with pytest.raises(DagError) as caught:
        list(cut_dag(cid_of(DAG_CBOR, root), blocks.get))
    assert caught.value.code == "dag.missing_block"
    large = bytes((2 << 20) + 1)
    with pytest.raises(DagError) as caught:
        list(cut_dag(cid_of(RAW, large), {cid_of(RAW, large): large}.get))
    assert caught.value.code == "dag.too_large"


def test_a_root_that_carries_its_bytes() -> None:
    root = make_cid(1, RAW, 0, b"x")
    (shard,) = cut_dag(root, lambda cid: None)
    car = read_car(shard.data)
    assert (car.roots, car.sections) == ((root,), ())
    leaf = cid_of(RAW, b"leaf")
    through = make_cid(1, DAG_CBOR, 0, encode_dag_cbor([leaf]))
    (shard,) = cut_dag(through, {leaf: b"leaf"}.get)
    assert [section.cid for section in read_car(shard.data).sections] == [leaf]
