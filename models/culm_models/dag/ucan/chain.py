"""Authorisation of publishes by a leaf and its chain of delegations (reference 4.4, 4.5, R20, R22, R24, R32).

The search is first made without regard to time: a failure there is permanent. A missing proof may still
authorise, so it ranks last among the reasons of a refusal.
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

# If a search fails for several reasons, the one that ranks last here is reported.
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
"""Returns a UCAN with valid form and signature, the error if it is invalid, or None if it is missing."""


@dataclass(frozen=True, slots=True)
class Published:
    """The content of a publish, which its proof must allow."""

    id: bytes
    """The 34 bytes of the id's did:key."""
    fields: dict[str, Cid]
    """The fields `link` and `origin`, and `prior` and `shard` if the publish has them."""


@dataclass(frozen=True, slots=True)
class ChainPolicy:
    """The part of a deployment's validation rules that applies to chains (R28)."""

    bound: bool = True
    services: frozenset[bytes] = frozenset()
    leeway: int = 0
    delegations: int = DEFAULT_BOUNDS.delegations


@dataclass(frozen=True, slots=True)
class ChainRefusal:
    """No valid path: the reason, and the missing proofs that might complete one."""

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
    """Check whether a leaf authorises a publish received at a time (seconds).

    Returns None if it does, and the refusal otherwise. If `received` is None, times of validity are not
    checked.
    """
    for time in (None,) if received is None else (None, received):
        search = _Search(published, find, time, policy, revoked)
        if not search.leaf_is_good(leaf, (published.id, leaf.claims.issuer, *policy.services)):
            return ChainRefusal(search.error(), frozenset(search.missing))
    return None


def authorise_access(
    leaf: Ucan, space: bytes, ability: str, find: FindUcan, now: int, *, policy: ChainPolicy
) -> ChainRefusal | None:
    """Check whether a leaf with valid form and signature allows `dag/append` or `dag/read` now (R14).

    Returns None if it does, and the refusal otherwise. Under both policies the leaf must name exactly this
    ability and the space (the 34 bytes of a did:key), and its audience must be a service of the deployment.
    The proof of a publish therefore grants no access, and an access token proves no publish.
    """
    for time in (None, now):
        search = _Search(Published(space, {}), find, time, policy, frozenset(), ability)
        if not search.leaf_is_good(leaf, tuple(policy.services)):
            return ChainRefusal(search.error(), frozenset(search.missing))
    return None


class _Search:
    """A search for a valid path from the leaf to the id."""

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
        """Return the failure that ranks last in `_RANKED`."""
        return max(self._failures.values(), key=lambda error: _RANK.get(type(error), -1))

    def leaf_is_good(self, leaf: Ucan, audiences: tuple[bytes, ...]) -> bool:
        """Whether the leaf has the required audience and capability and its issuer has the right."""
        claims = leaf.claims
        if claims.issuer == self._published.id:
            try:
                revoked_by(claims)
            except DagError as error:
                return self._fails(error)
        if leaf.cid in self._revoked:
            return self._fails(UcanRevoked("the leaf is revoked"))
        if claims.audience not in audiences:
            return self._fails(UcanAudience("the audience of the leaf is another key"))
        if not claims.capabilities:
            return self._fails(UcanAbility("the leaf has no capability"))
        fits = [self._leaf_fits(capability) for capability in claims.capabilities]
        return any(fits) and self._entitled(leaf, 0)

    def _leaf_fits(self, capability: Capability) -> bool:
        if capability.can != self._ability:
            return self._fails(UcanAbility(f"the leaf has not the ability {self._ability}"))
        if capability.resource != self._did:
            return self._fails(UcanResource("the leaf is for another resource"))
        if not self._is_bound(capability):
            return self._fails(UcanUnbound("the leaf does not name what is published"))
        return True

    def _is_bound(self, capability: Capability) -> bool:
        named = capability.nb or {}
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
        """Whether the issuer of a UCAN with a fitting capability has the right that it delegates."""
        claims = ucan.claims
        if self._time is not None:
            if claims.not_before is not None and claims.not_before > self._time + self._policy.leeway:
                return self._fails(UcanNotYetValid("received before it was valid"))
            if claims.expires is not None and self._time - self._policy.leeway >= claims.expires:
                return self._fails(UcanExpired("received when it had expired"))
        if claims.issuer == self._published.id:
            return True
        if not claims.proofs:
            return self._fails(UcanRootIssuer("the chain does not end at the id"))
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
            return self._fails(UcanAudience("the audience of a proof is another key"))
        if (cid, depth) in self._looked_at:
            return False
        self._looked_at.add((cid, depth))
        if not proof.claims.capabilities:
            return self._fails(UcanAbility("a proof has no capability"))
        fits = [self._proof_fits(capability) for capability in proof.claims.capabilities]
        return any(fits) and self._entitled(proof, depth)

    def _proof_fits(self, capability: Capability) -> bool:
        namespace = capability.can.endswith("/*") and self._ability.startswith(capability.can[:-1])
        if not (capability.can in (self._ability, "*") or namespace):
            return self._fails(UcanAbility("a proof does not cover the ability"))
        if capability.resource not in (self._did, "ucan:*"):
            return self._fails(UcanResource("a proof does not cover the resource"))
        if not self._names_only(capability.nb or {}):
            return self._fails(UcanAttenuation("a proof allows less"))
        return True

    def _fails(self, error: DagError) -> bool:
        self._failures.setdefault(type(error), error)
        return False
