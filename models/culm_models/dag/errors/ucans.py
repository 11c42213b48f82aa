"""Why a UCAN does not authorise (reference 4.2 to 4.5)."""

from culm_models.dag.errors.base import DagError


class UcanVersionUnfit(DagError, code="dag.ucan_version"):
    """A version that is not accepted, or not in this form (R17)."""


class UcanKey(DagError, code="dag.key"):
    """An issuer or audience that is no Ed25519 did:key in its one spelling (R19)."""


class UcanSignature(DagError, code="dag.signature"):
    """A signature of another kind or length, or one that does not verify."""


class JwtMalformed(DagError, code="dag.jwt"):
    """A text that is no JWT in its one spelling (4.3)."""


class UcanAudience(DagError, code="dag.audience"):
    """An audience that may not hand this on."""


class UcanAbility(DagError, code="dag.ability"):
    """No capability has the ability."""


class UcanResource(DagError, code="dag.resource"):
    """No capability is for the resource."""


class UcanUnbound(DagError, code="dag.unbound"):
    """The leaf does not name what is published (R20)."""


class UcanAttenuation(DagError, code="dag.attenuation"):
    """A delegation that allows less than what is published."""


class UcanRootIssuer(DagError, code="dag.root_issuer"):
    """The chain ends at somebody else than the id."""


class UcanChainTooLong(DagError, code="dag.chain_too_long"):
    """More delegations on a path than allowed."""


class UcanRevoked(DagError, code="dag.revoked"):
    """A UCAN that the id has revoked before this place of the order (R32)."""


class UcanNotYetValid(DagError, code="dag.not_yet_valid"):
    """Received before a UCAN begins to be valid."""


class UcanExpired(DagError, code="dag.expired"):
    """Received after a UCAN has expired."""


class UcanProofMissing(DagError, code="dag.proof_missing"):
    """A proof is not here; with it there may be a good chain."""
