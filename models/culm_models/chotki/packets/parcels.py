"""The packets of a diff: D, fields of one block that a peer is missing, and V, the end (reference 2.2, 2.3).

Both are always written in the long form. The body of D is read in pairs by position, since F is also the
letter of a float.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError, PacketMalformed
from culm_models.chotki.ids import PRO_MASK, ZERO_ID, Id, block_of
from culm_models.chotki.packets.live import check_field
from culm_models.chotki.packets.packet import Packet, read_head
from culm_models.chotki.rdx import check_value
from culm_models.chotki.tlv import TINY, long_record, probe, record, records
from culm_models.chotki.zip import WIDTH_MAX

_F: Final = ord("F")
_TINY: Final = ord(TINY)
_SHORT_F: Final = ord("f")
_SLICE_FIELDS: Final = 512
_LETTER_BYTES: Final = {chr(code): bytes([code]) for code in range(256)}


class UnreadableField(NamedTuple):
    """A field of a diff that was set aside, with the error."""

    id: Id
    letter: str
    value: bytes
    error: ChotkiError


class Parcel(NamedTuple):
    """A decoded D: ``fields`` are store keys and operands."""

    t: Id
    block: Id
    fields: list[tuple[bytes, bytes]]
    unreadable: list[UnreadableField]


def parcel_head(t: Id, block: Id) -> bytes:
    """Return T and R, which the body of a D begins with."""
    return record("T", t.zip()) + record("R", block.zip())


def write_parcel(t: Id, block: Id, fields: list[tuple[bytes, bytes]]) -> bytes:
    """Encode a D of these store keys and operands, in this order."""
    parts = [parcel_head(t, block)]
    for key, value in fields:
        offset = int.from_bytes(key[9:17], "big") - block.pro & PRO_MASK
        parts.append(record("F", offset.to_bytes((offset.bit_length() + 7) >> 3, "little")))
        parts.append(record(chr(key[17]), value))
    return long_record("D", *parts)


class ParcelReader:
    """Reads a D of up to 100 MB piece by piece: first `check`, then `slices`.

    Both iterators must be exhausted; between two steps the caller may let other work run. Besides the packet
    itself they hold one slice of up to 512 fields.
    """

    __slots__ = ("_compat", "_cuts", "_fault", "_packet", "_set_aside", "block", "t", "unreadable")

    def __init__(self, packet: bytes, *, compat: Compat = Compat.DEFAULT, set_aside: bool = False) -> None:
        self.t = self.block = ZERO_ID
        self.unreadable: list[UnreadableField] = []
        """The values that do not parse, as far as `slices` has read; empty unless ``set_aside``."""
        self._packet = packet
        self._compat = compat
        self._set_aside = set_aside
        self._cuts: list[int] = []
        self._fault: PacketMalformed | None = None

    def check(self) -> Iterator[None]:
        """Check the form of the whole packet and set `t` and `block`.

        Raises `LetterUnknown`, `PacketMalformed` and `PairLength` as `packet.parse` does.
        """
        packet = self._packet
        head = read_head(packet)
        at, size, cuts = head.start, len(packet), [head.start]
        pair = 0
        while at < size:
            # The usual forms without a call; `_end_of` handles all others.
            if packet[at] == _SHORT_F and at + 2 < size and (length := packet[at + 1]) <= WIDTH_MAX:
                at += 2 + length
            else:
                at = self._end_of_offset(at)
            if at >= size:
                if at > size:
                    raise _no_record(at, size)
                self._fault = PacketMalformed("a diff whose last offset has no value")
                break
            if 0x61 <= packet[at] <= 0x7A and at + 1 < size:
                at += 2 + packet[at + 1]
            else:
                at = self._end_of(at)[2]
            pair += 1
            if pair == _SLICE_FIELDS:
                cuts.append(at)
                pair = 0
                yield
        if at > size:
            raise _no_record(at, size)
        if cuts[-1] != size:
            cuts.append(size)
        self._cuts = cuts
        self.t, self.block = head.ids(self._compat)

    def _end_of(self, at: int) -> tuple[int, int, int]:
        """Return the letter's code, the length of the body and the end of the record at ``at``."""
        code, header_length, length = probe(self._packet, at)
        end = at + header_length + length
        if not header_length or end > len(self._packet):
            raise _no_record(at, len(self._packet))
        return code, length, end

    def _end_of_offset(self, at: int) -> int:
        code, length, end = self._end_of(at)
        if (code not in (_F, _TINY) or length > WIDTH_MAX) and self._fault is None:
            # The form of the whole packet is checked before its content.
            self._fault = PacketMalformed(
                f"a record {chr(code)} of {length} bytes instead of the offset of a diff"
            )
        return end

    def slices(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields in their order, as store keys and operands.

        Raises `PacketMalformed`, then in the order of the bytes `FieldLetterUnknown`, `ValueMalformed` and
        `PairLength`. With ``set_aside`` a value that does not parse is added to `unreadable` instead.
        """
        if self._fault is not None:
            raise self._fault
        for start, end in itertools.pairwise(self._cuts):
            yield self._fields(records(self._packet[start:end]))

    def _fields(self, inner: list[tuple[str, bytes]]) -> list[tuple[bytes, bytes]]:
        block, compat = self.block, self._compat
        base, prefix = block.pro, b"O" + block.src.to_bytes(8, "big")
        fields: list[tuple[bytes, bytes]] = []
        for (_, offset), (letter, value) in zip(inner[::2], inner[1::2], strict=True):
            pro = base + int.from_bytes(offset, "little") & PRO_MASK
            try:
                check_field(letter, value, compat)
            except ChotkiError as error:
                if not self._set_aside or letter == TINY:
                    raise
                self.unreadable.append(UnreadableField(Id(block.src, pro), letter, value, error))
                continue
            fields.append((prefix + pro.to_bytes(8, "big") + _LETTER_BYTES[letter], value))
        return fields

    def readable(self) -> bytes:
        """Return the packet without the fields that were set aside."""
        if not self.unreadable:
            return self._packet
        aside = {(field.id.pro, field.letter, field.value) for field in self.unreadable}
        parts = [parcel_head(self.t, self.block)]
        for start, end in itertools.pairwise(self._cuts):
            inner = records(self._packet[start:end])
            for (_, offset), (letter, value) in zip(inner[::2], inner[1::2], strict=True):
                pro = self.block.pro + int.from_bytes(offset, "little") & PRO_MASK
                if (pro, letter, value) not in aside:
                    parts.append(record("F", offset) + record(letter, value))
        return long_record("D", *parts)


def _no_record(at: int, size: int) -> PacketMalformed:
    return PacketMalformed(f"no whole record at byte {at} of {size}")


def read_parcel(packet: bytes, *, compat: Compat = Compat.DEFAULT, set_aside: bool = False) -> Parcel:
    """Decode a whole D. Raises the errors of `ParcelReader`."""
    reader = ParcelReader(packet, compat=compat, set_aside=set_aside)
    for _ in reader.check():
        pass
    fields = [field for parcel_slice in reader.slices() for field in parcel_slice]
    return Parcel(reader.t, reader.block, fields, reader.unreadable)


def block_vector(block: Id, vector: bytes) -> bytes:
    """Encode the record inside V for one D: the block and its whole vector."""
    return record("V", record("R", block.zip()), vector)


def write_end(t: Id, block_vectors: list[bytes]) -> bytes:
    """Encode a V of these `block_vector` records."""
    return long_record("V", record("T", t.zip()), *block_vectors)


def read_end(packet: Packet, *, compat: Compat = Compat.DEFAULT) -> list[tuple[Id, bytes]]:
    """Return the blocks that V names, with their vectors.

    Raises `PacketMalformed`, then `PairLength` and `ValueMalformed`.
    """
    pairs = []
    for letter, body in packet.inner:
        first, *entries = records(body) or [("", b"")]
        if letter not in ("V", TINY) or first[0] not in ("R", TINY):
            raise PacketMalformed("a record in V that is not a block with its vector")
        if any(entry_letter not in ("V", TINY) for entry_letter, _ in entries):
            raise PacketMalformed("a vector whose records are not its entries")
        pairs.append((first[1], b"".join(record("V", entry) for _, entry in entries)))
    blocks = []
    for block_bytes, vector in pairs:
        block = block_of(Id.unzip(block_bytes, compat=compat))
        if compat is Compat.DEFAULT:
            check_value("V", vector)
        blocks.append((block, vector))
    return blocks
