"""Keys and values of the Chotki topics: read again as written, in one encoding only, as the CDDL says."""

from importlib.resources import files
from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import BLOCK_BITS, Id, block_of, object_key, vector_key
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.catalogue import CHOTKI
from culm_topics.chotki.records import (
    MAX_PACKET_BYTES,
    MAX_PIECE_BYTES,
    Behind,
    BlockVectorRecord,
    Bringer,
    CommitRecord,
    EpochRecord,
    FieldHead,
    FieldRecord,
    HoldingRecord,
    OpenSyncItem,
    OperandReader,
    OperandRecord,
    PacketRecord,
    SessionRecord,
    SourceRecord,
    block_partition,
    epoch_key,
    is_epoch_key,
    is_field_key,
    is_vector_key,
    session_key,
    source_key,
    source_partition,
    split_session_key,
    split_source_key,
)
from culm_topics.errors import RecordError

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
blobs = st.binary(max_size=300) | st.integers(65530, 65540).map(bytes)
texts = st.text(max_size=80)
vectors = st.dictionaries(uints, st.integers(0, 2**52 - 1), max_size=5).map(write_vector)
bringers = st.builds(Bringer, st.binary(min_size=32, max_size=32), uints, uints)
ends = st.dictionaries(st.integers(0, 1000), uints, max_size=5).map(lambda one: tuple(sorted(one.items())))
ids = st.builds(Id, uints, st.integers(0, 2**52 - 1))
progress = st.builds(Progress, uints, uints, uints, uints)
open_syncs = st.lists(st.builds(OpenSyncItem, uints, uints, uints, uints), max_size=30).map(tuple)
compats = st.sampled_from(Compat)
traces = st.just(b"") | st.binary(min_size=10, max_size=10)

PACKETS = st.builds(PacketRecord, bringers, uints, blobs, compats)
OPERANDS = st.builds(OperandRecord, bringers, blobs, st.integers(0, 3), st.integers(4, 1024), compats)
COMMITS = st.builds(CommitRecord, bringers, ids, vectors, vectors, ends)
FIELDS = st.builds(FieldRecord, blobs, st.none() | vectors)
HEADS = st.builds(FieldHead, st.binary(min_size=16, max_size=16), uints, st.none() | vectors)
BLOCK_VECTORS = st.builds(BlockVectorRecord, vectors)
EPOCHS = st.builds(EpochRecord, uints, vectors, ends, ends, ends)
lags = st.lists(st.builds(Behind, uints, uints, uints), max_size=5).map(tuple)
HOLDINGS = st.builds(HoldingRecord, vectors, uints, uints, lags)
SESSIONS = st.builds(
    SessionRecord,
    *(texts, uints, texts, uints, traces, traces, uints, uints),
    *(progress, progress, open_syncs),
    *(uints, uints, texts, texts, uints),
)
SOURCES = st.builds(
    SourceRecord, texts, st.binary(min_size=16, max_size=16), st.sampled_from(["allocated", "retired"]), uints
)

RECORDS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "packet": ("chotki.packets", PACKETS),
    "operand": ("chotki.fields", OPERANDS),
    "commit": ("chotki.commits", COMMITS),
    "field": ("chotki.state", FIELDS),
    "field head": ("chotki.state", HEADS),
    "block vector": ("chotki.state", BLOCK_VECTORS),
    "epoch": ("chotki.state", EPOCHS),
    "holding": ("chotki.vectors", HOLDINGS),
    "session": ("chotki.sessions", SESSIONS),
    "source": ("chotki.sources", SOURCES),
}


def schema(topic: str) -> pycddl.Schema:
    spec = next(one for one in CHOTKI if one.name == topic)
    assert spec.cddl is not None
    return pycddl.Schema(files("culm_topics").joinpath(spec.cddl).read_text())


SCHEMAS = {topic: schema(topic) for topic, _ in RECORDS.values()}


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
def test_a_record_is_read_as_written_and_as_its_cddl_says(name: str, data: st.DataObject) -> None:
    topic, strategy = RECORDS[name]
    record = data.draw(strategy)
    value = record.encode()
    assert type(record).decode(value) == record
    SCHEMAS[topic].validate_cbor(value)


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
def test_no_other_bytes_are_a_record(name: str, data: st.DataObject) -> None:
    record = data.draw(RECORDS[name][1])
    value = record.encode()
    for other in (
        None,
        value + b"\0",
        value[:-1],
        cbor2.dumps([2, *cbor2.loads(value)[1:]]),
        cbor2.dumps([*cbor2.loads(value), 0]),
        b"\x98" + bytes([len(cbor2.loads(value))]) + value[1:],
    ):
        with pytest.raises(RecordError):
            type(record).decode(other)


