"""UCANs (reference 4): the rules of form, what altered bytes do, and chains."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_JSON, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.errors import DagError
from culm_models.dag.ucan.chain import ChainPolicy, Published, authorise
from culm_models.dag.ucan.claims import is_ability
from culm_models.dag.ucan.did_key import did_from_text, did_key, did_text
from culm_models.dag.ucan.forms import is_canonical, jwt_text, ucan_from_block, ucan_from_jwt
from culm_models.dag.ucan.signing import verified_ucan, verify_signature
from culm_models.dag.ucan.token import Ucan
from tests.models.dag.signers import DIDS, KEYS, LINK, ORIGIN, ucan

CAPABILITY = {"can": "dag/publish", "with": DIDS[0], "nb": {"link": LINK, "origin": ORIGIN}}
PLAIN = ucan(1, 0, CAPABILITY, nnc="n", nbf=5, fct=[{"a": LINK, "b": b"\1"}], exp=10)
GROUP_ORDER = (1 << 252) + 27742317777372353535851937790883648493


def code_of(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(DagError) as caught:
        call(*arguments, **options)
    return caught.value.code.removeprefix("dag.")


def altered(**fields: Any) -> bytes:
    value = decode_dag_cbor(PLAIN.block)
    value.update(fields)
    return encode_dag_cbor({key: item for key, item in value.items() if item is not ...})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"v": "0.8.1"}, "ucan_version"),
        ({"v": "0.9.1 "}, "ucan_version"),
        ({"v": 1}, "schema"),
        ({"v": ...}, "schema"),
        ({"more": 1}, "schema"),
        ({"prf": ...}, "schema"),
        ({"s": ...}, "schema"),
        ({"exp": ...}, "schema"),
        ({"exp": -1}, "schema"),
        ({"exp": 1 << 53}, "schema"),
        ({"exp": True}, "schema"),
        ({"exp": 1.0}, "schema"),
        ({"nbf": 0}, "schema"),
        ({"nbf": None}, "schema"),
        ({"nbf": True}, "schema"),
        ({"nnc": ""}, "schema"),
        ({"nnc": b"n"}, "schema"),
        ({"fct": []}, "schema"),
        ({"fct": {}}, "schema"),
        ({"fct": [1]}, "schema"),
        ({"fct": [{"a": 1.0}]}, "schema"),
        ({"fct": [{"a": [{"/": "x"}]}]}, "schema"),
        ({"att": {}}, "schema"),
        ({"att": [1]}, "schema"),
        ({"att": [{"can": "a/b"}]}, "schema"),
        ({"att": [{"can": "A/b", "with": "a:b"}]}, "schema"),
        ({"att": [{"can": "ab", "with": "a:b"}]}, "schema"),
        ({"att": [{"can": "dag/publish x", "with": "a:b"}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "a: b"}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "A:b"}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "a:b\n"}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "a:b", "nb": None}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "a:b", "nb": {"a": 0.5}}]}, "schema"),
        ({"att": [{"can": "a/b", "with": "a:b", "more": 1}]}, "schema"),
        ({"prf": [LINK] * 17}, "schema"),
        ({"prf": [cid_of(DAG_JSON, b"")]}, "schema"),
        ({"prf": [make_cid(0, 0x70, 0x12, bytes(32))]}, "schema"),
        ({"prf": [make_cid(1, RAW, 0x12, bytes(31))]}, "schema"),
        ({"iss": "did:key:x"}, "schema"),
        ({"iss": b"\xed\x01"}, "key"),
        ({"aud": b"\x9d\x1akey:z"}, "key"),
        ({"aud": b"\x80\x24" + bytes(33)}, "key"),
        ({"s": "x"}, "schema"),
        ({"s": b""}, "signature"),
        ({"s": b"\xed\xa1\x03\x40" + bytes(65)}, "signature"),
        ({"s": b"\xec\xa1\x03\x40" + bytes(64)}, "signature"),
        ({"v": "1.0.0", "exp": -1}, "ucan_version"),
        ({"exp": -1, "aud": b"", "s": b""}, "schema"),
        ({"aud": b"", "s": b""}, "key"),
        ({"fct": [{"a": bytes(70_000)}]}, "too_large"),
    ],
)
def test_the_form_of_the_map(fields: dict[str, Any], expected: str) -> None:
    assert code_of(ucan_from_block, altered(**fields)) == expected


def test_abilities() -> None:
    for text in ("*", "a/b", "dag/*", "a/b/c", "!/~"):
        assert is_ability(text)
    for text in ("", "a", "/a", "a/", "A/b", "a/é", "a/\n", "a b/c", " a/b", "a/b ", "a/\x7f"):
        assert not is_ability(text)


@given(st.data())
@settings(max_examples=200)
def test_no_altered_block_verifies(draw: Any) -> None:
    data = bytearray(PLAIN.block)
    for _ in range(draw.draw(st.integers(1, 2))):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    if bytes(data) == PLAIN.block:
        return
    with pytest.raises(DagError):
        verified_ucan(cid_of(DAG_CBOR, bytes(data)), bytes(data))


def test_no_altered_letter_of_a_jwt_verifies() -> None:
    text = jwt_text(PLAIN)
    verify_signature(ucan_from_jwt(text))
    for at in range(len(text)):
        for letter in "A9_=.":
            other = text[:at] + letter + text[at + 1 :]
            if other != text:
                with pytest.raises(DagError):
                    verify_signature(ucan_from_jwt(other))
    for other in (
        text + "=",
        text + "\n",
        " " + text,
        text + ".",
        text.replace(".", "..", 1),
        "",
        "é" + text,
    ):
        assert code_of(ucan_from_jwt, other) == "jwt"
    assert code_of(ucan_from_jwt, "\ud800") == "jwt"
    assert code_of(ucan_from_jwt, "a" * 65_537) == "too_large"


def test_a_signature_has_one_value() -> None:
    moved = int.from_bytes(PLAIN.signature[32:], "little") + GROUP_ORDER
    twin = PLAIN.signature[:32] + moved.to_bytes(32, "little")
    assert code_of(verified_ucan, LINK, altered(s=b"\xed\xa1\x03\x40" + twin)) == "signature"


def jwt(header: Any, payload: Any, signature: bytes = bytes(64)) -> str:
    def part(value: Any) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return ".".join((part(header), part(payload), part(signature)))


HEADER = {"alg": "EdDSA", "typ": "JWT", "ucv": "0.9.1"}
PAYLOAD: dict[str, Any] = {"att": [], "aud": DIDS[0], "exp": None, "iss": DIDS[1], "prf": []}


@pytest.mark.parametrize(
    ("header", "payload", "expected"),
    [
        (HEADER, PAYLOAD, None),
        ({**HEADER, "kid": "x"}, PAYLOAD, "jwt"),
        ({**HEADER, "alg": "eddsa"}, PAYLOAD, "jwt"),
        ({**HEADER, "ucv": 1}, PAYLOAD, "jwt"),
        ({**HEADER, "ucv": "0.8.1"}, PAYLOAD, "ucan_version"),
        ([], PAYLOAD, "jwt"),
        (b"{", PAYLOAD, "jwt"),
        (b"\xff", PAYLOAD, "jwt"),
        (b'{"alg":"EdDSA","alg":"EdDSA","typ":"JWT","ucv":"0.9.1"}', PAYLOAD, "jwt"),
        (HEADER, b"", "jwt"),
        (HEADER, b'{"a":NaN}', "jwt"),
        (HEADER, b'{"a":1e1}', "jwt"),
        (HEADER, b'{"a":-0}', "jwt"),
        (HEADER, b'{"a":18446744073709551616}', "jwt"),
        (HEADER, b'{"a":"\\ud800"}', "jwt"),
        (HEADER, b"[" * 129 + b"]" * 129, "jwt"),
        (HEADER, b"[" * 40_000, "jwt"),
        *((HEADER, payload, "jwt") for payload in ([], [PAYLOAD], "", 1, None)),
        (HEADER, {"/": LINK.text}, "schema"),
        (HEADER, {**PAYLOAD, "more": 1}, "schema"),
        (HEADER, {key: PAYLOAD[key] for key in PAYLOAD if key != "prf"}, "schema"),
        (HEADER, {**PAYLOAD, "prf": ["x"]}, "schema"),
        (HEADER, {**PAYLOAD, "prf": [{"/": LINK.text}]}, "schema"),
        (HEADER, {**PAYLOAD, "prf": [LINK.text] * 17}, "schema"),
        (HEADER, {**PAYLOAD, "fct": [{"/": "x"}]}, "schema"),
        (HEADER, {**PAYLOAD, "fct": [{"a": {"/": {"bytes": "AQ=="}}}]}, "schema"),
        (HEADER, {**PAYLOAD, "exp": True}, "schema"),
        (HEADER, {**PAYLOAD, "aud": 1}, "schema"),
        (HEADER, {**PAYLOAD, "aud": "did:web:x"}, "key"),
        (HEADER, {**PAYLOAD, "aud": DIDS[0] + "1"}, "key"),
        (HEADER, {**PAYLOAD, "aud": "did:key:z1" + DIDS[0][9:]}, "key"),
        (HEADER, {**PAYLOAD, "aud": "x", "exp": True}, "schema"),
    ],
)
def test_the_form_of_a_jwt(header: Any, payload: Any, expected: str | None) -> None:
    if expected is None:
        ucan_from_jwt(jwt(header, payload))
        assert code_of(ucan_from_jwt, jwt(header, payload, bytes(63))) == "signature"
        assert code_of(verify_signature, ucan_from_jwt(jwt(header, payload))) == "signature"
    else:
        assert code_of(ucan_from_jwt, jwt(header, payload)) == expected


def test_both_forms_say_one_thing() -> None:
    twin = ucan_from_jwt(jwt_text(PLAIN))
    assert is_canonical(twin)
    assert twin.claims == PLAIN.claims
    assert (twin.cid.codec, PLAIN.cid.codec) == (RAW, DAG_CBOR)
    spaced = ucan_from_jwt(jwt(HEADER, PAYLOAD))
    assert not is_canonical(spaced)


def test_the_long_form_is_of_its_version_alone() -> None:
    value = decode_dag_cbor(ucan(1, 0, CAPABILITY).block)
    names = {"issuer": "iss", "audience": "aud", "capabilities": "att", "expiration": "exp", "proofs": "prf"}
    long = {name: value[short] for name, short in names.items()}
    long |= {"version": "0.8.1", "signature": bytes(64)}
    data = encode_dag_cbor(long)
    assert code_of(ucan_from_block, data) == "ucan_version"
    assert ucan_from_block(data, legacy=True).claims.version == "0.8.1"
    assert (
        code_of(ucan_from_block, encode_dag_cbor({**long, "version": "0.9.1"}), legacy=True) == "ucan_version"
    )
    assert (
        code_of(ucan_from_block, encode_dag_cbor({**long, "signature": bytes(68)}), legacy=True)
        == "signature"
    )
    assert code_of(ucan_from_block, altered(v="0.8.1"), legacy=True) == "ucan_version"


def test_did_texts_come_back() -> None:
    for key, text in zip(KEYS, DIDS, strict=True):
        assert did_from_text(text) == did_key(key)
        assert did_text(did_key(key)) == text
        assert text.startswith("did:key:z6Mk")
        assert code_of(did_from_text, text.replace("z6Mk", "z6MK")) == "key"


PUBLISHED = Published(did_key(KEYS[0]), {"link": LINK, "origin": ORIGIN})


def verdict(leaf: Ucan, *proofs: Ucan, now: int | None = 7, **policy: Any) -> str | None:
    here: dict[Cid, Ucan | DagError] = {proof.cid: proof for proof in proofs}
    refused = authorise(leaf, PUBLISHED, here.get, now, policy=ChainPolicy(**policy))
    return None if refused is None else refused.error.code.removeprefix("dag.")


def test_times_are_those_of_the_receipt() -> None:
    owned = {"prf": [ucan(0, 1, {"can": "dag/*", "with": "ucan:*"}).cid]}
    grant = ucan(0, 1, {"can": "dag/*", "with": "ucan:*"})
    leaf = ucan(1, 0, CAPABILITY, nbf=5, exp=10, **owned)
    for now, expected in ((4, "not_yet_valid"), (5, None), (9, None), (10, "expired"), (None, None)):
        assert verdict(leaf, grant, now=now) == expected
    assert verdict(leaf, grant, now=4, leeway=1) is None
    assert verdict(leaf, grant, now=10, leeway=1) is None
    # What fails without a clock is said first.
    assert verdict(leaf, now=20) == "proof_missing"


def test_a_proof_that_may_come_is_awaited() -> None:
    stranger = ucan(2, 1, {"can": "*", "with": "ucan:*"})
    grant = ucan(0, 1, {"can": "*", "with": "ucan:*"})
    leaf = ucan(1, 0, CAPABILITY, prf=[stranger.cid, grant.cid])
    assert verdict(leaf, stranger) == "proof_missing"
    assert verdict(leaf, stranger, grant) is None
    assert verdict(leaf, grant) is None
    refused = authorise(leaf, PUBLISHED, lambda cid: None, 7, policy=ChainPolicy())
    assert refused is not None
    assert refused.missing == {stranger.cid, grant.cid}


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ({"can": "*", "with": "ucan:*"}, None),
        ({"can": "dag/*", "with": DIDS[0]}, None),
        ({"can": "dag/publish", "with": DIDS[0], "nb": {"link": LINK}}, None),
        ({"can": "da/*", "with": DIDS[0]}, "ability"),
        ({"can": "dag/publish/*", "with": DIDS[0]}, "ability"),
        ({"can": "dag/pub", "with": DIDS[0]}, "ability"),
        ({"can": "dag/*", "with": DIDS[1]}, "resource"),
        ({"can": "dag/*", "with": "ucan:x"}, "resource"),
        ({"can": "dag/*", "with": DIDS[0], "nb": {"link": ORIGIN}}, "attenuation"),
        ({"can": "dag/*", "with": DIDS[0], "nb": {"shard": LINK}}, "attenuation"),
        ({"can": "dag/*", "with": DIDS[0], "nb": {"link": LINK.text}}, "attenuation"),
    ],
)
def test_what_a_delegation_covers(capability: dict[str, Any], expected: str | None) -> None:
    grant = ucan(0, 1, capability)
    assert verdict(ucan(1, 0, CAPABILITY, prf=[grant.cid]), grant) == expected


@pytest.mark.parametrize(
    ("nb", "bound", "bearer"),
    [
        ({"link": LINK, "origin": ORIGIN}, None, None),
        (None, "unbound", None),
        ({}, "unbound", None),
        ({"link": LINK}, "unbound", None),
        ({"link": ORIGIN, "origin": ORIGIN}, "unbound", "unbound"),
        ({"link": LINK, "origin": ORIGIN, "shard": LINK}, "unbound", "unbound"),
        ({"link": LINK, "origin": ORIGIN, "prior": LINK}, "unbound", "unbound"),
        ({"link": LINK, "origin": ORIGIN, "more": 1}, "unbound", "unbound"),
        ({"link": LINK.text, "origin": ORIGIN}, "unbound", "unbound"),
    ],
)
def test_the_leaf_names_what_is_published(nb: Any, bound: str | None, bearer: str | None) -> None:
    capability = {"can": "dag/publish", "with": DIDS[0], **({} if nb is None else {"nb": nb})}
    leaf = ucan(0, 0, capability)
    assert (verdict(leaf), verdict(leaf, bound=False)) == (bound, bearer)


def test_a_net_of_proofs_is_searched_in_little_time() -> None:
    # Every UCAN names all 16 of the level below: 16^16 paths, 16 x 16 places.
    level: list[Ucan] = [ucan(2, 1, {"can": "*", "with": "ucan:*"}, nnc=f"{n}") for n in range(16)]
    here = list(level)
    for _ in range(15):
        prf = [proof.cid for proof in level]
        level = [ucan(1, 1, {"can": "*", "with": "ucan:*"}, nnc=f"{n}", prf=prf) for n in range(16)]
        here += level
    leaf = ucan(1, 0, CAPABILITY, prf=[proof.cid for proof in level])
    assert verdict(leaf, *here) == "root_issuer"


def test_what_the_id_revokes_is_spelled_in_one_way() -> None:
    facts: tuple[dict[str, Any], ...] = (
        {"dag/revoke": []},
        {"dag/revoke": [LINK], "more": 1},
        {"dag/revoke": sorted([LINK, ORIGIN], reverse=True)},
        {"dag/revoke": [LINK, LINK]},
        {"dag/revoke": "x"},
        {"dag/revoke": [make_cid(1, RAW, 0, b"")]},
    )
    for fact in facts:
        assert verdict(ucan(0, 0, CAPABILITY, fct=[fact])) == "schema"
        grant = ucan(0, 1, {"can": "*", "with": "ucan:*"})
        assert verdict(ucan(1, 0, CAPABILITY, fct=[fact], prf=[grant.cid]), grant) is None
    assert verdict(ucan(0, 0, CAPABILITY, fct=[{"dag/revoke": sorted([LINK, ORIGIN])}])) is None
