"""The packets of a diff: D, fields of one block that the peer lacks, and V, its end (reference 2.2, 2.3).

Both are always written in the long form. The body of D is read in pairs by position, since F is also the
letter of a float.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError, PacketMalformed
from culm_models.chotki.ids import PRO_MASK, Id, block_of
from culm_models.chotki.packets.live import check_field
from culm_models.chotki.packets.packet import Packet
from culm_models.chotki.rdx import check_value
from culm_models.chotki.tlv import TINY, long_record, record, records
from culm_models.chotki.zip import WIDTH_MAX

_LETTER_BYTES: Final = {chr(code): bytes([code]) for code in range(256)}


class UnreadableField(NamedTuple):
    """A field of a diff that was set aside, and why."""

    id: Id
    letter: str
    value: bytes
    error: ChotkiError


class Parcel(NamedTuple):
    """One D: ``fields`` are store keys and operands."""

    t: Id
    block: Id
    fields: list[tuple[bytes, bytes]]
    unreadable: list[UnreadableField]


def parcel_head(t: Id, block: Id) -> bytes:
    """What the body of a D begins with: T and R."""
    return record("T", t.zip()) + record("R", block.zip())


def write_parcel(t: Id, block: Id, fields: list[tuple[bytes, bytes]]) -> bytes:
    """D of these store keys and operands, in this order."""
    parts = [parcel_head(t, block)]
    for key, value in fields:
        offset = int.from_bytes(key[9:17], "big") - block.pro & PRO_MASK
        parts.append(record("F", offset.to_bytes((offset.bit_length() + 7) >> 3, "little")))
        parts.append(record(chr(key[17]), value))
    return long_record("D", *parts)


def read_parcel(packet: Packet, *, compat: Compat = Compat.DEFAULT, set_aside: bool = False) -> Parcel:
    """What a D brings.

    Raises `PacketMalformed`, then in the order of the bytes `FieldLetterUnknown`, `ValueMalformed` and
    `PairLength`; with ``set_aside`` a value that does not parse is put among the unreadable ones instead.
    """
    inner = packet.inner
    if len(inner) % 2:
        raise PacketMalformed("a diff whose last offset has no value")
    block = packet.ref
    start, prefix = block.pro, b"O" + block.src.to_bytes(8, "big")
    offsets = []
    for letter, data in inner[::2]:
        if (letter != "F" and letter != TINY) or len(data) > WIDTH_MAX:  # noqa: PLR1714 (in an inner loop)
            raise PacketMalformed(f"a record {letter} of {len(data)} bytes where a diff has an offset")
        offsets.append(int.from_bytes(data, "little"))
    fields: list[tuple[bytes, bytes]] = []
    unreadable: list[UnreadableField] = []
    for offset, (letter, value) in zip(offsets, inner[1::2], strict=True):
        pro = start + offset & PRO_MASK
        try:
            check_field(letter, value, compat)
        except ChotkiError as error:
            if not set_aside or letter == TINY:
                raise
            unreadable.append(UnreadableField(Id(block.src, pro), letter, value, error))
            continue
        fields.append((prefix + pro.to_bytes(8, "big") + _LETTER_BYTES[letter], value))
    return Parcel(packet.id, block, fields, unreadable)


def block_vector(block: Id, vector: bytes) -> bytes:
    """The record inside V for one D: the block and its whole vector."""
    return record("V", record("R", block.zip()), vector)


def write_end(t: Id, block_vectors: list[bytes]) -> bytes:
    """V of these `block_vector` records."""
    return long_record("V", record("T", t.zip()), *block_vectors)


def read_end(packet: Packet, *, compat: Compat = Compat.DEFAULT) -> list[tuple[Id, bytes]]:
    """The blocks that V names, with their vectors.

    Raises `PacketMalformed`, then `PairLength` and `ValueMalformed`.
    """
    pairs = []
    for letter, body in packet.inner:
        first, *entries = records(body) or [("", b"")]
        if letter not in ("V", TINY) or first[0] not in ("R", TINY):
            raise PacketMalformed("a record in V that is not a block with its vector")
        if any(one not in ("V", TINY) for one, _ in entries):
            raise PacketMalformed("a vector whose records are not its entries")
        pairs.append((first[1], b"".join(record("V", entry) for _, entry in entries)))
    found = []
    for block_bytes, vector in pairs:
        block = block_of(Id.unzip(block_bytes, compat=compat))
        if compat is Compat.DEFAULT:
            check_value("V", vector)
        found.append((block, vector))
    return found
