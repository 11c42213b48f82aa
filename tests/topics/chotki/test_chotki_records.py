"""Keys of the Chotki topics, and what is peculiar to some of its records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import BLOCK_BITS, Id, block_of, object_key, vector_key
from culm_topics.chotki.records import (
    MAX_PACKET_BYTES,
    MAX_PIECE_BYTES,
    BlockVectorRecord,
    OperandReader,
    OperandRecord,
    PacketRecord,
    RecordOrigin,
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
from tests.support.kafka.record_values import points, uints


def test_vectors_that_are_none_are_refused() -> None:
    with pytest.raises(RecordError, match="not a version vector"):
        BlockVectorRecord.decode(BlockVectorRecord(b"\x76\x05").encode())


def test_what_is_too_large_is_not_written() -> None:
    origin = RecordOrigin(bytes(32), 0, 0)
    with pytest.raises(RecordError):
        PacketRecord(origin, 0, bytes(MAX_PACKET_BYTES + 1)).encode()
    with pytest.raises(RecordError):
        OperandRecord(origin, bytes(MAX_PIECE_BYTES + 1)).encode()


@given(st.sampled_from([0, 1, MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1, 2 * MAX_PIECE_BYTES + 7]))
def test_a_large_operand_travels_in_pieces(size: int) -> None:
    operand = bytes(size)
    records = list(OperandRecord.of(RecordOrigin(bytes(32), 1, 2), operand))
    assert [record.piece for record in records] == list(range(records[0].pieces))
    assert b"".join(record.operand for record in records) == operand


@given(points, st.sampled_from("OFS"), st.integers(1, 64))
def test_all_of_a_block_is_in_one_partition(id: Id, letter: str, partitions: int) -> None:
    field, vector = object_key(id, letter), vector_key(block_of(id))
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
    assert len({block_partition(key, 2**20) for key in (first, last)}) == 1
    assert block_partition(beyond, 2**20) != block_partition(first, 2**20)


BRINGER = RecordOrigin(bytes(range(32)), 70_000, 3)


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 70_000])
def test_operands_are_read_one_behind_the_other_as_each_alone(length: int) -> None:
    reader = OperandReader()
    other = RecordOrigin(bytes(32), 4, 5)
    for operand in (b"before", bytes(length), b"", bytes(length), b"behind"):
        for origin in (BRINGER, other):
            for piece, pieces in ((0, 1), (1, 3), (0, 1)):
                for compat in Compat:
                    record = OperandRecord(origin, operand, piece, pieces, compat)
                    assert reader.read(record.encode()) == (origin, operand, piece, pieces, compat)


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
        expected = (record.origin, record.operand, record.piece, record.pieces, record.compat)
        assert reader.read(changed) == expected
