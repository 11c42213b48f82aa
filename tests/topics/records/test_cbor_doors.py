"""What messages and records refuse alike, and what operations take because p2panda nodes do."""

from __future__ import annotations

from pathlib import Path

import cbor2
import pytest

from culm_models import cbor
from culm_models.p2panda.operations.operation import decode_operation, encode_operation
from culm_topics.errors import RecordError
from culm_topics.sds.records import SdsCommandRecord
from tests.support.p2panda.logs import SCHEMA

ROOT = Path(__file__).parents[3]
RECORD = SdsCommandRecord("join", "spec", "a", bytes(16), settings={"x": 1, "y": 2}).encode()
OPERATION = encode_operation("create", SCHEMA, fields={"x": 1, "y": 2})
PAIR = b"\xa2\x61x\x01\x61y\x02"
CHANGES = {
    "a key twice": b"\xa2\x61x\x01\x61x\x02",
    "a tag": b"\xc1" + PAIR,
    "a tag that is not known": b"\xd9\xff\xff" + PAIR,
    "an indefinite length": b"\xbf\x61x\x01\x61y\x02\xff",
    "deep nesting": b"\xa1\x61x" + b"\x81" * 9 + b"\x01",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_messages_and_records_refuse_the_same(change: bytes) -> None:
    assert RECORD.count(PAIR) == 1
    with pytest.raises(cbor.CborError):
        cbor.loads(b"\x81" + change)
    with pytest.raises(RecordError):
        SdsCommandRecord.decode(RECORD.replace(PAIR, change))


def test_only_records_have_one_spelling_of_a_number() -> None:
    long = b"\xa2\x61x\x18\x01\x61y\x02"
    assert cbor.loads(long) == {"x": 1, "y": 2}
    with pytest.raises(RecordError):
        SdsCommandRecord.decode(RECORD.replace(PAIR, long))


def test_only_operations_may_be_followed_by_bytes() -> None:
    with pytest.raises(cbor.CborError):
        cbor.loads(PAIR + b"\x00")
    with pytest.raises(RecordError):
        SdsCommandRecord.decode(RECORD + b"\x00")
    assert decode_operation(OPERATION + b"\x00") == decode_operation(OPERATION)


def test_an_operation_may_have_lengths_left_open() -> None:
    items = cbor2.loads(OPERATION)
    opened = b"\x9f" + b"".join(map(cbor2.dumps, items)) + b"\xff"
    assert decode_operation(opened) == decode_operation(OPERATION)


def test_the_decoders_options_stand_in_one_place() -> None:
    packages = ("models", "topics", "streaming", "connectors", "infra")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    options = ("allow_duplicate_keys", "allow_indefinite", "semantic_decoders", "tag_hook", "CBORDecoder")
    assert {path.name for path in files if any(word in path.read_text() for word in options)} == {"strict.py"}
