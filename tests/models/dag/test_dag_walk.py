"""Links, shards and walks (reference 3.3): what is here, what is missing, what nobody can open."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.dag_pb import PbLink, PbNode, decode_dag_pb, encode_dag_pb
from culm_models.dag.blocks.protobuf import write_number, write_octets
from culm_models.dag.car import read_car, write_car
from culm_models.dag.errors import DagError, DagPbMalformed
from culm_models.dag.replica.store import ReplicaStore
from culm_models.dag.sharding import NO_ROOT, appends_of, blocks_in_order, cut_dag
from culm_models.dag.walk.reach import links_of, reach
from culm_models.dag.walk.shard_blocks import is_opaque, open_shard
from tests.models.dag.drawn_values import CIDS, TEXTS

LEAF = cid_of(RAW, b"leaf")
PB_LINKS = st.builds(PbLink, CIDS, st.none() | TEXTS, st.none() | st.integers(0, (1 << 64) - 1))


@given(st.lists(PB_LINKS, max_size=4), st.none() | st.binary(max_size=20))
def test_dag_pb_comes_back(links: list[PbLink], data: bytes | None) -> None:
    node = PbNode(tuple(links), data)
    block = encode_dag_pb(node)
    assert decode_dag_pb(block) == node
    assert links_of(cid_of(DAG_PB, block), block) == [link.cid for link in links]
    if data is not None:
        # Data first is read as well.
        tail = write_octets(1, data)
        assert decode_dag_pb(tail + block[: -len(tail)]) == node


HASH = write_octets(1, LEAF.raw)
LINK = write_octets(2, HASH)


@pytest.mark.parametrize(
    "block",
    [
        write_octets(3, b""),
        write_number(1, 1),
        write_number(2, 1),
        write_octets(1, b"") * 2,
        LINK + write_octets(1, b"") + LINK,
        write_octets(2, b""),
        write_octets(2, write_octets(2, b"name") + HASH),
        write_octets(2, HASH + HASH),
        write_octets(2, HASH + write_number(3, 1) + write_octets(2, b"n")),
        write_octets(2, HASH + write_octets(4, b"")),
        write_octets(2, HASH + write_octets(3, b"")),
        write_octets(2, HASH + write_octets(2, b"\xff")),
        write_octets(2, write_octets(1, LEAF.raw + b"\0")),
        write_octets(2, write_octets(1, b"")),
        LINK[:-1],
        b"\x0d\0\0\0\0",
        b"\x0a",
        b"\x0a\x80\x00",
        b"\xff" * 11,
    ],
)
def test_other_dag_pb_is_a_leaf(block: bytes) -> None:
    with pytest.raises(DagPbMalformed):
        decode_dag_pb(block)
    cid = cid_of(DAG_PB, block)
    assert links_of(cid, block) is None
    reached = reach([cid], {cid: block}.get)
    assert (reached.have, reached.opaque, reached.missing) == ([cid], {cid}, set())


@given(st.binary(max_size=60))
def test_any_bytes_are_a_node_or_refused(data: bytes) -> None:
    for codec in (DAG_PB, DAG_CBOR, DAG_JSON, RAW, 0x0202):
        links = links_of(make_cid(1, codec, 0x12, bytes(32)), data)
        assert links is None or isinstance(links, list)


def test_links_in_the_order_of_the_bytes() -> None:
    a, b = cid_of(RAW, b"a"), cid_of(RAW, b"b")
    block = encode_dag_cbor({"z": a, "aa": [b, {"x": LEAF}, a]})
    assert links_of(cid_of(DAG_CBOR, block), block) == [a, b, LEAF, a]
    text = ('{ "z":{"/":"' + a.text + '"},\n "a":{"/":"' + b.text + '"}}').encode()
    assert links_of(cid_of(DAG_JSON, text), text) == [a, b]
    assert links_of(cid_of(DAG_JSON, b"{}{}"), b"{}{}") is None
    assert links_of(make_cid(1, 0x99, 0x12, bytes(32)), b"") is None


@given(st.dictionaries(st.integers(0, 12), st.lists(st.integers(0, 12), max_size=3), max_size=8))
def test_a_walk_reaches_what_a_set_reaches(graph: dict[int, list[int]]) -> None:
    """Blocks link to smaller numbers alone, so that they can be made; numbers without block are missing."""
    cids: dict[int, Cid] = {}
    blocks: dict[Cid, bytes] = {}
    for number in range(13):
        below = [cids[child] for child in graph.get(number, ()) if child < number]
        block = encode_dag_cbor([number, *below])
        cids[number] = cid_of(DAG_CBOR, block)
        if number in graph:
            blocks[cids[number]] = block
    for number in range(13):
        expected: set[int] = {number}
        while True:
            more = expected | {child for n in expected for child in graph.get(n, ()) if child < n}
            if more == expected:
                break
            expected = more
        reached = reach([cids[number]], blocks.get)
        assert len(reached.have) == len(set(reached.have))
        assert set(reached.have) == {cids[n] for n in expected if n in graph}
        assert reached.missing == {cids[n] for n in expected if n not in graph}


def test_a_deep_chain_is_walked_without_recursion() -> None:
    blocks: dict[Cid, bytes] = {}
    cid = LEAF
    for _ in range(5000):
        block = encode_dag_cbor([cid])
        cid = cid_of(DAG_CBOR, block)
        blocks[cid] = block
    assert len(reach([cid], blocks.get).have) == 5000


def test_shards_that_are_maps() -> None:
    value: dict[str, Any] = {"blocks": [{"hello": "world"}, 1, 1], "roots": [LEAF]}
    data = encode_dag_cbor(value)
    shard = open_shard(cid_of(DAG_CBOR, data), data)
    assert shard.roots == (LEAF,)
    assert list(shard.blocks.values()) == [encode_dag_cbor({"hello": "world"}), b"\x01"]
    others: list[Any] = [[], {}, {"blocks": {}}, {"blocks": [], "more": 1}, {"blocks": [], "roots": [1]}]
    for other in others:
        data = encode_dag_cbor(other)
        with pytest.raises(DagError) as caught:
            open_shard(cid_of(DAG_CBOR, data), data)
        assert caught.value.code == "dag.shard"
    with pytest.raises(DagError) as caught:
        open_shard(cid_of(DAG_CBOR, b"\x18\x01"), b"\x18\x01")
    assert caught.value.code == "dag.shard"


def test_opaque_shards() -> None:
    assert not is_opaque(cid_of(CAR, b""))
    assert not is_opaque(cid_of(DAG_CBOR, b""))
    assert is_opaque(cid_of(RAW, b""))
    assert is_opaque(make_cid(1, CAR, 0x1E, bytes(32)))
    assert not is_opaque(make_cid(1, CAR, 0x1E, bytes(32)), {0x1E})
    data = write_car([], [(LEAF, b"leaf")] * 2)
    assert list(open_shard(cid_of(CAR, data), data).blocks) == [LEAF]


# Cutting a DAG into shards (reference 3.5): the same CIDs everywhere, nothing lost, no CAR over its size.


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
