"""Records of `entries` become rows: cut-out records are the encoded ones, and bad records are told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo import sign_entry
from culm_models.p2panda.operations.operation import check_entry, encode_operation
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_models.testing.p2panda.logs import LogWriter
from culm_streaming.logs import packing
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import HEAD, log_value, take_apart, unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord, LogRecord
from culm_topics.records import RejectedRecord, log_key
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.logs_job import BROUGHT_BY, Shards, arrivals

ALICE = author("alice")
LENGTHS = st.one_of(st.integers(0, 300), st.sampled_from([23, 24, 255, 256, 65_535, 65_536, 70_000]))
NUMBERS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 23, 24, 255, 256, 65_535, 65_536]))
SETTINGS = ChainSettings(shards=1, blocks=1)

records = st.builds(
    EntryRecord,
    entry=LENGTHS.map(bytes),
    operation=LENGTHS.map(bytes),
    schema_id=st.text(max_size=300),
    brought_by=st.binary(min_size=32, max_size=32),
    session_id=NUMBERS,
    connector=st.binary(min_size=8, max_size=32),
)


@given(record=records, seq_num=NUMBERS.filter(bool))
def test_the_record_that_is_cut_out_is_the_record_that_would_be_encoded(
    record: EntryRecord, seq_num: int
) -> None:
    parts = take_apart(record.encode())
    if parts is None:
        return
    assert (parts.entry, parts.operation, parts.brought_by) == (
        record.entry,
        record.operation,
        record.brought_by,
    )
    assert parts.schema == record.schema_id.encode()
    entry_hash = b"\x00\x20" + bytes(32)
    encoded = LogRecord(seq_num, record.entry, record.operation, entry_hash, record.schema_id).encode()
    assert log_value(parts, seq_num, entry_hash) == encoded


def test_usual_records_are_taken_apart() -> None:
    record = EntryRecord(bytes(200), bytes(300), SCHEMA, BROUGHT_BY, 300, bytes(16))
    assert take_apart(record.encode()) is not None


@given(record=records, data=st.data())
def test_what_is_taken_apart_is_a_record(record: EntryRecord, data: st.DataObject) -> None:
    value = bytearray(record.encode())
    position = data.draw(st.integers(0, min(len(value), 400) - 1))
    value[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del value[data.draw(st.integers(0, len(value))) :]
    parts = take_apart(bytes(value))
    if parts is None:
        return
    try:
        parts.schema.decode()
    except UnicodeDecodeError:
        return  # compared with the operation's schema id, so never used
    decoded = EntryRecord.decode(bytes(value))
    assert (decoded.entry, decoded.operation, decoded.brought_by) == (
        parts.entry,
        parts.operation,
        parts.brought_by,
    )


def refused(shards: Shards, *codes: str) -> list[RejectedRecord]:
    assert shards.codes() == sorted(codes)
    assert shards.logs == []
    return shards.refusals()


def test_a_record_under_another_key_is_refused() -> None:
    (entry,) = make_log(ALICE, 1, 1)
    ((_, value, *_),) = arrivals([entry])
    shards = Shards(SETTINGS)
    shards.run([(log_key(ALICE.public_key, 2), value, 0, 3), (b"", value, 0, 4), (None, value, 5, 6)])
    refusals = refused(shards, "topics.record", "topics.record", "topics.record")
    assert all(record.entry == entry.entry_bytes for record in refusals)
    assert [key for key, _ in shards.rejected] == [log_key(ALICE.public_key, 2), b"", b""]
    assert refusals[2].source == ("culm.entries", 5, 6)


def test_undecodable_bytes_are_kept_as_they_are() -> None:
    shards = Shards(SETTINGS)
    shards.run([(b"", b"\x87\x01\x58", 0, 0), (b"", None, 0, 1)])
    assert [record.entry for record in refused(shards, "topics.record", "topics.record")] == [
        b"\x87\x01\x58",
        None,
    ]


def test_a_record_labelled_with_another_schema_is_written_with_its_own() -> None:
    (entry,) = make_log(ALICE, 1, 1)
    record = EntryRecord(entry.entry_bytes, entry.payload_bytes, OTHER_SCHEMA, BROUGHT_BY, 7, bytes(8))
    shards = Shards(SETTINGS)
    shards.run([(log_key(*entry.log), record.encode(), 0, 0)])
    assert [record.schema_id for record in shards.log(log_key(*entry.log))] == [SCHEMA]


def test_a_second_document_in_a_log_is_refused() -> None:
    first = make_log(ALICE, 1, 1)[0]
    operation = encode_operation("create", SCHEMA, fields={"name": "again"})
    second = check_entry(sign_entry(ALICE, 1, 2, operation, backlink=first.hash), operation)
    shards = Shards(SETTINGS)
    shards.run(arrivals([second]))
    refused(shards, "bamboo.log_id")


def test_a_signature_counts_only_with_full_verification() -> None:
    (entry,) = make_log(ALICE, 1, 1)
    ((key, value, *position),) = arrivals([entry])
    assert value is not None
    forged = value.replace(entry.entry_bytes[-8:], bytes(8))
    for verify_signature, code in ((True, "bamboo.signature"), (False, None)):
        (rows,) = pack_records([(key, forged, 0, position[1])], SETTINGS, verify_signature=verify_signature)
        (row,) = unpack_rows([(rows.heads, rows.sizes, rows.values)]).values
        if code is None:
            assert LogRecord.decode(row).seq_num == 1
        else:
            assert RejectedRecord.decode(row).code == code


def test_large_batches_are_packed_in_parts() -> None:
    log = make_log(ALICE, 1, 9)
    limit = packing._FLUSH_BYTES
    try:
        packing._FLUSH_BYTES = 1000
        packed = list(pack_records(arrivals(log), SETTINGS, verify_signature=False))
    finally:
        packing._FLUSH_BYTES = limit
    assert len(packed) > 1
    assert sum(len(rows.heads) for rows in packed) == 9 * HEAD.itemsize


def test_a_record_too_large_to_be_written_again_is_told_without_its_bytes() -> None:
    shards = Shards(SETTINGS)
    shards.run([(b"", bytes(packing.MAX_VALUE_BYTES + 1), 0, 9)])
    (record,) = refused(shards, RecordError.code)
    assert record.entry is None
    assert record.source == ("culm.entries", 0, 9)


def test_an_operation_that_no_peer_could_be_sent_is_refused() -> None:
    writer = LogWriter(ALICE, 4, SCHEMA)
    large = writer.append({"data": bytes(MAX_OPERATION_BYTES)})
    (packed,) = pack_records(arrivals([large]), SETTINGS, verify_signature=True)
    (value,) = unpack_rows([(packed.heads, packed.sizes, packed.values)]).values
    assert RejectedRecord.decode(value).code == "p2panda.operation.too_large"
