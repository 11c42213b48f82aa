"""Integers, floats and pairs without their zero bytes: the recorded tables, and there and back."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki import zip as z
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import PairLength, ValueMalformed
from tests.models.chotki.rdx_tables import TABLES

U64 = (
    st.integers(0, z.U64_MAX)
    | st.integers(0, 70)
    | st.sampled_from([(1 << n) - d for n in (8, 16, 32) for d in (0, 1)])
)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize("row", TABLES["zip_uint64"])
def test_unsigned_integers_as_recorded(row: dict[str, Any]) -> None:
    assert z.pack_uint(int(row["u64"])).hex() == row["zip"]
    assert z.unpack_uint(bytes.fromhex(row["zip"])) == int(row["u64"])


@pytest.mark.parametrize("row", TABLES["zip_int64"])
def test_signed_integers_as_recorded(row: dict[str, Any]) -> None:
    assert z.zigzag(int(row["i64"])) == int(row["zigzag"])
    assert z.pack_int(int(row["i64"])).hex() == row["zip"]
    assert z.unpack_int(bytes.fromhex(row["zip"])) == int(row["i64"])
    assert z.pack_pair(int(row["zigzag"]), 0xA).hex() == row["pair_src_a"]


@pytest.mark.parametrize("row", TABLES["zip_float64"])
def test_floats_as_recorded(row: dict[str, Any]) -> None:
    bits = int(row["f64_bits"], 16)
    assert z.pack_float_bits(bits).hex() == row["zip"]
    assert z.unpack_float_bits(bytes.fromhex(row["zip"])) == bits
    assert z.pack_float(struct.unpack(">d", bytes.fromhex(row["f64_bits"]))[0]).hex() == row["zip"]


@pytest.mark.parametrize("row", TABLES["zip_uint64_pair"])
def test_pairs_as_recorded(row: dict[str, Any]) -> None:
    assert z.pack_pair(int(row["big"]), int(row["lil"])).hex() == row["zip"]
    assert z.unpack_pair(bytes.fromhex(row["zip"])) == (int(row["big"]), int(row["lil"]))


@pytest.mark.parametrize("row", TABLES["unzip_uint64_pair_by_length"])
def test_pairs_of_every_length_as_recorded(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["bytes"])
    found = (int(row["big"]), int(row["lil"]))
    assert z.unpack_pair(data, compat=Compat.GO) == found
    if len(data) in z.PAIR_WIDTHS:
        assert z.unpack_pair(data) == found


@pytest.mark.parametrize("length", [7, 11, 13, 14, 15, 17, 100])
def test_a_length_that_no_pair_has_is_refused_or_read_as_zero(length: int) -> None:
    with pytest.raises(PairLength) as caught:
        z.unpack_pair(bytes(length))
    assert caught.value.code == "chotki.pair_length"
    assert z.unpack_pair(b"\1" * length, compat=Compat.GO) == (0, 0)


@given(U64, U64)
def test_pairs_come_back(big: int, lil: int) -> None:
    packed = z.pack_pair(big, lil)
    assert len(packed) in z.PAIR_WIDTHS
    assert z.unpack_pair(packed) == z.unpack_pair(packed, compat=Compat.GO) == (big, lil)


@given(U64, I64)
def test_integers_come_back(unsigned: int, signed: int) -> None:
    assert z.unpack_uint(z.pack_uint(unsigned)) == unsigned
    assert z.unpack_int(z.pack_int(signed)) == signed
    assert z.unzigzag(unsigned) == z.unzigzag(z.zigzag(z.unzigzag(unsigned)))


@given(st.floats())
def test_floats_come_back(value: float) -> None:
    found = z.unpack_float(z.pack_float(value))
    if math.isnan(value):
        assert z.pack_float(value).hex() == "fe1f000000000080"
        assert math.isnan(found)
    else:
        assert struct.pack(">d", found) == struct.pack(">d", value)


@pytest.mark.parametrize("read", [z.unpack_uint, z.unpack_int, z.unpack_float])
def test_no_number_has_more_than_8_bytes(read: Any) -> None:
    read(b"\1" * 8)
    with pytest.raises(ValueMalformed):
        read(b"\1" * 9)
