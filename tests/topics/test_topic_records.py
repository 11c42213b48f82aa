"""Keys and values of the topics: what is written is read again, in one encoding only, as the CDDL says."""

from importlib.resources import files
from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.catalogue import CATALOGUE
from culm_topics.errors import RecordError
from culm_topics.records import (
    HEIGHTS_PEER_ID,
    EntryRecord,
    LogRecord,
    ReceiptRecord,
    RejectedRecord,
    VersionVectorRecord,
    check_peer_key,
    log_key,
    split_log_key,
    split_version_vector_key,
    version_vector_key,
)

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
public_keys = st.binary(min_size=32, max_size=32)
blobs = st.binary(max_size=300) | st.integers(65530, 65540).map(bytes)
texts = st.text(max_size=80)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "entries": st.builds(
        EntryRecord, blobs, blobs, texts, public_keys, uints, st.binary(min_size=8, max_size=32)
    ),
    "logs": st.builds(
        LogRecord,
        uints.map(lambda number: max(number, 1)),
        blobs,
        blobs,
        st.binary(min_size=34, max_size=34),
        texts,
    ),
    "rejected": st.builds(
        RejectedRecord,
        texts,
        texts,
        st.none() | blobs,
        st.none() | blobs,
        st.none() | public_keys,
        st.none() | st.tuples(texts, uints, uints),
        st.none() | uints,
        st.none() | blobs,
    ),
    "receipts": st.builds(
        ReceiptRecord, st.lists(st.tuples(public_keys, uints, uints), max_size=30).map(tuple)
    ),
    "version-vectors": st.builds(VersionVectorRecord, uints),
}
SAMPLES: dict[str, Any] = {
    "entries": EntryRecord(b"entry", b"operation", "schema_definition_v1", bytes(32), 7, b"connector"),
    "logs": LogRecord(3, b"entry", b"operation", bytes(34), "schema_definition_v1"),
    "rejected": RejectedRecord("bamboo.fork", "", b"a", b"b", bytes(32), ("culm.entries", 0, 9), 3, b"c"),
    "receipts": ReceiptRecord(((bytes(32), 0, 5), (bytes(32), 1, 300))),
    "version-vectors": VersionVectorRecord(12),
}


def schema(name: str) -> pycddl.Schema:
    return pycddl.Schema(files("culm_topics").joinpath("cddl", f"{name}.cddl").read_text())


def test_every_record_of_the_catalogue_is_tested_here() -> None:
    described = {topic.name for topic in CATALOGUE if topic.cddl is not None}
    assert described == set(RECORDS) == set(SAMPLES)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_read_as_it_was_written_and_fits_its_cddl(name: str) -> None:
    rules = schema(name)

    @given(RECORDS[name])
    def check(record: Any) -> None:
        value = record.encode()
        assert type(record).decode(value) == record
        assert value == cbor2.dumps(cbor2.loads(value))
        rules.validate_cbor(value)

    check()


@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_breaks_the_cddl_is_refused(name: str) -> None:
    """Each item in turn becomes something else; what the CDDL refuses, `decode` refuses too."""
    record = SAMPLES[name]
    rules = schema(name)
    items = cbor2.loads(record.encode())
    strangers: list[Any] = [
        None,
        -1,
        2**64,
        1.5,
        True,
        "text",
        b"bytes",
        [],
        {},
        [1, 2, 3],
        bytes(31),
        cbor2.CBORTag(9, 1),
    ]
    refused = 0
    for place in range(len(items)):
        for stranger in strangers:
            changed = cbor2.dumps([*items[:place], stranger, *items[place + 1 :]])
            try:
                rules.validate_cbor(changed)
            except pycddl.ValidationError:
                refused += 1
                with pytest.raises(RecordError):
                    type(record).decode(changed)
    assert refused > len(items)


@pytest.mark.parametrize("name", SAMPLES)
def test_only_the_shortest_encoding_is_read(name: str) -> None:
    record = SAMPLES[name]
    value = record.encode()
    decode = type(record).decode
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
            decode(other)
        assert caught.value.code == "topics.record"
    with pytest.raises(RecordError):
        decode(None)


@pytest.mark.parametrize("name", SAMPLES)
@given(junk=st.binary(max_size=200))
def test_junk_is_refused_with_the_record_error_alone(name: str, junk: bytes) -> None:
    record_type = type(SAMPLES[name])
    try:
        record = record_type.decode(junk)
    except RecordError:
        return
    assert record.encode() == junk


def test_references_and_big_numbers_are_refused() -> None:
    reference = bytes.fromhex("8201d81c05")
    big = bytes.fromhex("8201c24105")
    for value in (reference, big):
        with pytest.raises(RecordError):
            VersionVectorRecord.decode(value)


def test_a_deep_value_is_refused() -> None:
    with pytest.raises(RecordError):
        ReceiptRecord.decode(b"\x82\x01" + b"\x81" * 10_000)


@given(public_keys, uints)
def test_log_key_sorts_by_author_then_log(public_key: bytes, log_id: int) -> None:
    key = log_key(public_key, log_id)
    assert len(key) == 40
    assert split_log_key(key) == (public_key, log_id)
    if log_id < 2**64 - 1:
        assert key < log_key(public_key, log_id + 1)


@given(public_keys, public_keys, uints)
def test_version_vector_key_is_peer_then_log(peer_id: bytes, public_key: bytes, log_id: int) -> None:
    key = version_vector_key(peer_id, public_key, log_id)
    assert len(key) == 72
    assert split_version_vector_key(key) == (peer_id, public_key, log_id)


def test_log_heights_are_the_rows_of_the_all_zero_peer() -> None:
    assert bytes(32) == HEIGHTS_PEER_ID


@pytest.mark.parametrize("key", [None, b"", bytes(39), bytes(41)])
def test_keys_of_another_size_are_refused(key: bytes | None) -> None:
    for split in (split_log_key, split_version_vector_key, check_peer_key):
        with pytest.raises(RecordError):
            split(key)
