"""Operations on UCANs (reference 4)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, as_mapping
from culm_models.conform.dag.arguments import as_cid, as_cids, block_to_json, blocks_of, cid_of
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_json import from_dag_json
from culm_models.dag.errors import DagError
from culm_models.dag.ucan.chain import Published, authorise
from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.ucan.forms import jwt_text, ucan_from_jwt
from culm_models.dag.ucan.signing import issue_ucan, verified_ucan, verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import POLICIES, ValidationRules

_TIME_MAX: Final = (1 << 53) - 1


def settings_of(arguments: Arguments) -> ValidationRules:
    """Return the arguments ``policy``, ``legacy``, ``services`` and ``leeway``."""
    policy = arguments.word("policy", {policy: policy for policy in POLICIES}, default="bound")
    services = arguments.texts("services") if arguments.has("services") else []
    return ValidationRules(
        policy,
        arguments.flag("legacy", False),
        tuple(did_from_text(text) for text in services),
        arguments.integer("leeway", max_value=_TIME_MAX, default=0),
    )


def now_of(arguments: Arguments) -> int:
    """Return the argument ``now``, in seconds."""
    return arguments.integer("now", max_value=_TIME_MAX)


def _verify(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    settings = settings_of(arguments)
    legacy = settings.legacy
    blocks = dict(blocks_of(arguments, "blocks", [] if arguments.has("jwt") else None))
    published = Published(did_from_text(arguments.text("subject")), _published_fields(arguments))
    now = now_of(arguments)
    if arguments.has("jwt"):
        leaf = ucan_from_jwt(arguments.text("jwt"), legacy=legacy)
        verify_signature(leaf)
    else:
        cid = cid_of(arguments, "leaf")
        if cid not in blocks:
            raise ArgumentError("leaf is not among the blocks")
        leaf = verified_ucan(cid, blocks[cid], legacy=legacy)

    def find(cid: Cid) -> Ucan | DagError | None:
        if cid not in blocks:
            return None
        try:
            return verified_ucan(cid, blocks[cid], legacy=legacy)
        except DagError as error:
            return error

    refused = authorise(leaf, published, find, now, policy=settings.chain_policy)
    if refused is not None:
        raise refused.error
    return {"valid": True}


def _published_fields(arguments: Arguments) -> dict[str, Cid]:
    members = arguments.mapping("publish")
    fields = {
        name: as_cid(members[name], name)
        for name in ("link", "origin", "prior", "shard")
        if members.get(name) is not None or (name in ("link", "origin") and name in members)
    }
    if not {"link", "origin"} <= fields.keys():
        raise ArgumentError("publish has no link or no origin")
    return fields


def _issue(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "att": [_capability(capability) for capability in arguments.items("capabilities")],
        "exp": _time(arguments, "expires") if arguments.has("expires") else None,
        "prf": as_cids(arguments.items("proofs", []), "proofs"),
    }
    private_key = arguments.octets("private_key", size=32)
    fields["aud"] = did_from_text(arguments.text("audience"))
    if arguments.has("not_before"):
        fields["nbf"] = _time(arguments, "not_before")
    if arguments.has("nonce"):
        fields["nnc"] = arguments.text("nonce")
    if arguments.has("facts"):
        fields["fct"] = from_dag_json(arguments.items("facts"))
    ucan = issue_ucan(private_key, fields)
    return {**block_to_json(ucan.cid, ucan.block), "jwt": jwt_text(ucan)}


def _time(arguments: Arguments, name: str) -> int:
    """Return a time as given; the model checks whether a UCAN can have it."""
    return arguments.integer(name, min_value=-_TIME_MAX, max_value=1 << 64)


def _capability(value: Any) -> Any:
    return from_dag_json(as_mapping(value, "a capability"))


OPERATIONS: Final = (
    ConformOperation(
        "ucan.verify",
        "leaf (CID) and blocks, or jwt and blocks? (of proofs); subject (did:key), publish ({link, origin,"
        " prior?, shard?}), now (seconds), policy? (bound or bearer; bound), legacy? (false),"
        " services? ([did:key]), leeway? (0)",
        "valid",
        _verify,
    ),
    ConformOperation(
        "ucan.issue",
        "private_key, audience (did:key), capabilities ([{can, with, nb?}]), expires? (seconds), proofs?,"
        " not_before?, nonce?, facts?",
        "bytes, cid, jwt",
        _issue,
    ),
)
