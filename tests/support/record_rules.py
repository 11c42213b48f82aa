"""What holds of every record that is a CBOR array with a format number in front."""

from __future__ import annotations

from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import RecordError


def is_read_as_written(records: st.SearchStrategy[Any], rules: pycddl.Schema) -> None:
    """Every record is read again, is in canonical CBOR, and fits its CDDL."""

    @given(records)
    def check(record: Any) -> None:
        value = record.encode()
        assert type(record).decode(value) == record
        assert value == cbor2.dumps(cbor2.loads(value))
        rules.validate_cbor(value)

    check()


def has_one_encoding(record: Any) -> None:
    """Bytes that only mean the record, or nearly do, are refused."""
    value = record.encode()
    others = [
        b"",
        value + b"\x00",
        value[:-1],
        b"\x9f" + value[1:] + b"\xff",  # indefinite length
        b"\xd9\xd9\xf7" + value,  # self-described
        bytes([0x98, value[0] & 0x1F]) + value[1:],  # a head longer than it need be
        value[:1] + b"\x18\x01" + value[2:],
        value[:1] + b"\x02" + value[2:],  # another format
        cbor2.dumps([*cbor2.loads(value), 0]),
        cbor2.dumps(cbor2.loads(value)[:-1]),
        cbor2.dumps({"a": 1}),
    ]
    for other in others:
        with pytest.raises(RecordError) as caught:
            type(record).decode(other)
        assert caught.value.code == "topics.record"
    with pytest.raises(RecordError):
        type(record).decode(None)


def refuses_junk(record_type: Any, junk: bytes) -> None:
    """Any bytes are refused by the record error alone, or are what a record is written as."""
    try:
        record = record_type.decode(junk)
    except RecordError:
        return
    assert record.encode() == junk
