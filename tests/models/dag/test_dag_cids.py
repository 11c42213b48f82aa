"""CIDs (reference 1.1): one spelling each, in bytes and as text; ordered by the text."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import (
    CAR,
    DAG_CBOR,
    RAW,
    Cid,
    cid_from_bytes,
    cid_from_text,
    cid_of,
    cid_of_any_base,
    make_cid,
    read_cid,
)
from culm_models.dag.blocks.multibase import base58, from_base32, from_base58
from culm_models.dag.blocks.multihash import BLAKE3, check_block
from culm_models.dag.blocks.varint import read_varint, write_varint
from culm_models.dag.errors import CidMalformed, HashMismatch, HashUnsupported, VarintMalformed
from tests.models.dag.drawn_values import CIDS
from tests.models.dag.recorded import recorded

HELLO = cid_of(RAW, b"hello world\n")


@given(CIDS)
def test_bytes_and_text_come_back(cid: Cid) -> None:
    again = cid_from_text(cid.text)
    assert again == cid == cid_from_bytes(cid.raw)
    assert (again.version, again.codec, again.hash_code, again.digest) == (
        cid.version,
        cid.codec,
        cid.hash_code,
        cid.digest,
    )
    assert read_cid(b"xy" + cid.raw + b"more", 2) == (cid, 2 + len(cid.raw))


@pytest.mark.parametrize("row", recorded("cid_bases"), ids=lambda row: row["cid"][:12])
def test_a_cid_is_typed_in_any_base(row: dict[str, str]) -> None:
    assert {cid_of_any_base(text).text for text in row.values()} == {row["cid"]}
    for text in row.values():
        if text != row["cid"]:
            with pytest.raises(CidMalformed):
                cid_from_text(text)


@given(CIDS, st.data())
def test_a_text_in_another_base_is_a_cid_or_refused(cid: Cid, draw: Any) -> None:
    assert cid_of_any_base(cid.text) == cid
    text = list(draw.draw(st.sampled_from([cid.text, "f" + cid.raw.hex(), "F" + cid.raw.hex().upper()])))
    text[draw.draw(st.integers(0, len(text) - 1))] = draw.draw(st.characters())
    with suppress(CidMalformed):
        cid_of_any_base("".join(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "k",
        "z",
        "f",
        "Z2yYDV",
        "zl0OI",
        "k-1",
        "k1_0",
        "f0155000",
        "mAVUAAA",
        "\u212adaznk",
        "k" + "1" * 5_000,
    ],
)
def test_a_text_that_is_no_cid_in_any_base_is_refused(text: str) -> None:
    with pytest.raises(CidMalformed):
        cid_of_any_base(text)
    with pytest.raises(CidMalformed):
        cid_of_any_base("z" + base58(make_cid(0, 0x70, 0x12, bytes(32)).raw))


@given(CIDS)
def test_every_cut_is_refused(cid: Cid) -> None:
    for end in range(len(cid.raw)):
        with pytest.raises(CidMalformed):
            cid_from_bytes(cid.raw[:end])
    with pytest.raises(CidMalformed):
        cid_from_bytes(cid.raw + b"\0")


@given(CIDS, st.data())
def test_another_text_is_another_cid_or_none(cid: Cid, draw: Any) -> None:
    text = list(cid.text)
    at = draw.draw(st.integers(0, len(text) - 1))
    text[at] = draw.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz234567189=-_ABCQm"))
    other = "".join(text)
    try:
        found = cid_from_text(other)
    except CidMalformed:
        return
    assert found.text == other
    assert (found == cid) is (other == cid.text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        HELLO.text.upper(),
        "B" + HELLO.text[1:].upper(),
        HELLO.text + "=",
        HELLO.text[:-1] + "p",  # unused bits
        "z" + base58(HELLO.raw),
        "f" + HELLO.raw.hex(),
        "u" + HELLO.text[1:],
        " " + HELLO.text,
        HELLO.text + "\n",
        "Qm" + "1" * 44,
        "Qm" + "0" * 44,
        "Qm" + "z" * 1_000_000,
        "bciq" + "a" * 51,  # a CIDv0 in base32
        "\ud800",
        "bé",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CidMalformed):
        cid_from_text(text)


def test_order_is_that_of_the_text_and_not_of_the_bytes() -> None:
    cids = [cid_of(DAG_CBOR, bytes([n])) for n in range(100)]
    assert [cid.text for cid in sorted(cids)] == sorted(cid.text for cid in cids)
    assert sorted(cids) != sorted(cids, key=lambda cid: cid.raw)


def test_cids_of_the_specification() -> None:
    assert cid_of(CAR, bytes.fromhex("19a265726f6f747381d82a4500015500006776657273696f6e01")).text == (
        "bagbaierawa335d45pwohko5s4fbut7nlfjavq2kan7z3gbzvm2k3zutifv5q"
    )
    assert make_cid(1, RAW, 0, b"").text == "bafkqaaa"
    assert HELLO.text == "bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4"


@given(st.integers(0, (1 << 63) - 1), st.binary(max_size=5))
def test_varints_come_back(number: int, behind: bytes) -> None:
    data = write_varint(number)
    assert read_varint(data + behind, 0) == (number, len(data))
    for end in range(len(data)):
        with pytest.raises(VarintMalformed):
            read_varint(data[:end], 0)


@pytest.mark.parametrize("data", ["8000", "ff00", "80" * 9 + "01", "ff" * 9, "80"])
def test_other_varints_are_refused(data: str) -> None:
    with pytest.raises(VarintMalformed):
        read_varint(bytes.fromhex(data), 0)


@given(st.binary(min_size=1, max_size=40))
def test_base58_comes_back(data: bytes) -> None:
    assert from_base58(base58(data), len(data)) == data
    assert from_base32("a=") is None


def test_a_block_is_proved_by_a_whole_digest_alone() -> None:
    data = b"block"
    for code, digest in (
        (0x12, hashlib.sha256(data).digest()),
        (0x13, hashlib.sha512(data).digest()),
        (0xB220, hashlib.blake2b(data, digest_size=32).digest()),
        (0x00, data),
    ):
        check_block(make_cid(1, RAW, code, digest), memoryview(data))
        for cut in (digest[:-1], b"", digest + b"\0"):
            with pytest.raises(HashMismatch):
                check_block(make_cid(1, RAW, code, cut), data)
    foreign = make_cid(1, RAW, BLAKE3, bytes(32))
    with pytest.raises(HashUnsupported):
        check_block(foreign, data)
    with pytest.raises(HashMismatch):
        check_block(foreign, data, {BLAKE3})
    with pytest.raises(HashUnsupported):
        check_block(cid_of(RAW, data), data, set())


@given(CIDS)
def test_multiformats_reads_and_writes_alike(cid: Cid) -> None:
    multiformats = pytest.importorskip("multiformats", reason="the oracle multiformats is not installed")
    theirs = multiformats.CID.decode(cid.raw)
    assert str(theirs.set(base="base58btc" if cid.version == 0 else "base32")) == cid.text
    assert (theirs.version, theirs.codec.code, theirs.hashfun.code) == (cid.version, cid.codec, cid.hash_code)
