"""What a hostile replica sends an edge of Chotki: bytes for ever, for tests and for longer runs under load.

Each generator is one attack, to be said behind a handshake. It draws nothing by chance that is not seeded.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping

from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import PING, write_bye, write_ping
from culm_models.chotki.packets.parcels import write_parcel
from culm_models.chotki.rdx import parse_text, write_vector
from culm_models.chotki.tlv import record

SRC = 0xBAD
_TRACE = b"0123456789"
_AT_ONCE = 64 * 1024
_MANY_FIELDS = 2_000


def handshake(src: int = SRC, *, own: int = 0, t: Id | None = None) -> bytes:
    """H of a replica that holds its own ids up to `own`, or that forwards the sync `t`."""
    vector = write_vector({0: Id.make(0, 3).pro, src: own})
    return write_handshake(t or Id(src, own), 7, vector, _TRACE)


def small_packets() -> Iterator[bytes]:
    """Edits of a few bytes, each of another object."""
    body = record("f", b"\x01") + record("I", parse_text("I", "1"))
    for seq in itertools.count(1):
        yield write_live("E", Id.make(SRC, seq), Id.make(SRC + 1, seq), body)


def repeated_packet() -> Iterator[bytes]:
    """One packet again and again."""
    return itertools.repeat(next(small_packets()))


def parcels_without_end() -> Iterator[bytes]:
    """D's of the own sync, as large as they get, and never a V."""
    t = Id(SRC, 0)
    for number in itertools.count():
        block = Id.make(SRC, number << 16)
        value = record("t", b"") + b"x" * 20
        ids = (Id(SRC, block.pro + offset) for offset in range(_MANY_FIELDS))
        yield write_parcel(t, block, [(object_key(id, "S"), value) for id in ids])


def open_syncs() -> Iterator[bytes]:
    """Forwarded syncs, each of another replica, none of which ever ends."""
    for number in itertools.count(1):
        yield handshake(t=Id.make(SRC + number, 1))


def handshakes() -> Iterator[bytes]:
    """The own sync begun anew for ever."""
    return itertools.repeat(handshake())


def pings() -> Iterator[bytes]:
    """Pings as fast as they are taken."""
    return itertools.repeat(write_ping(PING))


def byes() -> Iterator[bytes]:
    """B: the session is over, and the next one begins."""
    return itertools.repeat(write_bye(Id(SRC, 0), "again"))


def mutated(seed: int = 0) -> Iterator[bytes]:
    """Packets that a few bits make into something else."""
    chance = random.Random(seed)
    sound = [
        handshake(),
        next(small_packets()),
        next(parcels_without_end())[:200],
        write_ping(PING),
        record("V", record("T", b"0")),
        record("C", b"xx"),
    ]
    while True:
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(data)


def deeply_nested() -> Iterator[bytes]:
    """An edit whose value is a record in a record in a record."""
    value = b""
    for _ in range(20_000):
        value = record("E", value)
    return itertools.repeat(write_live("E", Id.make(SRC, 1), Id.make(SRC, 1), record("f", b"\1") + value))


CHOTKI_ATTACKS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "chotki-small-packets": small_packets,
    "chotki-repeats": repeated_packet,
    "chotki-no-v": parcels_without_end,
    "chotki-open-syncs": open_syncs,
    "chotki-handshakes": handshakes,
    "chotki-pings": pings,
    "chotki-byes": byes,
    "chotki-mutated": mutated,
    "chotki-nested": deeply_nested,
}


def in_pieces(packets: Iterator[bytes], size: int = _AT_ONCE) -> Iterator[bytes]:
    """Packets run together, as a remote writes that wants to be taken in fast."""
    piece = bytearray()
    for packet in packets:
        piece += packet
        if len(piece) >= size:
            yield bytes(piece)
            piece.clear()
