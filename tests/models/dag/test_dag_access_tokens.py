"""UCANs that open a space (R14): exact ability, the space, a service as audience, time, and chains."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.ucan.chain import ChainPolicy, authorise, authorise_access
from culm_models.dag.ucan.chain import Published as PublishedFields
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.token import Ucan
from culm_models.testing.dag.replica import NOW
from tests.models.dag.signers import DIDS, KEYS, LINK, ORIGIN, ucan

SPACE, WRITER, SERVICE, OTHER = 0, 1, 2, 3
POLICY = ChainPolicy(services=frozenset([did_key(KEYS[SERVICE])]))


def code(leaf: Ucan, *proofs: Ucan, ability: str = "dag/append", policy: ChainPolicy = POLICY) -> str | None:
    here: dict[Cid, Any] = {proof.cid: proof for proof in proofs}
    refused = authorise_access(leaf, did_key(KEYS[SPACE]), ability, here.get, NOW, policy=policy)
    return None if refused is None else refused.error.code


def may(can: str = "dag/append", space: int = SPACE) -> dict[str, Any]:
    return {"can": can, "with": DIDS[space]}


@pytest.mark.parametrize("bound", [True, False])
def test_the_space_itself_and_whom_it_delegates_to_may(bound: bool) -> None:
    policy = ChainPolicy(bound=bound, services=POLICY.services)
    assert code(ucan(SPACE, SERVICE, may()), policy=policy) is None
    delegation = ucan(SPACE, WRITER, may("dag/*"))
    leaf = ucan(WRITER, SERVICE, may(), prf=[delegation.cid])
    assert code(leaf, delegation, policy=policy) is None
    assert code(leaf, policy=policy) == "dag.proof_missing"


@pytest.mark.parametrize(
    ("leaf", "refused"),
    [
        (ucan(SPACE, SERVICE, may("dag/read")), "dag.ability"),
        (ucan(SPACE, SERVICE, may("dag/*")), "dag.ability"),
        (ucan(SPACE, SERVICE, may("dag/publish")), "dag.ability"),
        (ucan(SPACE, SERVICE, may(space=OTHER)), "dag.resource"),
        (ucan(SPACE, SPACE, may()), "dag.audience"),
        (ucan(SPACE, OTHER, may()), "dag.audience"),
        (ucan(WRITER, SERVICE, may()), "dag.root_issuer"),
        (ucan(SPACE, SERVICE, {**may(), "nb": {"link": LINK}}), "dag.unbound"),
        (ucan(SPACE, SERVICE, may(), exp=NOW), "dag.expired"),
        (ucan(SPACE, SERVICE, may(), nbf=NOW + 1), "dag.not_yet_valid"),
    ],
)
def test_what_else_is_refused_with_its_code(leaf: Ucan, refused: str) -> None:
    assert code(leaf) == refused


def test_what_opens_a_space_is_no_proof_of_a_publish() -> None:
    fields = {"link": LINK, "origin": ORIGIN}
    published = PublishedFields(did_key(KEYS[SPACE]), fields)
    leaf = ucan(SPACE, SERVICE, {**may(), "nb": fields})
    refused = authorise(leaf, published, lambda cid: None, NOW, policy=POLICY)
    assert refused is not None and refused.error.code == "dag.ability"
