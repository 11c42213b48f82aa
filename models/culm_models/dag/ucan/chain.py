"""Does a leaf, with the delegations below it, authorise a publish? (reference 4.4, 4.5, R20, R22, R24, R32)

The search is first made without a clock: what fails then fails for ever. What is missing may still authorise,
so it stands last among the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.errors import (
    BlockTooLarge,
    CidMalformed,
    DagError,
    JwtMalformed,
    NodeSchema,
    NonCanonical,
    ProofForm,
    UcanAbility,
    UcanAttenuation,
    UcanAudience,
    UcanChainTooLong,
    UcanExpired,
    UcanKey,
    UcanNotYetValid,
    UcanProofMissing,
    UcanResource,
    UcanRevoked,
    UcanRootIssuer,
    UcanSignature,
    UcanUnbound,
    UcanVersionUnfit,
)
from culm_models.dag.ucan.claims import revoked_by
from culm_models.dag.ucan.did_key import did_text
from culm_models.dag.ucan.token import Capability, Ucan

PUBLISH: Final = "dag/publish"

# The reason that stands last is given.
_RANKED: Final = (
    ProofForm,
    BlockTooLarge,
    JwtMalformed,
    NonCanonical,
    CidMalformed,
    NodeSchema,
    UcanVersionUnfit,
    UcanKey,
    UcanSignature,
    UcanAudience,
    UcanAbility,
    UcanResource,
    UcanUnbound,
    UcanAttenuation,
    UcanRootIssuer,
    UcanChainTooLong,
    UcanRevoked,
    UcanNotYetValid,
    UcanExpired,
    UcanProofMissing,
)
_RANK: Final = {kind: place for place, kind in enumerate(_RANKED)}

FindUcan = Callable[[Cid], Ucan | DagError | None]
"""A UCAN whose form and signature are good, why they are not, or None while it is not here."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish says, and what its proof must allow."""

    id: bytes
    """The 34 bytes of the id's did:key."""
    fields: dict[str, Cid]
    """link, origin, and prior and shard where the publish has them."""


@dataclass(frozen=True, slots=True)
class ChainPolicy:
    """What of a deployment's verdict settings decides about chains (R28)."""

    bound: bool = True
    services: frozenset[bytes] = frozenset()
    leeway: int = 0
    delegations: int = DEFAULT_BOUNDS.delegations


@dataclass(frozen=True, slots=True)
class ChainRefusal:
    """No good path: why, and what is not here but might make one."""

    error: DagError
    missing: frozenset[Cid]


def authorise(
    leaf: Ucan,
    published: Published,
    find: FindUcan,
    received: int | None,
    *,
    policy: ChainPolicy,
    revoked: frozenset[Cid] = frozenset(),
) -> ChainRefusal | None:
    """None when the leaf authorises. Without a time of receipt: the part of the verdict without clock."""
    for time in (None,) if received is None else (None, received):
        search = _Search(published, find, time, policy, revoked)
        if not search.leaf_is_good(leaf, (published.id, leaf.claims.issuer, *policy.services)):
            return ChainRefusal(search.error(), frozenset(search.missing))
    return None


def authorise_access(
    leaf: Ucan, space: bytes, ability: str, find: FindUcan, now: int, *, policy: ChainPolicy
) -> ChainRefusal | None:
    """None when the leaf, whose form and signature are good, allows `dag/append` or `dag/read` now (R14).

    It names exactly this ability and the space, which is the 34 bytes of a did:key, under both policies, and
    is for a service of the deployment: so a proof of a publish opens nothing, and what opens is no proof.
    """
    for time in (None, now):
        search = _Search(Published(space, {}), find, time, policy, frozenset(), ability)
        if not search.leaf_is_good(leaf, tuple(policy.services)):
            return ChainRefusal(search.error(), frozenset(search.missing))
    return None


