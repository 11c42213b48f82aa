"""CIDs (reference 1.1): one spelling each, in bytes and as text; ordered by the text."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
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
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.multibase import base58, from_base32, from_base58
from culm_models.dag.blocks.multihash import BLAKE3, check_block
from culm_models.dag.blocks.varint import read_varint, write_varint
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.car import CarStream, car_header, car_section, read_car, write_car
from culm_models.dag.errors import CidMalformed, DagError, HashMismatch, HashUnsupported, VarintMalformed
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
        parsed = cid_from_text(other)
    except CidMalformed:
        return
    assert parsed.text == other
    assert (parsed == cid) is (other == cid.text)


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


# CARs (reference 1.3): strict reading, every hash checked, the same answer wherever a stream is cut.


EMPTY = make_cid(1, RAW, 0, b"")
HELLO_FILE = encode_dag_cbor({"hello": "world"})
BLOCKS = st.lists(st.binary(max_size=30).map(lambda data: (cid_of(RAW, data), data)), max_size=5)
NO_ROOTS = car_header([])


def code(data: bytes, **options: Any) -> str:
    with pytest.raises(DagError) as caught:
        read_car(data, **options)
    return caught.value.code


def streamed(pieces: list[bytes]) -> tuple[list[tuple[Cid, bytes, int]], str | None, Any]:
    stream, sections = CarStream(), []
    try:
        for piece in pieces:
            sections += [(section.cid, bytes(section.data), section.offset) for section in stream.feed(piece)]
        stream.finish()
    except DagError as error:
        return sections, error.code, stream.roots
    return sections, None, stream.roots


@given(BLOCKS, st.lists(st.sampled_from([EMPTY, cid_of(DAG_CBOR, HELLO_FILE)]), max_size=3))
def test_a_file_comes_back(blocks: list[tuple[Cid, bytes]], roots: list[Cid]) -> None:
    data = write_car(roots, blocks)
    car = read_car(data)
    assert car.roots == tuple(roots)
    assert [(section.cid, bytes(section.data)) for section in car.sections] == blocks
    for section in car.sections:
        assert data[section.offset : section.offset + len(section.data)] == bytes(section.data)


@given(BLOCKS, st.data())
@settings(max_examples=40)
def test_a_stream_answers_alike_wherever_it_is_cut(blocks: list[tuple[Cid, bytes]], draw: Any) -> None:
    data = bytearray(write_car([EMPTY], blocks))
    if draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    data = data[: draw.draw(st.integers(0, len(data)))] if draw.draw(st.booleans()) else data
    whole = bytes(data)
    expected = streamed([whole])
    assert streamed([whole[at : at + 1] for at in range(len(whole))]) == expected
    for at in range(len(whole)):
        assert streamed([whole[:at], whole[at:]]) == expected
    if expected[1] is None:
        assert expected[0] == [(s.cid, bytes(s.data), s.offset) for s in read_car(whole).sections]
    else:
        assert code(whole) == expected[1]


def test_cids_of_known_files() -> None:
    assert cid_of(CAR, NO_ROOTS).text == "bagbaieraexycml2ouid62xkyztcw4o6wkrbtioxiwnncwlesvc2bt6utzbwa"
    assert NO_ROOTS.hex() == "11a265726f6f7473806776657273696f6e01"
    assert cid_of(CAR, write_car([EMPTY], [])).text == (
        "bagbaierawa335d45pwohko5s4fbut7nlfjavq2kan7z3gbzvm2k3zutifv5q"
    )
    hello = cid_of(DAG_CBOR, HELLO_FILE)
    for roots, expected in (
        ([hello], "bagbaieraha2ehrhh5ycdp76hijjo3eablsaikm5jlrbt4vmcn32p7reg3uiq"),
        ([], "bagbaiera4hilt5nfacnggqtytipszririq745jtd76ngs7bqoipdvd4pqpsa"),
        ([EMPTY], "bagbaieram6fzyx4tvplnxbvgggfvmhb6tnbovbdrwcjyum34eauacjec4kcq"),
    ):
        assert cid_of(CAR, write_car(roots, [(hello, HELLO_FILE)])).text == expected


def framed(header: Any) -> bytes:
    data = header if isinstance(header, bytes) else encode_dag_cbor(header)
    return write_varint(len(data)) + data


BLOCK = car_section(cid_of(RAW, b"x"), b"x")
V0 = make_cid(0, 0x70, 0x12, cid_of(RAW, b"\x0a\x00").digest)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "car_header"),
        (b"\0", "car_header"),
        (b"\x80", "car_header"),
        (b"\x81\0", "varint"),
        (b"\xff" * 9, "varint"),
        (NO_ROOTS[:-1], "car_header"),
        (framed(b"\xa0"), "car_header"),
        (framed({"roots": []}), "car_header"),
        (framed({"version": 1}), "car_header"),
        (framed({"roots": [], "version": 1, "more": 1}), "car_header"),
        (framed({"roots": [], "version": True}), "car_header"),
        (framed({"roots": [], "version": "1"}), "car_header"),
        (framed({"roots": [b"x"], "version": 1}), "car_header"),
        (framed({"roots": {}, "version": 1}), "car_header"),
        (framed([]), "car_header"),
        (framed(bytes.fromhex("a26776657273696f6e0165726f6f747380")), "car_header"),  # unsorted
        (framed({"roots": [], "version": 0}), "car_version"),
        (framed({"roots": [], "version": 2}), "car_version"),
        (bytes.fromhex("0aa16776657273696f6e02") + bytes(40), "car_v2"),
        (NO_ROOTS + b"\0", "car_section"),
        (NO_ROOTS + BLOCK + b"\0\0\0", "car_section"),
        (NO_ROOTS + BLOCK[:-1], "car_section"),
        (NO_ROOTS + b"\x80", "car_section"),
        (NO_ROOTS + b"\x81\0", "varint"),
        (NO_ROOTS + b"\x01\x01", "bad_cid"),
        (NO_ROOTS + b"\x22\x12\x21" + bytes(32), "bad_cid"),
        (NO_ROOTS + framed(cid_of(RAW, b"x").raw[:-1]), "bad_cid"),
        (NO_ROOTS + framed(cid_of(RAW, b"x").raw + b"y"), "hash"),
        (NO_ROOTS + framed(make_cid(1, RAW, 0x12, b"").raw + b"x"), "hash"),
        (NO_ROOTS + framed(make_cid(1, RAW, 0x12, cid_of(RAW, b"x").digest[:31]).raw + b"x"), "hash"),
        (NO_ROOTS + framed(make_cid(1, RAW, 0, b"x").raw + b"y"), "hash"),
        (NO_ROOTS + framed(make_cid(1, RAW, 0x1E, bytes(32)).raw + b"x"), "hash_unsupported"),
        (NO_ROOTS + framed(make_cid(1, RAW, 0x11, bytes(20)).raw + b"x"), "hash_unsupported"),
        (NO_ROOTS + car_section(cid_of(RAW, b""), b"") * 2, None),
        (NO_ROOTS + framed(V0.raw + b"\x0a\x00"), None),
        (NO_ROOTS + framed(make_cid(1, RAW, 0, b"x").raw + b"x"), None),
    ],
)
def test_what_is_refused(data: bytes, expected: str | None) -> None:
    if expected is None:
        read_car(data)
        return
    assert code(data) == f"dag.{expected}"
    assert streamed([data])[1] == f"dag.{expected}"


def test_bounds() -> None:
    data = write_car([EMPTY], [(cid_of(RAW, b"xx"), b"xx")] * 3)
    for name, limit in (
        ("car", len(data)),
        ("car_roots", 1),
        ("block", 2),
        ("sections", 3),
        ("car_header", 30),
    ):
        read_car(data, bounds=replace(DEFAULT_BOUNDS, **{name: limit}))
        small = replace(DEFAULT_BOUNDS, **{name: 0 if name == "car_header" else limit - 1})
        assert code(data, bounds=small) == "dag.too_large"
        stream = CarStream(bounds=small)
        with pytest.raises(DagError) as caught:
            stream.feed(data)
            stream.finish()
        assert caught.value.code == "dag.too_large"
        with pytest.raises(DagError) as caught:
            write_car([EMPTY], [(cid_of(RAW, b"xx"), b"xx")] * 3, bounds=small)
        assert caught.value.code == "dag.too_large"


def test_a_claimed_size_is_refused_before_the_bytes_come() -> None:
    stream = CarStream()
    stream.feed(NO_ROOTS)
    with pytest.raises(DagError) as caught:
        stream.feed(write_varint(1 << 40))
    assert caught.value.code == "dag.too_large"
    assert code(write_varint(1 << 40)) == "dag.too_large"


def test_writing_checks_the_hashes() -> None:
    with pytest.raises(DagError) as caught:
        write_car([], [(cid_of(RAW, b"x"), b"y")])
    assert caught.value.code == "dag.hash"
