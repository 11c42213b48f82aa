"""The subset of protobuf that dag-pb and UnixFS need: fields with wire types, in the order of the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.dag.errors import DagPbMalformed
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, read_varint, write_varint

NUMBER: Final = 0
OCTETS: Final = 2
U64_MAX: Final = (1 << 64) - 1

_VARINT_BYTES_MAX: Final = 10


def read_fields(data: bytes | memoryview) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield each field as its number, wire type and value.

    Raises `DagPbMalformed` for wire types other than numbers and bytes.
    """
    at = 0
    while at < len(data):
        key, at = _read_number(data, at)
        wire = key & 7
        value, at = _read_number(data, at)
        if wire == OCTETS:
            if value > len(data) - at:
                raise DagPbMalformed("the bytes end in a field")
            yield key >> 3, wire, bytes(data[at : at + value])
            at += value
        elif wire == NUMBER:
            yield key >> 3, wire, value
        else:
            raise DagPbMalformed(f"wire type {wire}")


def read_numbers(data: bytes) -> list[int]:
    """Decode the numbers of a packed field."""
    numbers = []
    at = 0
    while at < len(data):
        number, at = _read_number(data, at)
        numbers.append(number)
    return numbers


def _read_number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    try:
        number, end = read_varint(data, at, _VARINT_BYTES_MAX)
    except (VarintCutOff, VarintTooLong):
        raise DagPbMalformed("the bytes end in a varint, or it is too long") from None
    if not is_shortest(number, end - at) or number > U64_MAX:
        raise DagPbMalformed("a varint that is not the shortest form, or too large")
    return number, end


def write_number(field: int, number: int) -> bytes:
    """Encode a field that holds a number."""
    return write_varint(field << 3 | NUMBER) + write_varint(number)


def write_octets(field: int, data: bytes) -> bytes:
    """Encode a field that holds bytes."""
    return write_varint(field << 3 | OCTETS) + write_varint(len(data)) + data
