"""The publish machine (reference 3.3, 4.5, 5.4): what came, not when, decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import blake3
import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.multihash import BLAKE3, DEFAULT_HASHES
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.car import write_car
from culm_models.dag.errors import DagError
from culm_models.dag.publish.machine import PublishMachine, Taken
from culm_models.dag.replica.codec import encode_append, encode_join, encode_node, proof_value
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import ValidationRules
from tests.models.dag.signers import DIDS, KEYS, publish, ucan

Block = tuple[Cid, bytes, int]
NOW = 1000
ID = KEYS[0]
LEAF = encode_dag_cbor("leaf")
ROOT = encode_dag_cbor([cid_of(DAG_CBOR, LEAF)])
ROOT_CID, LEAF_CID = cid_of(DAG_CBOR, ROOT), cid_of(DAG_CBOR, LEAF)
ROOT_CAR = write_car([ROOT_CID], [(ROOT_CID, ROOT)])
LEAF_CAR = write_car([], [(LEAF_CID, LEAF)])
WHOLE = encode_append([cid_of(CAR, ROOT_CAR), cid_of(CAR, LEAF_CAR)])
HALF = encode_append([cid_of(CAR, ROOT_CAR)])
GRANT = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]})


def of_node(node: ReplicaNode, now: int = NOW) -> Block:
    return node.cid, node.data, now


def of_ucan(token: Ucan, now: int = NOW) -> Block:
    return token.cid, token.block, now


def of_car(data: bytes) -> Block:
    return cid_of(CAR, data), data, NOW


def delegated(
    prior: Cid | None = None,
    *,
    grant: Ucan = GRANT,
    link: Cid = ROOT_CID,
    origin: Cid = WHOLE.cid,
    others: Sequence[Ucan] = (),
    **fields: Any,
) -> ReplicaNode:
    """A publish by another key, with a proof."""
    nb = {"link": link, "origin": origin, **({} if prior is None else {"prior": prior})}
    leaf = ucan(
        1,
        0,
        {"can": "dag/publish", "with": DIDS[0], "nb": nb},
        prf=[proof.cid for proof in (grant, *others)],
        **fields,
    )
    change = {"type": "publish", "id": ID, "link": link, "origin": origin, "proof": proof_value(leaf)}
    return encode_node(change, prior)


def taken(
    blocks: list[Block], machine: PublishMachine | None = None
) -> tuple[PublishMachine, list[Taken | str]]:
    machine = machine or PublishMachine()
    outcomes: list[Taken | str] = []
    for block in blocks:
        try:
            outcomes.append(machine.add(*block))
        except DagError as error:
            outcomes.append(error.code.removeprefix("dag."))
    return machine, outcomes


def picture(machine: PublishMachine) -> Any:
    order = machine.order(ID)
    # What only a clock refused waits or is forgotten, as it came before its proof or behind it.
    return order.order(), order.tip, machine.states(ID), set(machine.refused)


def scene(random: Random) -> list[Block]:
    """Publishes on each other by the id and by another key, with what they need, and what breaks rules."""
    second = ucan(0, 1, {"can": "*", "with": "ucan:*"}, exp=NOW)
    never = ucan(2, 1, {"can": "*", "with": "ucan:*"})
    nodes: list[ReplicaNode] = []
    for number in range(random.randrange(3, 9)):
        prior = random.choice([None, *(node.cid for node in nodes)])
        origin = random.choice([WHOLE.cid, HALF.cid, cid_of(DAG_CBOR, b"none")])
        link = random.choice([ROOT_CID, ROOT_CID, LEAF_CID])
        kind = random.randrange(6)
        if kind < 2:
            fact = {"dag/revoke": [GRANT.cid]} if kind else {"number": number}
            nodes.append(publish(prior=prior, origin=origin, link=link, fct=[fact]))
        elif kind < 5:
            grant = (GRANT, second, never)[kind - 2]
            nodes.append(delegated(prior, origin=origin, link=link, grant=grant, nnc=f"{number}"))
        else:
            nodes.append(encode_append([], prior))
    blocks = [of_node(node) for node in nodes] + [of_node(WHOLE), of_node(HALF)]
    blocks += [of_ucan(token) for token in (GRANT, second, never)] + [of_car(ROOT_CAR), of_car(LEAF_CAR)]
    # Publishes may be received again, in time or not.
    again = [of_node(node, NOW + random.choice([-1, 1, 7])) for node in nodes]
    return [*blocks, of_node(nodes[0], NOW - 1), of_node(nodes[-1], NOW - 1), *again]


@pytest.mark.parametrize("seed", range(25))
def test_the_order_of_arrival_decides_nothing(seed: int) -> None:
    random = Random(seed)
    blocks = scene(random)
    expected = picture(settled(blocks))
    for _ in range(3):
        random.shuffle(blocks)
        assert picture(settled(blocks + random.sample(blocks, 3))) == expected


def test_a_receipt_that_stands_after_a_revocation_counts_whichever_came_first() -> None:
    early = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]}, exp=NOW + 1)
    late = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]}, nbf=NOW + 1)
    revoking = publish(fct=[{"dag/revoke": [early.cid]}])
    node = delegated(revoking.cid, grant=early, others=[late])
    blocks = [of_ucan(early), of_ucan(late), of_node(revoking), of_node(node), of_node(node, NOW + 1)]
    for received in permutations(blocks):
        machine, _ = taken(list(received))
        assert machine.states(ID)[node.cid].value == "pending", received
    machine, _ = taken(blocks[:4])
    assert machine.states(ID)[node.cid].value == "revoked"


def settled(blocks: list[Block]) -> PublishMachine:
    """What was refused by a clock alone is not kept: a sender sends it again."""
    machine, _ = taken(blocks)
    return taken(blocks, machine)[0]


def test_a_publish_waits_for_proof_and_prior_and_takes_along_what_waits_for_it() -> None:
    first, second = delegated(), None
    second = delegated(first.cid)
    machine, outcomes = taken([of_node(second), of_node(first)])
    assert outcomes == [Taken("publish", (GRANT.cid,), False), Taken("publish", (GRANT.cid,), False)]
    answer = machine.add(*of_ucan(GRANT))
    assert (answer.orders[ID].tip, answer.orders[ID].start, answer.orders[ID].changed) == (second.cid, 0, 2)
    assert machine.waiting(ID) == []


def test_a_refused_proof_is_awaited_no_more() -> None:
    broken = bytearray(GRANT.block)
    broken[40] ^= 1
    forged = cid_of(DAG_CBOR, bytes(broken))
    nb = {"link": ROOT_CID, "origin": WHOLE.cid}
    leaf = ucan(1, 0, {"can": "dag/publish", "with": DIDS[0], "nb": nb}, prf=[forged])
    change = {"type": "publish", "id": ID, "link": ROOT_CID, "origin": WHOLE.cid, "proof": proof_value(leaf)}
    node = encode_node(change, None)
    child = publish(prior=node.cid)
    machine, outcomes = taken([of_node(child), of_node(node), (forged, bytes(broken), NOW)])
    assert isinstance(outcomes[2], str)
    assert {cid: error.code for cid, error in machine.refused.items()} == {
        node.cid: f"dag.{outcomes[2]}",
        child.cid: "dag.prior_refused",
    }
    assert taken([of_node(node)], machine)[1] == [outcomes[2]]


def test_a_clock_refuses_one_receipt_and_nothing_more() -> None:
    grant = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]}, exp=NOW)
    node = delegated(grant=grant)
    child = delegated(node.cid)
    machine, outcomes = taken([of_ucan(grant), of_ucan(GRANT), of_node(node), of_node(child)])
    assert outcomes[2:] == ["expired", Taken("publish", (node.cid,), False)]
    answer = machine.add(*of_node(node, NOW - 1))
    assert answer.is_admitted
    assert answer.orders[ID].changed == 2
    assert machine.add(*of_node(node, NOW + 5)) == Taken("publish", is_admitted=True)
    early = delegated(nbf=NOW + 1)
    assert taken([of_node(early), of_node(early, NOW + 1)], machine)[1][0] == "not_yet_valid"
    assert early.cid in machine.order(ID)


@pytest.mark.parametrize(
    ("origin", "shards", "link", "expected"),
    [
        (WHOLE, [], ROOT_CID, "pending"),
        (WHOLE, [ROOT_CAR], ROOT_CID, "pending"),
        (WHOLE, [ROOT_CAR, LEAF_CAR], ROOT_CID, "complete"),
        (WHOLE, [ROOT_CAR, LEAF_CAR], cid_of(RAW, b"elsewhere"), "broken"),
        (WHOLE, [ROOT_CAR, LEAF_CAR], make_cid(1, RAW, 0, b"x"), "complete"),
        (HALF, [ROOT_CAR], ROOT_CID, "partial"),
        (HALF, [ROOT_CAR, LEAF_CAR], LEAF_CID, "broken"),
        (encode_append([cid_of(RAW, b"x")]), [], ROOT_CID, "opaque"),
        (encode_append([cid_of(RAW, b"x"), cid_of(CAR, ROOT_CAR)]), [], ROOT_CID, "pending"),
        (encode_join([WHOLE.cid, HALF.cid]), [ROOT_CAR], ROOT_CID, "pending"),
        (publish(), [ROOT_CAR], ROOT_CID, "broken"),
    ],
)
def test_states(origin: ReplicaNode, shards: list[bytes], link: Cid, expected: str) -> None:
    node = publish(link=link, origin=origin.cid)
    machine, _ = taken([of_node(node)])
    assert machine.states(ID)[node.cid] == "pending"
    taken([of_node(origin), *map(of_car, shards)], machine)
    assert machine.states(ID)[node.cid] == expected


def test_a_hash_function_counts_where_the_verdict_settings_have_it() -> None:
    digest = blake3.blake3(ROOT_CAR).digest()
    shard = make_cid(1, CAR, BLAKE3, digest)
    origin = encode_append([shard, cid_of(CAR, LEAF_CAR)])
    node = publish(link=ROOT_CID, origin=origin.cid)
    blocks = [of_node(node), of_node(origin), (shard, ROOT_CAR, 10), of_car(LEAF_CAR)]
    machine, outcomes = taken(blocks)
    assert outcomes[2] == "hash_unsupported"
    assert machine.states(ID)[node.cid] == "opaque"
    settings = ValidationRules(hashes=(*DEFAULT_HASHES, BLAKE3))
    machine, _ = taken(blocks, PublishMachine(settings))
    assert machine.states(ID)[node.cid] == "complete"
    wrong = make_cid(1, CAR, BLAKE3, digest[:31])
    assert taken([(wrong, ROOT_CAR, 10)], PublishMachine(settings))[1] == ["hash"]


def test_bounds_are_those_of_the_verdict_settings() -> None:
    small = ValidationRules(bounds=replace(DEFAULT_BOUNDS, shards=1, car=len(ROOT_CAR) - 1, ucan=100))
    two = of_node(encode_append([cid_of(CAR, b"1"), cid_of(CAR, b"2")]))
    blocks = [two, of_car(ROOT_CAR), of_node(publish())]
    assert taken(blocks, PublishMachine(small))[1] == ["too_many", "too_large", "too_large"]
    assert not {"too_many", "too_large"} & {
        outcome for outcome in taken(blocks)[1] if isinstance(outcome, str)
    }


def test_a_revocation_counts_from_its_place_on() -> None:
    before = delegated()
    revoking = publish(prior=before.cid, fct=[{"dag/revoke": [GRANT.cid]}])
    after = delegated(revoking.cid)
    last = publish(prior=after.cid)
    machine, _ = taken([of_ucan(GRANT), *map(of_node, (last, after, revoking, before))])
    assert machine.order(ID).order() == [node.cid for node in (before, revoking, after, last)]
    states = machine.states(ID)
    assert [states[node.cid].value for node in (before, revoking, after, last)] == [
        "pending",
        "pending",
        "revoked",
        "pending",
    ]


def test_what_lost_a_race_is_superseded() -> None:
    ends = sorted([publish(fct=[{"n": n}]) for n in range(2)], key=lambda node: node.cid)
    machine = PublishMachine()
    machine.add(*of_node(ends[0]))
    answer = machine.add(*of_node(ends[1]))
    assert answer.orders[ID].superseded == ends[0].cid
    assert machine.add(*of_node(publish(prior=ends[1].cid))).orders[ID].superseded is None


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ((cid_of(0x70, b""), b"", NOW), "unknown_block"),
        ((make_cid(1, CAR, 0x1E, bytes(32)), b"", NOW), "hash_unsupported"),
        ((ROOT_CID, LEAF, NOW), "hash"),
        ((cid_of(CAR, b""), b"", NOW), "car_header"),
        ((cid_of(RAW, b"x"), b"x", NOW), "jwt"),
        ((cid_of(DAG_CBOR, b"\xf7"), b"\xf7", NOW), "non_canonical"),
        ((ROOT_CID, ROOT, NOW), "schema"),
    ],
)
def test_blocks_that_are_nothing(block: Block, expected: str) -> None:
    machine, outcomes = taken([block, block])
    assert outcomes == [expected] * 2
    assert machine.order(ID).tip is None


def test_under_bearer_a_proof_is_worth_what_its_leaf_says() -> None:
    leaf = ucan(0, 0, {"can": "dag/publish", "with": DIDS[0]})
    change = {"type": "publish", "id": ID, "link": ROOT_CID, "origin": WHOLE.cid, "proof": proof_value(leaf)}
    block = of_node(encode_node(change, None))
    assert taken([block])[1] == ["unbound"]
    bearer = PublishMachine(ValidationRules("bearer"))
    assert taken([block], bearer)[1] != ["unbound"]
    assert bearer.order(ID).tip == block[0]
