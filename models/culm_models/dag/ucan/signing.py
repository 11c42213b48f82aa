"""Signatures of UCANs: issuing, and verification by libsodium's acceptance rule (R21)."""

from __future__ import annotations

from typing import Any

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import BlockUnknown, UcanSignature
from culm_models.dag.ucan.claims import check_fields, check_keys, claims_of
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.forms import SIGNATURE_SIZE, map_of, signed_text, ucan_from_block, ucan_from_raw
from culm_models.dag.ucan.token import VERSION, Ucan
from culm_models.keys import KeyPair, verify


def verify_signature(ucan: Ucan) -> None:
    """Verify the issuer's signature. Raises `UcanSignature`."""
    if not verify(ucan.claims.issuer[2:], ucan.signature, ucan.signed_text):
        raise UcanSignature("the issuer did not sign this")


def verified_ucan(cid: Cid, data: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> Ucan:
    """Decode a block and verify the UCAN's form and signature. Raises `DagError`.

    The caller has checked that the block matches its CID.
    """
    if cid.codec == RAW:
        ucan = ucan_from_raw(data, legacy=legacy, bounds=bounds)
    elif cid.codec == DAG_CBOR:
        ucan = ucan_from_block(data, legacy=legacy, bounds=bounds)
    else:
        raise BlockUnknown("no UCAN is in a block of this codec")
    verify_signature(ucan)
    return ucan


def issue_ucan(private_key: bytes, fields: dict[str, Any], *, bounds: DagBounds = DEFAULT_BOUNDS) -> Ucan:
    """Issue a UCAN in map form from the fields att, aud, exp, prf and, optionally, fct, nbf, nnc.

    Raises the `DagError` with which a reader would refuse the UCAN.
    """
    key = KeyPair(private_key)
    fields = {**fields, "iss": did_key(key.public_key)}
    check_fields(fields, bounds)
    check_keys(fields)
    claims = claims_of(VERSION, fields)
    # Encoded as DAG-CBOR first, so that a value without an encoding is refused with that code.
    map_of(claims, bytes(SIGNATURE_SIZE))
    signature = key.sign(signed_text(claims))
    return ucan_from_block(map_of(claims, signature), bounds=bounds)
