"""Live packets: C, O, E and Y, each of them one change of one source (reference 2.4, 3.3).

`read_live` turns a packet into its effects: operands for store keys, stamped with the packet's source, and
the entry that it sets in the vector of a block and in the global vector.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import (
    FieldLetterUnknown,
    OffsetWrong,
    PacketMalformed,
    ReferenceWrong,
    ValueMalformed,
)
from culm_models.chotki.ids import OFFSET_MAX, ZERO_ID, Id, block_of, object_key
from culm_models.chotki.packets.packet import Packet
from culm_models.chotki.rdx import check_value, stamp
from culm_models.chotki.tlv import TINY, probe, record, records
from culm_models.chotki.zip import WIDTH_MAX

_STAMPED: Final = frozenset("FIRSTELM")
"""Types whose stamps get the packet's source; values of the other types carry their sources themselves."""
_OF_ELEMENTS: Final = frozenset("ELM")
"""Types whose elements each have a stamp."""


class LivePacket(NamedTuple):
    """The effects of a live packet.

    ``writes``: store keys and the operands to merge there. ``entry``: the entry for the vector of ``block``;
    ``counts`` is true if the global vector gets it, too. ``record``: the packet as received.
    """

    letter: str
    id: Id
    ref: Id
    writes: list[tuple[bytes, bytes]]
    entry: Id
    block: Id
    counts: bool
    record: bytes


def write_live(letter: str, id: Id, ref: Id, body: bytes) -> bytes:
    """Encode the packet of a change; ``body`` is what follows R."""
    return record(letter, record("I", id.zip()), record("R", ref.zip()), body)


def read_live(packet: Packet, whole: bytes, *, compat: Compat = Compat.DEFAULT) -> LivePacket:
    """Return the effects of a packet; ``whole`` are its bytes.

    Raises `PacketMalformed`, `ReferenceWrong`, then in the order of the bytes `OffsetWrong`,
    `FieldLetterUnknown`, `ValueMalformed` and `PairLength`. With `Compat.GO` a value is refused only if it
    cannot be stamped.
    """
    letter, id, ref = packet.letter, packet.id, packet.ref
    if letter == "E" and len(packet.inner) % 2:
        raise PacketMalformed("an edit whose last field number has no value")
    if (letter in "OE" and ref == ZERO_ID) or (letter == "Y" and ref != ZERO_ID):
        raise ReferenceWrong(f"a packet {letter} that refers to {ref}")
    if letter == "C":
        target = ref if ref != ZERO_ID else id
        if compat is Compat.DEFAULT:
            check_value("C", packet.body)
        writes = [(object_key(target, "C"), packet.body)]
        return LivePacket(letter, id, ref, writes, id, block_of(target), True, whole)
    if letter == "E":
        return _edit(packet, whole, compat)
    return _creation(packet, whole, compat)


def _edit(packet: Packet, whole: bytes, compat: Compat) -> LivePacket:
    id, ref = packet.id, packet.ref
    if id.off or ref.off:
        raise OffsetWrong(f"an edit {id} of {ref}: neither may have an offset")
    writes = []
    inner = iter(packet.inner)
    for (number_letter, number_bytes), (letter, value) in zip(inner, inner, strict=True):
        if number_letter not in ("F", TINY):
            raise PacketMalformed(f"a record {number_letter} instead of the field number of an edit")
        number = int.from_bytes(number_bytes[: WIDTH_MAX + 1], "little")
        if number > OFFSET_MAX or len(number_bytes) > WIDTH_MAX:
            raise OffsetWrong("a field number beyond 12 bits")
        writes.append(_write(Id(ref.src, ref.pro + number), letter, value, id.src, compat))
    return LivePacket(packet.letter, id, ref, writes, id, block_of(ref), True, whole)


def _creation(packet: Packet, whole: bytes, compat: Compat) -> LivePacket:
    id = packet.id
    writes = [(object_key(id, packet.letter), packet.ref.zip())]
    start = id.pro - id.off
    for number, (letter, value) in enumerate(packet.inner, 1):
        if number > OFFSET_MAX:
            raise OffsetWrong(f"an object of more than {OFFSET_MAX} fields")
        writes.append(_write(Id(id.src, start + number), letter, value, id.src, compat))
    entry, counts = Id(id.src, start + len(packet.inner)), True
    if not packet.inner:
        entry, counts = (ZERO_ID, False) if compat is Compat.GO else (id, True)
    return LivePacket(packet.letter, id, packet.ref, writes, entry, block_of(id), counts, whole)


def _write(at: Id, letter: str, value: bytes, src: int, compat: Compat) -> tuple[bytes, bytes]:
    """Return the key of a field and its operand."""
    check_field(letter, value, compat)
    if letter not in _STAMPED:
        return object_key(at, letter), value
    if compat is Compat.GO:
        _check_stamps(letter, value)
    return object_key(at, letter), stamp(letter, value, src)


def _check_stamps(letter: str, value: bytes) -> None:
    """Raise `ValueMalformed` unless there are stamps to put a source in: Go checks nothing else."""
    try:
        elements = [element for _, element in records(value)] if letter in _OF_ELEMENTS else [value]
    except PacketMalformed as error:
        raise ValueMalformed(str(error)) from None
    for element in elements:
        code, header_length, length = probe(element)
        if code not in (0x30, 0x54) or header_length + length > len(element):
            raise ValueMalformed(f"a value {letter} without a whole stamp")


def check_field(letter: str, value: bytes, compat: Compat) -> None:
    """Check that a field may have this type and value.

    Raises `FieldLetterUnknown` for a record that lost its letter. By default it also raises the errors of
    `check_value`; with `Compat.GO` nothing else is checked.
    """
    if letter == TINY:
        raise FieldLetterUnknown("a value without the letter of its type")
    if compat is Compat.DEFAULT:
        check_value(letter, value)
