"""Adds a writer's nodes to a folder: appends of shards, joins right before them, publishes and delegations.

Only writers create joins (R13), and only when they need a single head. Nodes are put and validated like those
of anybody else; the caller commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count
from typing import Any, Final

from culm_connectors.dag.errors import DagRefusedError
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import BlockOutcome
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, NodeMissing, NothingToJoin, UcanRevoked, UcanRootIssuer
from culm_models.dag.publish.states import PublishState
from culm_models.dag.replica.codec import decode_node, encode_join, encode_node, proof_value
from culm_models.dag.replica.node import PublishChange
from culm_models.dag.sharding import PER_APPEND_MAX, appends_of
from culm_models.dag.ucan.claims import REVOKE, revoked_by
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.signing import issue_ucan, verified_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.wire.messages import AckStatus
from culm_models.keys import KeyPair

PUBLISH: Final = "dag/publish"
_PROOFS_MAX: Final = 16


def put_own(folder: DagFolder, space: bytes, block: bytes, *, now: int) -> BlockOutcome:
    """Put a node or a UCAN. Raises `DagRefusedError` if the folder does not keep it."""
    (outcome,) = folder.put_blocks(space, [block], received_at=now)
    if outcome.status not in (AckStatus.DURABLE, AckStatus.HAD):
        raise DagRefusedError(f"{outcome.cid} is not kept: {outcome.code}")
    return outcome


def join_heads(folder: DagFolder, space: bytes, *, now: int) -> Cid:
    """Join the heads of a space, of which there are at least two; returns the join. Raises `NothingToJoin`.

    A head with a missing ancestor is left out: strangers may send any number of them, and an ancestor of such
    a head may look like a head itself.
    """
    heads = folder.queries.whole_heads(space)
    if len(heads) < 2:
        raise NothingToJoin("fewer than two heads whose ancestors are all present")
    return put_own(folder, space, encode_join(heads).data, now=now).cid


def single_head(folder: DagFolder, space: bytes, *, now: int) -> Cid | None:
    """Return the only head of a space, after a join if there are several; None if there is none.

    Heads whose ancestors are not all here are left out, as in `join_heads`.
    """
    heads = folder.queries.whole_heads(space)
    if len(heads) > 1:
        return join_heads(folder, space, now=now)
    return heads[0] if heads else None


def append_shards(
    folder: DagFolder, space: bytes, shards: Sequence[Cid], *, now: int, per_append: int = PER_APPEND_MAX
) -> Cid:
    """Append shards to a space; returns the last append, which is the origin of their content."""
    prior = single_head(folder, space, now=now)
    *_, origin = (
        put_own(folder, space, node.data, now=now).cid
        for node in appends_of(shards, prior, per_append=per_append)
    )
    return origin


def publish_link(
    folder: DagFolder,
    key: KeyPair,
    id: bytes,
    link: Cid,
    *,
    now: int,
    origin: Cid | None = None,
    shard: Cid | None = None,
    proofs: Sequence[Cid] | None = None,
    revokes: Iterable[Cid] = (),
    expires: int | None = None,
) -> BlockOutcome:
    """Publish a link under an id, on the tip. By default the origin is the head of the id's own space.

    If the key is not the id, the proofs are by default the delegations to that key which are here. Raises as
    `delegations_to` if none of them is valid.
    """
    origin = origin or single_head(folder, id, now=now)
    if origin is None:
        raise NodeMissing("the space of the id is empty: nothing can be published out of it")
    prior = folder.tip(id)
    named = {"link": link, "origin": origin, "prior": prior, "shard": shard}
    revoked = sorted(set(revokes))
    ucan = _issue(
        folder,
        key,
        id,
        {"can": PUBLISH, "nb": {name: value for name, value in named.items() if value is not None}},
        audience=did_key(id),
        expires=expires,
        proofs=proofs,
        facts=[{REVOKE: revoked}] if revoked else [],
    )
    change = {"type": "publish", "id": id, "link": link, "origin": origin, "proof": proof_value(ucan)}
    if shard is not None:
        change["shard"] = shard
    return put_own(folder, id, encode_node(change, prior).data, now=now)


def delegate(
    folder: DagFolder,
    key: KeyPair,
    id: bytes,
    audience: bytes,
    *,
    now: int,
    ability: str = PUBLISH,
    proofs: Sequence[Cid] | None = None,
    expires: int | None = None,
) -> Ucan:
    """Delegate an ability under an id to another key (a did:key of 34 bytes); the UCAN is put into its space.

    The same arguments make the same UCAN, unless that UCAN is revoked: then a different nonce makes a new
    one.
    """
    revoked = revoked_in(folder, id)
    for number in count():
        ucan = _issue(
            folder,
            key,
            id,
            {"can": ability},
            audience=audience,
            expires=expires,
            proofs=proofs,
            nonce=str(number) if number else None,
        )
        if ucan.cid not in revoked:
            break
    put_own(folder, id, ucan.block, now=now)
    return ucan


def revoked_in(folder: DagFolder, id: bytes) -> frozenset[Cid]:
    """Return the UCANs that the id has revoked by its publishes (R32)."""
    verdict = folder.settings.verdict
    revoked: set[Cid] = set()
    for publish in folder.published(id).order:
        block = folder.read_node(publish.cid)
        if block is None or publish.state is PublishState.REVOKED:
            continue
        change = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds).change
        if isinstance(change, PublishChange) and change.proof.claims.issuer == did_key(id):
            revoked.update(revoked_by(change.proof.claims))
    return frozenset(revoked)


def delegations_to(folder: DagFolder, id: bytes, audience: bytes) -> list[Cid]:
    """Return the UCANs in an id's space that entitle a key, ascending; at most as many as a UCAN may name.

    Raises `UcanRevoked` if all delegations to the key depend on a revoked UCAN, `UcanRootIssuer` if there are
    none.
    """
    verdict = folder.settings.verdict
    revoked = revoked_in(folder, id)

    @cache
    def counts(cid: Cid, depth: int) -> bool:
        """Return whether a path to the id has no revoked UCAN, as far as its UCANs are here."""
        block = folder.read_ucan(cid)
        if cid in revoked or block is None:
            return cid not in revoked
        claims = verified_ucan(cid, block, legacy=verdict.legacy).claims
        if claims.issuer == did_key(id):
            return True
        return depth < verdict.bounds.delegations and any(counts(proof, depth + 1) for proof in claims.proofs)

    to_key = []
    for cid, block in folder.queries.nodes(id):
        try:
            ucan = verified_ucan(cid, block, legacy=verdict.legacy)
        except DagError:
            continue
        if ucan.claims.audience == audience:
            to_key.append(cid)
    if not to_key:
        raise UcanRootIssuer("no delegation to this key is in the space of the id")
    valid = [cid for cid in to_key if counts(cid, 1)]
    if not valid:
        raise UcanRevoked(f"the delegation {to_key[0]} to this key is revoked, or one that it builds on")
    return valid[:_PROOFS_MAX]


def _issue(
    folder: DagFolder,
    key: KeyPair,
    id: bytes,
    capability: dict[str, Any],
    *,
    audience: bytes,
    expires: int | None,
    proofs: Sequence[Cid] | None,
    facts: Sequence[dict[str, Any]] = (),
    nonce: str | None = None,
) -> Ucan:
    if proofs is None:
        own = key.public_key == id
        proofs = [] if own else delegations_to(folder, id, did_key(key.public_key))
    fields: dict[str, Any] = {
        "att": [{"with": did_text(did_key(id)), **capability}],
        "aud": audience,
        "exp": expires,
        "prf": list(proofs),
    }
    if facts:
        fields["fct"] = list(facts)
    if nonce is not None:
        fields["nnc"] = nonce
    return issue_ucan(key.private_key, fields)
