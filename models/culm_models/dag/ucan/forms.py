"""The two forms of a UCAN: a DAG-CBOR map, and a JWT (reference 4.2, 4.3). No signature is verified here."""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, cid_from_text, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.dag_json import encode_dag_json, encode_plain_dag_json, from_dag_json, strict_json
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import (
    BlockTooLarge,
    DagError,
    JwtMalformed,
    NodeSchema,
    UcanSignature,
    UcanVersionUnfit,
)
from culm_models.dag.ucan.claims import OPTIONAL, REQUIRED, check_fields, check_keys, claims_of
from culm_models.dag.ucan.did_key import did_from_text, did_text
from culm_models.dag.ucan.token import LEGACY_VERSION, VERSION, Claims, Ucan

SIGNATURE_SIZE: Final = 64
_EDDSA: Final = b"\xed\xa1\x03\x40"
_LONG_NAMES: Final = {
    "issuer": "iss",
    "audience": "aud",
    "capabilities": "att",
    "expiration": "exp",
    "proofs": "prf",
    "version": "v",
    "signature": "s",
    "facts": "fct",
    "nonce": "nnc",
    "notBefore": "nbf",
}
_JWT_PARTS: Final = 3


def ucan_from_block(data: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> Ucan:
    """Decode the UCAN in a block of codec 0x71. Raises `DagError`."""
    _require_within_limit(len(data), bounds)
    return ucan_from_map(decode_dag_cbor(data), data, legacy=legacy, bounds=bounds)


def ucan_from_map(
    value: Any, data: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS
) -> Ucan:
    """Decode a UCAN from a map whose canonical bytes are `data`. Raises `DagError`."""
    _require_within_limit(len(data), bounds)
    if not isinstance(value, dict):
        raise NodeSchema("a UCAN is a map")
    is_long = "v" not in value
    if is_long and value.keys() <= _LONG_NAMES.keys():
        value = {_LONG_NAMES[name]: item for name, item in value.items()}
    if not {"v", "s", *REQUIRED, *OPTIONAL} >= value.keys() >= {"v", "s", *REQUIRED}:
        raise NodeSchema("a UCAN with other keys than it has")
    version = value["v"]
    if not isinstance(version, str):
        raise NodeSchema("the version is no text")
    if version != (LEGACY_VERSION if is_long else VERSION) or (is_long and not legacy):
        raise UcanVersionUnfit(f"version {version[:20]!r} in the {'long' if is_long else 'short'} form")
    check_fields(value, bounds)
    if not isinstance(value["s"], bytes):
        raise NodeSchema("the signature is no bytes")
    check_keys(value)
    signature = value["s"]
    if not is_long:
        if not signature.startswith(_EDDSA):
            raise UcanSignature("not an EdDSA signature")
        signature = signature[len(_EDDSA) :]
    if len(signature) != SIGNATURE_SIZE:
        raise UcanSignature(f"not a signature of {SIGNATURE_SIZE} bytes")
    claims = claims_of(version, value)
    return Ucan(claims, signature, signed_text(claims), cid_of(DAG_CBOR, data), data)


def ucan_from_jwt(text: str, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> Ucan:
    """Decode a UCAN from a JWT. Its block is the text, as raw bytes. Raises `DagError`."""
    try:
        data = text.encode("ascii")
    except UnicodeEncodeError:
        # The size limit counts characters that are not ASCII by their size in UTF-8.
        _require_within_limit(len(text.encode(errors="surrogatepass")), bounds)
        raise JwtMalformed("letters that no JWT has") from None
    _require_within_limit(len(data), bounds)
    written = data.split(b".")
    if len(written) != _JWT_PARTS:
        raise JwtMalformed("not exactly three parts")
    header_json, payload_json, signature = (_from_base64url(part) for part in written)
    try:
        header = strict_json(header_json, floats=False)
        payload = strict_json(payload_json, floats=False)
    except DagError as error:
        raise JwtMalformed(f"JSON that is not strict: {error}") from None
    if not isinstance(payload, dict):
        raise JwtMalformed("a payload that is not a map")
    version = _version_of(header)
    if version != VERSION and not (legacy and version == LEGACY_VERSION):
        raise UcanVersionUnfit(f"version {version[:20]!r}")
    fields = _fields_of(payload, bounds)
    check_keys(fields)
    if len(signature) != SIGNATURE_SIZE:
        raise UcanSignature(f"not a signature of {SIGNATURE_SIZE} bytes")
    return Ucan(
        claims_of(version, fields), signature, written[0] + b"." + written[1], cid_of(RAW, data), data
    )


def ucan_from_raw(data: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> Ucan:
    """Decode the UCAN in a block of codec 0x55, which holds the text of a JWT. Raises `DagError`."""
    _require_within_limit(len(data), bounds)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise JwtMalformed("not a text") from None
    return ucan_from_jwt(text, legacy=legacy, bounds=bounds)


def signed_text(claims: Claims) -> bytes:
    """Return the text that a signature of these claims covers, in canonical formatting."""
    payload: dict[str, Any] = {
        "att": [capability.as_map() for capability in claims.capabilities],
        "aud": did_text(claims.audience),
        "exp": claims.expires,
        "iss": did_text(claims.issuer),
        "prf": [cid.text for cid in claims.proofs],
    }
    if claims.facts:
        payload["fct"] = list(claims.facts)
    if claims.not_before is not None:
        payload["nbf"] = claims.not_before
    if claims.nonce is not None:
        payload["nnc"] = claims.nonce
    return _header(claims.version) + b"." + base64url(encode_plain_dag_json(payload))


@lru_cache(maxsize=2)
def _header(version: str) -> bytes:
    return base64url(encode_dag_json({"alg": "EdDSA", "typ": "JWT", "ucv": version}))


def jwt_text(ucan: Ucan) -> str:
    """Return a UCAN as a JWT: the signed text, followed by the signature."""
    return (ucan.signed_text + b"." + base64url(ucan.signature)).decode()


def is_canonical(ucan: Ucan) -> bool:
    """Whether the signed text has the canonical formatting, so that the map form can represent the UCAN."""
    return ucan.signed_text == signed_text(ucan.claims)


def map_of(claims: Claims, signature: bytes) -> bytes:
    """Encode claims and their signature as a block in the short form."""
    value: dict[str, Any] = {
        "v": claims.version,
        "s": _EDDSA + signature,
        "iss": claims.issuer,
        "aud": claims.audience,
        "att": [capability.as_map() for capability in claims.capabilities],
        "exp": claims.expires,
        "prf": list(claims.proofs),
    }
    if claims.facts:
        value["fct"] = list(claims.facts)
    if claims.not_before is not None:
        value["nbf"] = claims.not_before
    if claims.nonce is not None:
        value["nnc"] = claims.nonce
    return encode_dag_cbor(value)


def base64url(data: bytes) -> bytes:
    """Encode bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _from_base64url(part: bytes) -> bytes:
    try:
        data = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise JwtMalformed("a part that is no base64url") from None
    # Python's decoder ignores foreign characters and unused bits.
    if base64url(data) != part:
        raise JwtMalformed("a part that is not spelled in the one way")
    return data


def _version_of(header: Any) -> str:
    if not isinstance(header, dict) or header.keys() != {"alg", "typ", "ucv"}:
        raise JwtMalformed("a header that is not exactly alg, typ and ucv")
    if header["alg"] != "EdDSA" or header["typ"] != "JWT" or not isinstance(header["ucv"], str):
        raise JwtMalformed("a header of another kind")
    version: str = header["ucv"]
    return version


def _fields_of(payload: dict[str, Any], bounds: DagBounds) -> dict[str, Any]:
    try:
        fields = from_dag_json(payload)
    except DagError as error:
        raise NodeSchema(f"the payload is no DAG-JSON: {error}") from None
    if not isinstance(fields, dict) or not REQUIRED | OPTIONAL >= fields.keys() >= REQUIRED:
        raise NodeSchema("a payload with other keys than it has")
    keys = {name: fields[name] for name in ("iss", "aud")}
    if not all(isinstance(text, str) for text in keys.values()):
        raise NodeSchema("iss or aud is no text")
    proofs = fields["prf"]
    if not isinstance(proofs, list) or not all(isinstance(text, str) for text in proofs):
        raise NodeSchema("prf is no list of texts")
    if len(proofs) > bounds.proofs:
        raise NodeSchema(f"more than {bounds.proofs} proofs")
    try:
        links = [cid_from_text(text) for text in proofs]
    except DagError as error:
        raise NodeSchema(f"a proof: {error}") from None
    # The keys are checked last: the codes of the other fields take precedence.
    check_fields({**fields, "iss": b"", "aud": b"", "prf": links}, bounds)
    return {**fields, "prf": links, **{name: did_from_text(text) for name, text in keys.items()}}


def _require_within_limit(size: int, bounds: DagBounds) -> None:
    if size > bounds.ucan:
        raise BlockTooLarge(f"a UCAN over {bounds.ucan} bytes")