class _Search:
    """One search for a good path."""

    __slots__ = (
        "_ability",
        "_did",
        "_failures",
        "_find",
        "_looked_at",
        "_policy",
        "_published",
        "_revoked",
        "_time",
        "missing",
    )

    def __init__(
        self,
        published: Published,
        find: FindUcan,
        time: int | None,
        policy: ChainPolicy,
        revoked: frozenset[Cid],
        ability: str = PUBLISH,
    ) -> None:
        self._ability = ability
        self._published = published
        self._did = did_text(published.id)
        self._find = find
        self._time = time
        self._policy = policy
        self._revoked = revoked
        self._failures: dict[type[DagError], DagError] = {}
        self._looked_at: set[tuple[Cid, int]] = set()
        self.missing: set[Cid] = set()

    def error(self) -> DagError:
        """The failure that stands last in the list."""
        return max(self._failures.values(), key=lambda error: _RANK.get(type(error), -1))

    def leaf_is_good(self, leaf: Ucan, audiences: tuple[bytes, ...]) -> bool:
        """Whether the leaf is for what it is shown for, and its issuer entitled."""
        claims = leaf.claims
        if claims.issuer == self._published.id:
            try:
                revoked_by(claims)
            except DagError as error:
                return self._fails(error)
        if leaf.cid in self._revoked:
            return self._fails(UcanRevoked("the leaf is revoked"))
        if claims.audience not in audiences:
            return self._fails(UcanAudience("the leaf is a delegation to somebody else"))
        if not claims.capabilities:
            return self._fails(UcanAbility("the leaf has no capability"))
        fits = [self._leaf_fits(one) for one in claims.capabilities]
        return any(fits) and self._entitled(leaf, 0)

    def _leaf_fits(self, one: Capability) -> bool:
        if one.can != self._ability:
            return self._fails(UcanAbility(f"the leaf has not the ability {self._ability}"))
        if one.resource != self._did:
            return self._fails(UcanResource("the leaf is for another resource"))
        if not self._is_bound(one):
            return self._fails(UcanUnbound("the leaf does not name what is published"))
        return True

    def _is_bound(self, one: Capability) -> bool:
        named = one.nb or {}
        if self._policy.bound and named.keys() != self._published.fields.keys():
            return False
        return self._names_only(named)

    def _names_only(self, named: dict[str, object]) -> bool:
        fields = self._published.fields
        return all(
            name in fields and isinstance(value, Cid) and value == fields[name]
            for name, value in named.items()
        )

    def _entitled(self, ucan: Ucan, depth: int) -> bool:
        """Whether the issuer of a UCAN whose capability fits may do what it says."""
        claims = ucan.claims
        if self._time is not None:
            if claims.not_before is not None and claims.not_before > self._time + self._policy.leeway:
                return self._fails(UcanNotYetValid("received before it was valid"))
            if claims.expires is not None and self._time - self._policy.leeway >= claims.expires:
                return self._fails(UcanExpired("received when it had expired"))
        if claims.issuer == self._published.id:
            return True
        if not claims.proofs:
            return self._fails(UcanRootIssuer("the chain ends at somebody else than the id"))
        if depth == self._policy.delegations:
            return self._fails(UcanChainTooLong(f"more than {depth} delegations"))
        return any(self._delegates(cid, ucan, depth + 1) for cid in dict.fromkeys(claims.proofs))

    def _delegates(self, cid: Cid, to: Ucan, depth: int) -> bool:
        proof = UcanRevoked("a proof is revoked") if cid in self._revoked else self._find(cid)
        if proof is None:
            self.missing.add(cid)
            return self._fails(UcanProofMissing(f"the proof {cid} is not here"))
        if isinstance(proof, DagError):
            return self._fails(proof)
        if proof.claims.audience != to.claims.issuer:
            return self._fails(UcanAudience("a proof was given to somebody else"))
        if (cid, depth) in self._looked_at:
            return False
        self._looked_at.add((cid, depth))
        if not proof.claims.capabilities:
            return self._fails(UcanAbility("a proof has no capability"))
        fits = [self._proof_fits(one) for one in proof.claims.capabilities]
        return any(fits) and self._entitled(proof, depth)

    def _proof_fits(self, one: Capability) -> bool:
        namespace = one.can.endswith("/*") and self._ability.startswith(one.can[:-1])
        if not (one.can in (self._ability, "*") or namespace):
            return self._fails(UcanAbility("a proof does not cover the ability"))
        if one.resource not in (self._did, "ucan:*"):
            return self._fails(UcanResource("a proof does not cover the resource"))
        if not self._names_only(one.nb or {}):
            return self._fails(UcanAttenuation("a proof allows less"))
        return True

    def _fails(self, error: DagError) -> bool:
        self._failures.setdefault(type(error), error)
        return False
