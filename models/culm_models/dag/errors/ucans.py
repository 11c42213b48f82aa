"""Why a UCAN does not authorise (reference 4.2 to 4.5)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class UcanVersionUnfit(DagError):
    """A version that is not accepted, or not in this form (R17)."""

    code: ClassVar[str] = "dag.ucan_version"


class UcanKey(DagError):
    """An issuer or audience that is no Ed25519 did:key in its one spelling (R19)."""

    code: ClassVar[str] = "dag.key"


class UcanSignature(DagError):
    """A signature of another kind or length, or one that does not verify."""

    code: ClassVar[str] = "dag.signature"


class JwtMalformed(DagError):
    """A text that is no JWT in its one spelling (4.3)."""

    code: ClassVar[str] = "dag.jwt"


class UcanAudience(DagError):
    """An audience that may not hand this on."""

    code: ClassVar[str] = "dag.audience"


class UcanAbility(DagError):
    """No capability has the ability."""

    code: ClassVar[str] = "dag.ability"


class UcanResource(DagError):
    """No capability is for the resource."""

    code: ClassVar[str] = "dag.resource"


class UcanUnbound(DagError):
    """The leaf does not name what is published (R20)."""

    code: ClassVar[str] = "dag.unbound"


class UcanAttenuation(DagError):
    """A delegation that allows less than what is published."""

    code: ClassVar[str] = "dag.attenuation"


class UcanRootIssuer(DagError):
    """The chain ends at somebody else than the id."""

    code: ClassVar[str] = "dag.root_issuer"


class UcanChainTooLong(DagError):
    """More delegations on a path than allowed."""

    code: ClassVar[str] = "dag.chain_too_long"


class UcanRevoked(DagError):
    """A UCAN that the id has revoked before this place of the order (R32)."""

    code: ClassVar[str] = "dag.revoked"


class UcanNotYetValid(DagError):
    """Received before a UCAN begins to be valid."""

    code: ClassVar[str] = "dag.not_yet_valid"


class UcanExpired(DagError):
    """Received after a UCAN has expired."""

    code: ClassVar[str] = "dag.expired"


class UcanProofMissing(DagError):
    """A proof is not here; with it there may be a good chain."""

    code: ClassVar[str] = "dag.proof_missing"
