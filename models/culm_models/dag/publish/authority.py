"""Received UCANs, and the authorisation of publishes at their times of receipt (reference 4.5, R24, R25)."""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, UcanExpired, UcanNotYetValid, UcanProofMissing
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal, Published, authorise
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verified_ucan, verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules

_NOT_FINAL: Final = (UcanNotYetValid, UcanExpired, UcanProofMissing)


def is_final(error: DagError) -> bool:
    """Whether a refusal depends on the bytes only, so that no later block can change it (R25)."""
    return not isinstance(error, _NOT_FINAL)


class Authority:
    """All received UCANs, including refused ones, so that no publish waits for those."""

    __slots__ = ("_leaves", "_policy", "_settings", "_ucans")

    def __init__(self, settings: ValidationRules = DEFAULT_RULES) -> None:
        self._settings = settings
        self._policy = settings.chain_policy
        self._ucans: dict[Cid, Ucan | DagError] = {}
        # Leaves whose signatures were verified, so that no signature is verified twice.
        self._leaves: set[Cid] = set()

    def take(self, cid: Cid, data: bytes) -> DagError | None:
        """Add the block of a UCAN. Returns the error with which it is refused, or None."""
        ucan = self._ucans.get(cid)
        if ucan is None:
            try:
                ucan = verified_ucan(cid, data, legacy=self._settings.legacy, bounds=self._settings.bounds)
            except DagError as error:
                ucan = error
        return self.put(cid, ucan)

    def put(self, cid: Cid, ucan: Ucan | DagError) -> DagError | None:
        """Add a UCAN that was verified or refused elsewhere. Returns the error, or None."""
        known = self._ucans.setdefault(cid, ucan)
        return known if isinstance(known, DagError) else None

    def put_leaf(self, cid: Cid) -> None:
        """Record that the signature of a leaf was verified elsewhere."""
        self._leaves.add(cid)

    def judge(
        self, node: ReplicaNode, received: int, revoked: frozenset[Cid] = frozenset()
    ) -> ChainRefusal | None:
        """Check whether the received UCANs authorise a publish received at this time (seconds).

        Returns None if they do, and the refusal otherwise. UCANs in `revoked` do not count.
        """
        change = node.change
        if not isinstance(change, PublishChange):
            raise TypeError("only publishes are validated")
        if change.proof.cid not in self._leaves:
            try:
                verify_signature(change.proof)
            except DagError as error:
                return ChainRefusal(error, frozenset())
            self._leaves.add(change.proof.cid)
        return authorise(
            change.proof,
            _published(node.prior, change),
            self._ucans.get,
            received,
            policy=self._policy,
            revoked=revoked,
        )


def is_authorised_alone(
    prior: Cid | None, change: PublishChange, received: int, settings: ValidationRules
) -> bool:
    """Whether a leaf authorises its publish at a time of receipt without any other UCAN.

    The signature of the leaf must have been verified.
    """
    published = _published(prior, change)
    return authorise(change.proof, published, _find_none, received, policy=settings.chain_policy) is None


def _find_none(_: Cid) -> None:
    return None


def _published(prior: Cid | None, change: PublishChange) -> Published:
    fields = {"link": change.link, "origin": change.origin}
    if prior is not None:
        fields["prior"] = prior
    if change.shard is not None:
        fields["shard"] = change.shard
    return Published(did_key(change.id), fields)
