"""Records: headers as recorded, any split, any bytes, no memory on a header's word."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.errors import PacketMalformed, RecordMalformed, RecordTooLarge
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
    found = probe(bytes.fromhex(row["bytes"]))
    assert found == (row["letter"], row["header_length"], row["body_length"])


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
    assert [next(iter(records(one)))[1] for one in again] == [next(iter(records(one)))[1] for one in drawn]
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
    assert [one for byte in stream for one in reader.feed(bytes([byte]))] == drawn


@given(st.lists(RECORDS, max_size=4), st.sampled_from([b"\x60", b"A\xff\xff\xff\x7f", b"A\x01\x00\x01\x00"]))
def test_what_came_before_a_refused_header_comes_out_first(drawn: list[bytes], bad: bytes) -> None:
    reader = RecordReader(MAX)
    found: list[bytes] = []
    with pytest.raises((RecordMalformed, RecordTooLarge)) as caught:
        # Taken one by one: an extension of the list by a call that fails keeps what came before.
        found.extend(reader.feed(b"".join(drawn) + bad))
    assert found == drawn
    with pytest.raises(type(caught.value)):
        list(reader.feed(b"0"))
    assert reader.pending_bytes == 0


def test_a_header_is_refused_before_its_body_comes() -> None:
    reader = RecordReader(1000)
    assert [len(one) for one in reader.feed(long_record("D", bytes(1000)))] == [1005]
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
        found: list[bytes] = []
        try:
            for piece in pieces:
                found += reader.feed(piece)
        except (RecordMalformed, RecordTooLarge) as error:
            return found, error.code
        return found, f"{reader.pending_bytes} more"

    one, other = outcome([data]), outcome([data[at : at + size] for at in range(0, len(data), size)])
    assert one == other
