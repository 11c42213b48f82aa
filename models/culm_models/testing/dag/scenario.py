"""The data to replicate in one run: spaces, DAGs with joins and shards, publishes with delegations."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.replica.codec import encode_append, encode_join, encode_node, proof_value
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.signing import issue_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.keys import KeyPair

SEEDS = tuple(bytes([40 + n]) * 32 for n in range(4))
SPACES = tuple(KeyPair(seed).public_key for seed in SEEDS)
_LARGE_BLOCK = 500_000


@dataclass(slots=True)
class DagScenario:
    """Nodes, and shards, each with its space, CID and bytes."""

    nodes: list[tuple[bytes, Cid, bytes]] = field(default_factory=list)
    shards: list[tuple[bytes, Cid, bytes]] = field(default_factory=list)
    spaces: tuple[bytes, ...] = ()


@cache
def large_shard(number: int) -> tuple[Cid, bytes]:
    """Return a shard of several chunks."""
    return _shard([random.Random(number).randbytes(_LARGE_BLOCK) for _ in range(2 + number)])


def _shard(blocks: list[bytes]) -> tuple[Cid, bytes]:
    cids = [cid_of(RAW, block) for block in blocks]
    data = car_header([cids[0]]) + b"".join(map(car_section, cids, blocks))
    return cid_of(CAR, data), data


def draw_scenario(rng: random.Random) -> DagScenario:
    """Draw one to three spaces, each with a DAG of appends and joins, and with publishes."""
    scenario = DagScenario(spaces=SPACES[: rng.choice((1, 1, 2, 3))])
    for number, space in enumerate(scenario.spaces):
        origins = _draw_dag(rng, scenario, space)
        if scenario.shards and rng.random() < 0.3:
            # A shard that was received in one space is named in another.
            borrowed = encode_append([rng.choice(scenario.shards)[1]])
            scenario.nodes.append((space, borrowed.cid, borrowed.data))
        _draw_publishes(rng, scenario, number, origins)
    return scenario


def _draw_dag(rng: random.Random, scenario: DagScenario, space: bytes) -> list[Cid]:
    made: list[Cid] = []
    heads: set[Cid] = set()
    for _ in range(rng.randint(1, 12)):
        if len(heads) > 1 and rng.random() < 0.3:
            node = encode_join(heads)
            heads = set()
        else:
            shards = [_draw_shard(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
            scenario.shards += [(space, cid, data) for cid, data in shards]
            prior = rng.choice(made) if made and rng.random() < 0.8 else None
            node = encode_append([cid for cid, _ in shards], prior)
            heads.discard(prior or node.cid)
        heads.add(node.cid)
        made.append(node.cid)
        scenario.nodes.append((space, node.cid, node.data))
    return made


def _draw_shard(rng: random.Random) -> tuple[Cid, bytes]:
    if rng.random() < 0.03:
        return large_shard(rng.randrange(2))
    return _shard([rng.randbytes(rng.randint(1, 200)) for _ in range(rng.randint(1, 3))])


def _draw_publishes(rng: random.Random, scenario: DagScenario, number: int, origins: list[Cid]) -> None:
    made: list[Cid] = []
    for _ in range(rng.randint(0, 4)):
        origin = rng.choice(origins)
        link = cid_of(RAW, rng.randbytes(4))
        prior = rng.choice(made) if made and rng.random() < 0.8 else None
        named = {"link": link, "origin": origin, **({} if prior is None else {"prior": prior})}
        proof = _draw_proof(rng, scenario, number, named)
        change = {
            "type": "publish",
            "id": SPACES[number],
            "link": link,
            "origin": origin,
            "proof": proof_value(proof),
        }
        node = encode_node(change, prior)
        scenario.nodes.append((SPACES[number], node.cid, node.data))
        made.append(node.cid)


def _draw_proof(rng: random.Random, scenario: DagScenario, id: int, named: dict[str, Any]) -> Ucan:
    """Draw a leaf of the id itself, or of another key to which the right was delegated."""
    did = did_text(did_key(SPACES[id]))
    others = [other for other in range(len(SEEDS)) if other != id]
    chain = [id, *rng.sample(others, rng.choice((0, 0, 1, 2)))]
    proofs: list[Cid] = []
    for issuer, audience in pairwise(chain):
        parent = _issue(issuer, audience, [{"can": "dag/*", "with": did}], proofs)
        scenario.nodes.append((SPACES[id], parent.cid, parent.block))
        proofs = [parent.cid]
    return _issue(chain[-1], id, [{"can": "dag/publish", "with": did, "nb": named}], proofs)


def _issue(issuer: int, audience: int, capabilities: list[dict[str, Any]], proofs: list[Cid]) -> Ucan:
    fields = {"att": capabilities, "aud": did_key(SPACES[audience]), "exp": None, "prf": proofs}
    return issue_ucan(SEEDS[issuer], fields)
