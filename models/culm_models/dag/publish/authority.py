"""UCANs that are here, and who may publish by them at which receipt (reference 4.5, R24, R25)."""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, UcanExpired, UcanNotYetValid, UcanProofMissing
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal, Published, authorise
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verified_ucan, verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.verdict import DEFAULT_VERDICT, VerdictSettings

_NOT_FINAL: Final = (UcanNotYetValid, UcanExpired, UcanProofMissing)


def is_final(error: DagError) -> bool:
    """Whether a refusal is a function of bytes alone, so that it stays whatever comes (R25)."""
    return not isinstance(error, _NOT_FINAL)


class Authority:
    """All UCANs that came, refused ones as well: nobody waits for those."""

    __slots__ = ("_leaves", "_policy", "_settings", "_ucans")

    def __init__(self, settings: VerdictSettings = DEFAULT_VERDICT) -> None:
        self._settings = settings
        self._policy = settings.chain_policy
        self._ucans: dict[Cid, Ucan | DagError] = {}
        # Of leaves, those whose signatures were verified: no block is verified twice.
        self._leaves: set[Cid] = set()

    def take(self, cid: Cid, data: bytes) -> DagError | None:
        """Take a UCAN's block; why it is refused, if it is."""
        found = self._ucans.get(cid)
        if found is None:
            try:
                found = verified_ucan(cid, data, legacy=self._settings.legacy, bounds=self._settings.bounds)
            except DagError as error:
                found = error
        return self.put(cid, found)

    def put(self, cid: Cid, ucan: Ucan | DagError) -> DagError | None:
        """As `take`, for a UCAN that was verified elsewhere, or refused there."""
        found = self._ucans.setdefault(cid, ucan)
        return found if isinstance(found, DagError) else None

    def put_leaf(self, cid: Cid) -> None:
        """The signature of a leaf was verified elsewhere."""
        self._leaves.add(cid)

    def judge(
        self, node: ReplicaNode, received: int, revoked: frozenset[Cid] = frozenset()
    ) -> ChainRefusal | None:
        """None when a publish, received at this time, is authorised by what is here."""
        change = node.change
        if not isinstance(change, PublishChange):
            raise TypeError("only publishes are judged")
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
    prior: Cid | None, change: PublishChange, received: int, settings: VerdictSettings
) -> bool:
    """Whether a leaf, whose signature is good, authorises its publish at a receipt whatever else is here."""
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