@given(st.sampled_from([one for _, one in RECORDS.values()]), st.data(), st.binary(max_size=3))
def test_mutated_bytes_are_a_record_or_a_record_error(
    strategy: st.SearchStrategy[Any], data: st.DataObject, noise: bytes
) -> None:
    record = data.draw(strategy)
    value = bytearray(record.encode())
    at = data.draw(st.integers(0, len(value) - 1))
    value[at : at + len(noise)] = noise
    try:
        again = type(record).decode(bytes(value))
    except RecordError:
        return
    assert again.encode() == bytes(value)


def test_vectors_that_are_none_are_refused() -> None:
    with pytest.raises(RecordError, match="no version vector"):
        BlockVectorRecord.decode(BlockVectorRecord(b"\x76\x05").encode())


def test_what_is_too_large_is_not_written() -> None:
    bringer = Bringer(bytes(32), 0, 0)
    with pytest.raises(RecordError):
        PacketRecord(bringer, 0, bytes(MAX_PACKET_BYTES + 1)).encode()
    with pytest.raises(RecordError):
        OperandRecord(bringer, bytes(MAX_PIECE_BYTES + 1)).encode()


@given(st.sampled_from([0, 1, MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1, 2 * MAX_PIECE_BYTES + 7]))
def test_a_large_operand_travels_in_pieces(size: int) -> None:
    operand = bytes(size)
    records = list(OperandRecord.of(Bringer(bytes(32), 1, 2), operand))
    assert [one.piece for one in records] == list(range(records[0].pieces))
    assert b"".join(one.operand for one in records) == operand


@given(ids, st.sampled_from("OFS"), st.integers(1, 64))
def test_all_of_a_block_is_in_one_partition(one: Id, letter: str, partitions: int) -> None:
    field, vector = object_key(one, letter), vector_key(block_of(one))
    assert is_field_key(field) and is_vector_key(vector)
    assert block_partition(field, partitions) == block_partition(vector, partitions) < partitions


@given(uints, st.integers(1, 64))
def test_keys_are_read_as_written(number: int, partitions: int) -> None:
    assert split_source_key(source_key(number)) == number
    assert split_session_key(session_key(b"e" * 32, number)) == (b"e" * 32, number)
    assert source_partition(number, partitions) < partitions
    assert is_epoch_key(epoch_key(number % 2**32)) and not is_field_key(epoch_key(3))


@pytest.mark.parametrize("key", [None, b"", bytes(7), bytes(41)])
def test_other_keys_are_refused(key: bytes | None) -> None:
    for split in (split_source_key, split_session_key):
        with pytest.raises(RecordError):
            split(key)


def test_a_block_holds_65536_sequence_numbers() -> None:
    first, last, beyond = (object_key(Id.make(5, seq), "O") for seq in (0, 0xFFFF, 0x10000))
    assert BLOCK_BITS == 28
    assert len({block_partition(one, 2**20) for one in (first, last)}) == 1
    assert block_partition(beyond, 2**20) != block_partition(first, 2**20)


BRINGER = Bringer(bytes(range(32)), 70_000, 3)


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 70_000])
def test_operands_are_read_one_behind_the_other_as_each_alone(length: int) -> None:
    reader = OperandReader()
    other = Bringer(bytes(32), 4, 5)
    for operand in (b"before", bytes(length), b"", bytes(length), b"behind"):
        for bringer in (BRINGER, other):
            for piece, pieces in ((0, 1), (1, 3), (0, 1)):
                for compat in Compat:
                    record = OperandRecord(bringer, operand, piece, pieces, compat)
                    assert reader.read(record.encode()) == (bringer, operand, piece, pieces, compat)


@given(st.integers(0, 60), st.integers(0, 255), st.booleans())
def test_bytes_that_are_no_operand_are_refused_behind_one_that_is(at: int, byte: int, is_cut: bool) -> None:
    whole = OperandRecord(BRINGER, b"twelve bytes").encode()
    changed = whole[:at] if is_cut else whole[:at] + bytes([byte]) + whole[at + 1 :]
    reader = OperandReader()
    reader.read(whole)
    try:
        record = OperandRecord.decode(changed)
    except RecordError:
        with pytest.raises(RecordError):
            reader.read(changed)
    else:
        assert reader.read(changed) == (
            record.bringer,
            record.operand,
            record.piece,
            record.pieces,
            record.compat,
        )
