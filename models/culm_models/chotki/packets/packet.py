"""The form of every packet, and P and B, which have no more than that (reference 2, 2.5).

A packet is a record that begins with an id: T in H, D and V, I in all others, or a tiny record in place of
either. R follows if there is a reference. `parse` splits any packet up to that point. The form of a whole
packet is checked before its content, so that no packet is processed halfway.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import LetterUnknown, PacketMalformed
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.tlv import TINY, TINY_MAX, probe, record, records

LETTERS: Final = frozenset("HDVBPCOEY")
LIVE_LETTERS: Final = frozenset("COEY")
_FREE_TEXT: Final = frozenset("BP")
"""Packets whose content does not consist of records only."""
_BEGIN_WITH_T: Final = frozenset("HDV")

REASON_MAX_BYTES: Final = 256
PING: Final = b"ping"
PONG: Final = b"pong"

_TEXTS: Final = tuple(chr(code) for code in range(256))


class Packet(NamedTuple):
    """A parsed packet. ``inner``: the records behind id and reference; empty for B and P."""

    letter: str
    id: Id
    ref: Id
    body: bytes
    inner: list[tuple[str, bytes]]


def outer_letter(packet: bytes) -> str:
    """Return the letter of a whole record, or "0" for a tiny one."""
    return _TEXTS[probe(packet)[0]]


class PacketHead(NamedTuple):
    """The beginning of a packet: letter, id and reference. The content begins at byte ``start``."""

    letter: str
    id_bytes: bytes
    ref_bytes: bytes
    start: int

    def ids(self, compat: Compat) -> tuple[Id, Id]:
        """Return id and reference. Raises `PairLength`."""
        ref = Id.unzip(self.ref_bytes, compat=compat) if self.ref_bytes else ZERO_ID
        return Id.unzip(self.id_bytes, compat=compat), ref


def read_head(packet: bytes) -> PacketHead:
    """Parse the beginning of a whole record. Raises `LetterUnknown`, then `PacketMalformed`."""
    code, header_length, length = probe(packet)
    letter = _TEXTS[code]
    if header_length == 0 or header_length + length != len(packet):
        raise PacketMalformed("the bytes are not one whole record")
    if letter not in LETTERS:
        raise LetterUnknown(f"no packet has the letter {letter!r}")
    first, id_bytes, at = _record_at(packet, header_length)
    wanted = "T" if letter in _BEGIN_WITH_T else "I"
    if first not in (wanted, TINY):
        raise PacketMalformed(f"a packet {letter} that does not begin with {wanted}")
    ref_bytes = b""
    if at < len(packet) and probe(packet, at)[0] == 0x52:
        _, ref_bytes, at = _record_at(packet, at)
    return PacketHead(letter, id_bytes, ref_bytes, at)


def parse(packet: bytes, *, compat: Compat = Compat.DEFAULT) -> Packet:
    """Parse a whole record as a packet. For a D, which may be large, use `parcels`.

    Raises `LetterUnknown`, then `PacketMalformed`, then `PairLength` for its id or reference.
    """
    head = read_head(packet)
    body = packet[head.start :]
    inner = [] if head.letter in _FREE_TEXT else records(body)
    return Packet(head.letter, *head.ids(compat), body, inner)


def _record_at(data: bytes, at: int) -> tuple[str, bytes, int]:
    """Return the letter and body of the record at ``at``, and the position behind it."""
    code, header_length, length = probe(data, at)
    end = at + header_length + length
    if header_length == 0 or end > len(data):
        raise PacketMalformed(f"no whole record at byte {at} of {len(data)}")
    return _TEXTS[code], data[at + header_length : end], end


def write_ping(word: bytes) -> bytes:
    """Encode a P with `PING` or `PONG`."""
    return record("P", record("t"), word)


def read_ping(packet: bytes) -> bytes:
    """Return the word of a P, behind its stamp of any form. Raises `PacketMalformed` without a stamp."""
    header_length = probe(packet)[1]
    first, _, at = _record_at(packet, header_length)
    if first not in ("T", "I", TINY):
        raise PacketMalformed("a P that does not begin with a stamp")
    return packet[at:]


def write_bye(t: Id, reason: str) -> bytes:
    """Encode a B, which ends the session. T is left empty unless it fits the tiny record that Go needs."""
    t_bytes = t.zip()
    if len(t_bytes) > TINY_MAX:
        t_bytes = b""
    return record("B", record("t", t_bytes), reason.encode())


def read_bye(packet: bytes) -> str:
    """Return the first 256 bytes of the reason of a B as text: the body behind T, or all of it without T."""
    header_length = probe(packet)[1]
    reason = packet[header_length:]
    code, inner_header, inner_length = probe(reason)
    if code in (0x30, 0x54) and inner_header and inner_header + inner_length <= len(reason):
        reason = reason[inner_header + inner_length :]
    return reason[:REASON_MAX_BYTES].decode("utf-8", "replace")
