"""Filters and hashes against those of other implementations (tests/vectors/sds), singly and many at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.bloom import LAYOUTS, BloomShape, LayoutName, ReceivedFilter, filter_of
from culm_models.sds.bloom import vectors as bloom_vectors
from culm_models.sds.bloom.farmhash import fingerprint64
from culm_models.sds.bloom.layout import unwrapped
from culm_models.sds.bloom.murmur import hash_units

VECTORS = Path(__file__).parents[3] / "vectors" / "sds"
JS_FILTERS = [json.loads(line) for line in (VECTORS / "bloom-js.jsonl").read_text().splitlines()]
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def base36(number: int) -> str:
    high, low = divmod(number, 36)
    return (base36(high) if high else "") + DIGITS[low]


def hex_id(name: str) -> str:
    return hashlib.sha256(f"id-{name}".encode()).hexdigest()


RULES: dict[str, Callable[[int], str]] = {
    "hex": lambda index: hex_id(str(index)),
    "sync": lambda index: f"sync-{base36(index)}",
    "length": lambda index: "x" * (index % 131),
    "greek": lambda index: f"μήνυμα {index}",
    "latin1": lambda index: f"café {index}",
    "emoji": lambda index: f"{index} 👍🏽 ok",
}


@pytest.mark.parametrize(
    "row",
    JS_FILTERS,
    ids=lambda row: f"{row['rule']}-{row['count']}-of-{row['capacity']}-{row['error_rate']}",
)
def test_filters_are_byte_for_byte_those_of_waku_sds(row: dict[str, Any]) -> None:
    measures = row["capacity"], row["error_rate"]
    ids = [RULES[row["rule"]](index) for index in range(row["count"])]
    shape = BloomShape.sized(*measures)
    assert (shape.bit_count, shape.hash_count, shape.byte_count) == (row["bits"], row["hashes"], row["size"])
    value = filter_of("js", ids, *measures)
    assert hashlib.sha256(value).hexdigest() == row["sha256"]
    if "set" in row:
        assert [[at, byte] for at, byte in enumerate(value) if byte] == row["set"]
    if "bytes" in row:
        assert value.hex() == row["bytes"]
    assert bloom_vectors.filter_value("js", shape, bloom_vectors.hash_pairs("js", ids)) == value
    if all(message_id.isascii() for message_id in ids):
        assert filter_of("spec", ids, *measures) == value
    absent = [hex_id(f"absent-{index}") for index in range(200)]
    asked = ReceivedFilter.parse("js", value, *measures)
    assert asked is not None
    assert [
        n for n, message_id in enumerate(absent) if asked.contains(LAYOUTS["js"].hash_pair(message_id))
    ] == row["false_hits"]
    pairs = bloom_vectors.hash_pairs("js", absent)
    hits = bloom_vectors.contains_many("js", shape, value, pairs)
    assert np.flatnonzero(hits).tolist() == row["false_hits"]


def test_fingerprints_are_those_of_farmhash() -> None:
    expected = json.loads((VECTORS / "farmhash-fingerprint64.json").read_text())
    stream = hashlib.shake_128(b"culm").digest(2_048)
    assert {size: f"{fingerprint64(stream[: int(size)]):016x}" for size in expected} == expected


@given(st.binary(max_size=100))
def test_murmur_over_bytes_is_that_of_mmh3(data: bytes) -> None:
    assert hash_units(data) == mmh3.hash(data, signed=False)


@given(st.sampled_from(["spec", "js", "nim"]), st.lists(st.text(st.characters(codec="utf-8"), max_size=70)))
def test_pairs_of_many_ids_are_those_of_each(layout: LayoutName, ids: list[str]) -> None:
    expected = [list(LAYOUTS[layout].hash_pair(message_id)) for message_id in ids]
    assert bloom_vectors.hash_pairs(layout, ids).tolist() == expected


@pytest.mark.parametrize("layout", ["spec", "js", "nim"])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 16, 63, 64, 66, 130])
def test_pairs_of_many_ids_of_one_length_are_those_of_each(layout: LayoutName, size: int) -> None:
    ids = [(hex_id(str(index)) * 3)[:size] for index in range(5_000 if size == 64 else 40)]
    expected = [list(LAYOUTS[layout].hash_pair(message_id)) for message_id in ids]
    assert bloom_vectors.hash_pairs(layout, ids).tolist() == expected


@given(st.sampled_from(["spec", "js", "nim"]), st.lists(st.text(st.characters(codec="utf-8"), max_size=9)))
def test_a_filter_made_at_once_is_that_of_its_ids_one_by_one(layout: LayoutName, ids: list[str]) -> None:
    pairs = bloom_vectors.hash_pairs(layout, ids)
    expected = filter_of(layout, ids, 50, 0.01)
    assert bloom_vectors.filter_value(layout, BloomShape.sized(50, 0.01), pairs) == expected


def test_the_container_of_nim_tells_its_measures_in_its_own_units() -> None:
    value = filter_of("nim", [], 10_000, 0.001)
    numbers = bytes.fromhex("10904e 18e807 200a 28f09309")
    assert value == b"\x0a\xc0\x92\x01" + bytes(18_752) + numbers
    assert len(value) == 18_768
    assert unwrapped(value) == (bytes(18_752), 10, 150_000)


def test_words_of_nim_are_little_endian_and_of_the_others_big_endian() -> None:
    nim = unwrapped(filter_of("nim", ["a"], 10_000, 0.001))
    assert nim is not None
    first, second = LAYOUTS["nim"].hash_pair("a")
    places = sorted({(first + index * second) % 150_000 for index in range(10)})
    assert [at for at in range(150_000) if nim[0][at // 8] >> at % 8 & 1] == places
    first, second = LAYOUTS["js"].hash_pair("a")
    places = sorted({(first + index * second) % 150_000 for index in range(10)})
    js = filter_of("js", ["a"], 10_000, 0.001)
    words = [int.from_bytes(js[at : at + 8], "big") for at in range(0, len(js), 8)]
    assert [at for at in range(150_000) if words[at // 64] >> at % 64 & 1] == places
