"""What every packet is made of: records, numbers without their zero bytes, and ids."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki import zip as z
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import (
    IdTextMalformed,
    PacketMalformed,
    PairLength,
    RecordMalformed,
    RecordTooLarge,
    ValueMalformed,
)
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
from culm_models.chotki.tlv import RecordReader, header, long_record, probe, record, records
from tests.models.chotki.rdx_tables import TABLES

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RECORDS = st.builds(
    lambda letter, body, write: write(letter, body),
    st.sampled_from(LETTERS + LETTERS.lower()),
    st.binary(max_size=300),
    st.sampled_from([record, long_record]),
)
MAX = 1 << 16


@pytest.mark.parametrize("row", TABLES["tlv_headers"])
def test_headers_as_recorded(row: dict[str, Any]) -> None:
    assert header(row["letter"], row["body_length"]).hex() == row["header"]


@pytest.mark.parametrize("row", TABLES["tlv_probe"])
def test_probes_as_recorded(row: dict[str, Any]) -> None:
    probed = probe(bytes.fromhex(row["bytes"]))
    assert probed == (row["letter"], row["header_length"], row["body_length"])


@pytest.mark.parametrize(
    ("letter", "length", "expected"),
    [
        ("t", 9, "39"),
        ("t", 10, "740a"),
        ("T", 0, "7400"),
        ("T", 255, "74ff"),
        ("T", 256, "5400010000"),
        ("t", 256, "5400010000"),
        ("Z", 0x7FFFFFFF, "5affffff7f"),
    ],
)
def test_a_header_has_the_form_that_case_and_length_ask_for(letter: str, length: int, expected: str) -> None:
    assert header(letter, length).hex() == expected
    code, header_length, body_length = probe(header(letter, length))
    assert (header_length, body_length) == (len(expected) // 2, length)
    assert chr(code) == ("0" if header_length == 1 else letter.upper())


@pytest.mark.parametrize("data", ["", "61", "41", "41ffffff"])
def test_a_header_may_be_incomplete(data: str) -> None:
    assert probe(bytes.fromhex(data)) == (0, 0, 0)


@pytest.mark.parametrize("data", ["2f", "3a", "40", "5b", "60", "7b", "00", "ff", "4100000080", "41ffffffff"])
def test_other_bytes_begin_no_record(data: str) -> None:
    assert probe(bytes.fromhex(data)) == (45, 0, 0)
    with pytest.raises(RecordMalformed) as caught:
        list(RecordReader(MAX).feed(bytes.fromhex(data)))
    assert caught.value.code == "chotki.record"


@given(st.lists(RECORDS, max_size=6))
def test_records_are_taken_apart_as_they_were_put_together(drawn: list[bytes]) -> None:
    again = [record(letter if letter != "0" else "t", body) for letter, body in records(b"".join(drawn))]
    assert [next(iter(records(record)))[1] for record in again] == [
        next(iter(records(record)))[1] for record in drawn
    ]
    assert len(again) == len(drawn)


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_a_rest_that_is_no_record_is_refused(drawn: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(drawn[-1]) - 1)) if len(drawn[-1]) > 1 else 1
    whole = b"".join(drawn[:-1]) + drawn[-1][:cut] + (b"" if len(drawn[-1]) > 1 else b"\x2d")
    with pytest.raises(PacketMalformed):
        list(records(whole))


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_a_stream_may_be_split_at_every_byte(drawn: list[bytes]) -> None:
    stream = b"".join(drawn)
    for cut in range(len(stream) + 1):
        reader = RecordReader(MAX)
        assert [*reader.feed(stream[:cut]), *reader.feed(stream[cut:])] == drawn
        assert reader.pending_bytes == 0
    reader = RecordReader(MAX)
    assert [record for byte in stream for record in reader.feed(bytes([byte]))] == drawn


@given(st.lists(RECORDS, max_size=4), st.sampled_from([b"\x60", b"A\xff\xff\xff\x7f", b"A\x01\x00\x01\x00"]))
def test_what_came_before_a_refused_header_comes_out_first(drawn: list[bytes], bad: bytes) -> None:
    reader = RecordReader(MAX)
    received: list[bytes] = []
    with pytest.raises((RecordMalformed, RecordTooLarge)) as caught:
        # Taken one by one: an extension of the list by a call that fails keeps what came before.
        received.extend(reader.feed(b"".join(drawn) + bad))
    assert received == drawn
    with pytest.raises(type(caught.value)):
        list(reader.feed(b"0"))
    assert reader.pending_bytes == 0


def test_a_header_is_refused_before_its_body_comes() -> None:
    reader = RecordReader(1000)
    assert [len(record) for record in reader.feed(long_record("D", bytes(1000)))] == [1005]
    with pytest.raises(RecordTooLarge) as caught:
        list(reader.feed(long_record("D", bytes(1001))[:5]))
    assert caught.value.code == "chotki.record_size"


def test_no_memory_is_taken_on_a_headers_word() -> None:
    reader = RecordReader(1 << 30)
    assert list(reader.feed(b"D\xff\xff\xff\x3f" + bytes(100))) == []
    assert reader.pending_bytes == 105
    assert sum(sys.getsizeof(getattr(reader, name)) for name in reader.__slots__) < 2000


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_records_or_refused(data: bytes, size: int) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[bytes], str]:
        reader = RecordReader(200)
        received: list[bytes] = []
        try:
            for piece in pieces:
                received += reader.feed(piece)
        except (RecordMalformed, RecordTooLarge) as error:
            return received, error.code
        return received, f"{reader.pending_bytes} more"

    whole, in_pieces = outcome([data]), outcome([data[at : at + size] for at in range(0, len(data), size)])
    assert whole == in_pieces


# Integers, floats and pairs without their zero bytes: the recorded tables, and there and back.


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
    expected = (int(row["big"]), int(row["lil"]))
    assert z.unpack_pair(data, compat=Compat.GO) == expected
    if len(data) in z.PAIR_WIDTHS:
        assert z.unpack_pair(data) == expected


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
    unpacked = z.unpack_float(z.pack_float(value))
    if math.isnan(value):
        assert z.pack_float(value).hex() == "fe1f000000000080"
        assert math.isnan(unpacked)
    else:
        assert struct.pack(">d", unpacked) == struct.pack(">d", value)


@pytest.mark.parametrize("read", [z.unpack_uint, z.unpack_int, z.unpack_float])
def test_no_number_has_more_than_8_bytes(read: Any) -> None:
    read(b"\1" * 8)
    with pytest.raises(ValueMalformed):
        read(b"\1" * 9)


# IDs: text, bytes, keys of a store and blocks.


IDS = st.builds(Id, st.integers(0, (1 << 64) - 1), st.integers(0, PRO_MASK))


@pytest.mark.parametrize("row", TABLES["ids"], ids=lambda row: row["text"])
def test_ids_as_recorded(row: dict[str, Any]) -> None:
    parsed = read_id_text(row["text"])
    assert (parsed.src, parsed.pro & PRO_MASK) == (int(row["src"]), int(row["pro"]))
    assert str(parsed) == row["printed"]
    assert parsed.zip().hex() == row["zip"]
    assert object_key(parsed, "S").hex() == row["okey_S"]
    assert vector_key(parsed).hex() == row["vkey"]
    assert block_of(parsed).zip().hex() == row["block_zip"]
    assert (parsed == BAD_ID) is row["bad"]


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
    parsed = read_id_text(text)
    assert parsed == BAD_ID or read_id_text(str(parsed)) == parsed


@given(IDS)
def test_bytes_and_keys_come_back(id: Id) -> None:
    assert Id.unzip(id.zip()) == id
    assert split_object_key(object_key(id, "N")) == (id, "N")
    assert split_vector_key(vector_key(id)) == block_of(id)
    assert vector_key(block_of(id)) == vector_key(id)


@given(IDS, IDS)
def test_keys_go_by_source_and_progress(left: Id, right: Id) -> None:
    assert (object_key(left, "S") < object_key(right, "S")) == (left < right)


def test_the_vector_of_everything_is_before_all_others() -> None:
    assert split_vector_key(GLOBAL_VECTOR_KEY) is None
    assert vector_key(Id(0, 0)) > GLOBAL_VECTOR_KEY
    assert object_key(Id((1 << 64) - 1, PRO_MASK), "Z") < GLOBAL_VECTOR_KEY
    assert str(Id((1 << 64) - 1, 0x1002)) == "-1-1-2"


def test_of_a_progress_52_bits_are_read() -> None:
    assert Id.unzip(b"\n".ljust(8, b"\0") + b"\xff" * 8) == Id(10, PRO_MASK)
