"""IDs: text, bytes, keys of a store and blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.errors import IdTextMalformed
from culm_models.chotki.ids import (
    BAD_ID,
    GLOBAL_VECTOR_KEY,
    PRO_MASK,
    Id,
    block_of,
    object_key,
    read_id_text,
    split_object_key,
    split_vector_key,
    vector_key,
)
from tests.models.chotki.rdx_tables import TABLES

IDS = st.builds(Id, st.integers(0, (1 << 64) - 1), st.integers(0, PRO_MASK))


@pytest.mark.parametrize("row", TABLES["ids"], ids=lambda row: row["text"])
def test_ids_as_recorded(row: dict[str, Any]) -> None:
    found = read_id_text(row["text"])
    assert (found.src, found.pro & PRO_MASK) == (int(row["src"]), int(row["pro"]))
    assert str(found) == row["printed"]
    assert found.zip().hex() == row["zip"]
    assert object_key(found, "S").hex() == row["okey_S"]
    assert vector_key(found).hex() == row["vkey"]
    assert block_of(found).zip().hex() == row["block_zip"]
    assert (found == BAD_ID) is row["bad"]


@pytest.mark.parametrize(
    ("text", "src", "seq", "off"),
    [
        ("", 0, 0, 0),
        ("x", 0, 0, 0),
        ("5", 0, 0, 5),
        ("a-1z", 0xA, 1, 0),
        ("a-1z-2-3-4", 0xA, 1, 0),
        ("A-B-C", 0xA, 0xB, 0xC),
        ("a-", 0xA, 0, 0),
        ("-1", 0, 1, 0),
        ("fffff-ffffffff-fff", 0xFFFFF, 0xFFFFFFFF, 0xFFF),
        ("0" * 1000 + "a-" + "0" * 1000 + "1", 0xA, 1, 0),
    ],
)
def test_reading_stops_at_the_first_other_character(text: str, src: int, seq: int, off: int) -> None:
    assert Id.from_text(text) == Id.make(src, seq, off)


@pytest.mark.parametrize(
    "text", ["100000-1", "1-100000000", "1000", "a-1-1000", "a-1-2-3", "---", "f" * 10_000]
)
def test_an_impossible_text_is_refused(text: str) -> None:
    assert read_id_text(text) == BAD_ID
    with pytest.raises(IdTextMalformed) as caught:
        Id.from_text(text)
    assert caught.value.code == "chotki.id_text"
    assert len(str(caught.value)) < 300


@given(st.text(alphabet="0123456789abcdefABCDEFx- \0é", max_size=40) | st.text())
def test_any_text_is_an_id_or_the_bad_one(text: str) -> None:
    found = read_id_text(text)
    assert found == BAD_ID or read_id_text(str(found)) == found


@given(IDS)
def test_bytes_and_keys_come_back(id: Id) -> None:
    assert Id.unzip(id.zip()) == id
    assert split_object_key(object_key(id, "N")) == (id, "N")
    assert split_vector_key(vector_key(id)) == block_of(id)
    assert vector_key(block_of(id)) == vector_key(id)


@given(IDS, IDS)
def test_keys_go_by_source_and_progress(one: Id, other: Id) -> None:
    assert (object_key(one, "S") < object_key(other, "S")) == (one < other)


def test_the_vector_of_everything_is_before_all_others() -> None:
    assert split_vector_key(GLOBAL_VECTOR_KEY) is None
    assert vector_key(Id(0, 0)) > GLOBAL_VECTOR_KEY
    assert object_key(Id((1 << 64) - 1, PRO_MASK), "Z") < GLOBAL_VECTOR_KEY
    assert str(Id((1 << 64) - 1, 0x1002)) == "-1-1-2"


def test_of_a_progress_52_bits_are_read() -> None:
    assert Id.unzip(b"\n".ljust(8, b"\0") + b"\xff" * 8) == Id(10, PRO_MASK)
