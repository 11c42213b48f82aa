"""Rules of a UCAN's fields (reference 4.2, R18), which apply to both forms."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid
from culm_models.dag.bounds import DagBounds
from culm_models.dag.errors import DagError, LinkRepeated, LinksUnsorted, NodeSchema, UcanKey
from culm_models.dag.ucan.did_key import is_did_key
from culm_models.dag.ucan.token import Capability, Claims

REQUIRED: Final = frozenset({"att", "aud", "exp", "iss", "prf"})
OPTIONAL: Final = frozenset({"fct", "nbf", "nnc"})
REVOKE: Final = "dag/revoke"

_TIME_MAX: Final = (1 << 53) - 1
_REVOKED_MAX: Final = 64
_ABILITY: Final = re.compile(r"[!-@\[-~]+")
_RESOURCE: Final = re.compile("[a-z][a-z0-9+.-]*:[^\\s\ufeff]+")
_CAPABILITY_KEYS: Final = frozenset({"can", "with", "nb"})


def check_fields(fields: dict[str, Any], bounds: DagBounds) -> None:
    """Check every field, but not the form of the keys of issuer and audience. Raises `NodeSchema`."""
    for name in ("iss", "aud"):
        _require(isinstance(fields[name], bytes), f"{name} is no key")
    _check_capabilities(fields["att"])
    _check_time(fields["exp"], "exp", 0)
    if "nbf" in fields:
        _require(fields["nbf"] is not None, "nbf is null")
        _check_time(fields["nbf"], "nbf", 1)
    if "nnc" in fields:
        _require(isinstance(fields["nnc"], str) and fields["nnc"] != "", "nnc is no text, or empty")
    if "fct" in fields:
        facts = fields["fct"]
        _require(isinstance(facts, list) and bool(facts), "fct is no list, or empty")
        for fact in facts:
            _require(isinstance(fact, dict), "a fact is no map")
            _check_plain(fact)
    proofs = fields["prf"]
    _require(
        isinstance(proofs, list) and len(proofs) <= bounds.proofs,
        f"prf is not a list of at most {bounds.proofs} links",
    )
    _require(all(is_proof_link(proof) for proof in proofs), "a proof that is no link to a UCAN")


def check_keys(fields: dict[str, Any]) -> None:
    """Check that issuer and audience are Ed25519 did:keys. Raises `UcanKey`."""
    for name in ("iss", "aud"):
        if not is_did_key(fields[name]):
            raise UcanKey(f"{name} is no Ed25519 did:key")


def is_proof_link(value: Any) -> bool:
    """Whether a value is a link whose CID may be that of a UCAN."""
    return (
        isinstance(value, Cid) and value.version == 1 and value.codec in (DAG_CBOR, RAW) and value.is_sha2_256
    )


def claims_of(version: str, fields: dict[str, Any]) -> Claims:
    """Build the claims from checked fields."""
    return Claims(
        version,
        fields["iss"],
        fields["aud"],
        tuple(
            Capability(capability["can"], capability["with"], capability.get("nb"))
            for capability in fields["att"]
        ),
        fields["exp"],
        fields.get("nbf"),
        fields.get("nnc"),
        tuple(fields.get("fct", ())),
        tuple(fields["prf"]),
    )


def revoked_by(claims: Claims) -> tuple[Cid, ...]:
    """Return the UCANs that a leaf issued by the id itself revokes (R32).

    Raises `NodeSchema` if the fact `dag/revoke` is malformed.
    """
    revoking = [fact for fact in claims.facts if REVOKE in fact]
    if not revoking:
        return ()
    _require(len(revoking) == 1 and len(revoking[0]) == 1, "dag/revoke is not alone in one map")
    links = revoking[0][REVOKE]
    _require(isinstance(links, list) and 0 < len(links) <= _REVOKED_MAX, "not 1 to 64 revoked UCANs")
    _require(all(is_proof_link(link) for link in links), "what is revoked is no link to a UCAN")
    try:
        check_ascending(links)
    except DagError as error:
        raise NodeSchema(f"what is revoked: {error}") from None
    return tuple(links)


def check_ascending(links: list[Cid] | tuple[Cid, ...]) -> None:
    """Check that CIDs strictly ascend by text.

    Raises `LinkRepeated` or `LinksUnsorted`, whichever applies to the first pair of neighbours at fault.
    """
    for before, after in pairwise(links):
        if before == after:
            raise LinkRepeated(f"{after} is named twice")
        if after < before:
            raise LinksUnsorted(f"{after} stands behind {before}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise NodeSchema(message)


def _check_time(value: Any, name: str, least: int) -> None:
    fits = value is None or (type(value) is int and least <= value <= _TIME_MAX)
    _require(fits, f"{name} is no time")


def _check_capabilities(value: Any) -> None:
    _require(isinstance(value, list), "att is no list")
    for capability in value:
        _require(isinstance(capability, dict), "a capability is no map")
        _require(_CAPABILITY_KEYS >= capability.keys() >= {"can", "with"}, "a capability with other keys")
        can, resource = capability["can"], capability["with"]
        _require(isinstance(can, str) and is_ability(can), "can is no ability")
        _require(
            isinstance(resource, str) and _RESOURCE.fullmatch(resource) is not None, "with is no resource"
        )
        if "nb" in capability:
            _require(isinstance(capability["nb"], dict), "nb is no map")
            _check_plain(capability["nb"])


def is_ability(text: str) -> bool:
    """Whether a text is an ability: `*`, or a namespace and a name separated by `/`."""
    if text == "*":
        return True
    return _ABILITY.fullmatch(text) is not None and 0 < text.find("/") < len(text) - 1


def _check_plain(value: Any) -> None:
    """Check that a value has no float and no map key "/", whose JSON would be ambiguous.

    Raises `NodeSchema`.
    """
    if isinstance(value, float):
        raise NodeSchema("a float")
    if isinstance(value, dict):
        _require("/" not in value, "a map with the key /")
        for item in value.values():
            _check_plain(item)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item)
