"""What holds of every record: read again as written, in one encoding only, as its CDDL says."""

from __future__ import annotations

from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.errors import RecordError
from culm_topics.records.cddl import records_of, topic_cddl
from culm_topics.records.declare import Record
from tests.support.kafka.record_values import RECORDS

TOPICS = {topic.records: records_of(topic) for topic in CATALOGUE if topic.records}
DECLARED = [record for records in TOPICS.values() for record in records]
RULES: dict[type[Record], pycddl.Schema] = {
    record: pycddl.Schema(f"record = {record.declaration.rule}\n{topic_cddl(records)}")
    for records in TOPICS.values()
    for record in records
}
STRANGERS: list[Any] = [
    *(None, -1, 0, 1, 7, 2**64 - 1, 2**64, 1.5, True),
    *("", "text", "js", "x" * 1_025, b"", b"bytes", bytes(4), bytes(16), bytes(31), bytes(32), bytes(1_025)),
    *([], {}, [1, 2, 3], [[1, 2]], [["id", None, None]] * 1_001, ["sender"] * 65, {"a": {}}, {1: 1}),
    cbor2.CBORTag(9, 1),
]

every_record = pytest.mark.parametrize("record_type", DECLARED, ids=lambda record_type: record_type.__name__)


def is_record(record_type: type[Record], value: bytes | None) -> bool:
    """Whether the bytes are read: they are then written as the same bytes, and otherwise a record error."""
    try:
        record = record_type.decode(value)
    except RecordError as error:
        assert error.code == "topics.record"
        return False
    assert record.encode() == value
    return True


def fits(rules: pycddl.Schema, value: bytes) -> bool | None:
    """Whether bytes are as the CDDL says; None where its validator fails, as on some bytes for texts."""
    try:
        rules.validate_cbor(value)
    except pycddl.ValidationError:
        return False
    except BaseException as failure:
        if type(failure).__name__ != "PanicException":
            raise
        return None
    return True


def test_every_topic_has_records_that_are_drawn_here() -> None:
    assert {topic.name for topic in CATALOGUE if not topic.records} == {"announcements", "dag.settings"}
    assert set(DECLARED) == set(RECORDS)


@every_record
@given(data=st.data())
@settings(max_examples=40)
def test_a_record_is_read_as_it_was_written_and_fits_its_cddl(
    record_type: type[Record], data: st.DataObject
) -> None:
    record = data.draw(RECORDS[record_type])
    value = record.encode()
    assert record_type.decode(value) == record
    assert value == cbor2.dumps(cbor2.loads(value))
    RULES[record_type].validate_cbor(value)


@every_record
@given(data=st.data())
@settings(max_examples=3)
def test_a_record_has_one_encoding(record_type: type[Record], data: st.DataObject) -> None:
    value = data.draw(RECORDS[record_type]).encode()
    items = cbor2.loads(value)
    others = [
        None,
        value + b"\x00",
        b"\x9f" + value[1:] + b"\xff",  # indefinite length
        b"\xd9\xd9\xf7" + value,  # self-described
        bytes([0x98, value[0] & 0x1F]) + value[1:],  # a head longer than it need be
        value[:1] + b"\x18\x01" + value[2:],
        value[:1] + b"\x02" + value[2:],  # another format
        cbor2.dumps([*items, 0]),
        cbor2.dumps(items[:-2]),
        cbor2.dumps({"a": 1}),
    ]
    assert not any(is_record(record_type, other) for other in others)
    assert not any(is_record(record_type, value[:end]) for end in range(min(len(value), 2_000)))


@every_record
@given(data=st.data(), noise=st.binary(max_size=3), junk=st.binary(max_size=200))
@settings(max_examples=40)
def test_other_bytes_are_a_record_or_a_record_error(
    record_type: type[Record], data: st.DataObject, noise: bytes, junk: bytes
) -> None:
    value = bytearray(data.draw(RECORDS[record_type]).encode())
    at = data.draw(st.integers(0, len(value) - 1))
    value[at : at + len(noise)] = noise
    is_record(record_type, bytes(value))
    is_record(record_type, junk)


@every_record
@given(data=st.data())
@settings(max_examples=2)
def test_a_record_takes_what_its_cddl_takes(record_type: type[Record], data: st.DataObject) -> None:
    """Each item in turn becomes something else: what the CDDL refuses, is refused."""
    items = cbor2.loads(data.draw(RECORDS[record_type]).encode())
    refused = 0
    for index in range(len(items)):
        for stranger in STRANGERS:
            changed = cbor2.dumps([*items[:index], stranger, *items[index + 1 :]])
            fitting = fits(RULES[record_type], changed)
            if fitting is not None and is_record(record_type, changed):
                assert fitting
            refused += fitting is False
    assert refused > len(items)
