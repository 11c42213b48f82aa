"""H, the handshake: who the sender is, what it wants and what it holds (reference 2.1, 4.3).

A handshake opens a connection. Later handshakes announce syncs: of replicas behind the peer, or of the next
part of its own diff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import HandshakeMalformed, ModeUnknown, ValueMalformed
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.packet import Packet
from culm_models.chotki.rdx import check_value
from culm_models.chotki.tlv import TINY, record
from culm_models.chotki.zip import WIDTH_MAX, pack_uint

READ: Final = 1
WRITE: Final = 2
LIVE: Final = 4
MODE_MAX: Final = READ | WRITE | LIVE
MODES: Final = {
    "r": READ,
    "w": WRITE,
    "rw": READ | WRITE,
    "l": LIVE,
    "rl": READ | LIVE,
    "wl": WRITE | LIVE,
    "rwl": MODE_MAX,
}
"""Modes by the names that users write."""

TRACE_SIZE: Final = 10
READS_FILTERED_DIFFS: Final = 1
"""The feature bit of a peer that accepts diffs without the fields that its vector covers."""
_EXTENSION: Final = b"culm"


@dataclass(frozen=True, slots=True)
class Handshake:
    """A decoded H.

    `t` is the sender's own entry in its `vector` (TLV) and marks its diff. `features` are the bits of its X.
    """

    t: Id
    mode: int
    vector: bytes
    trace: bytes
    features: int


class Agreed(NamedTuple):
    """The result of two modes: who sends diffs and live packets, and whether the session stays live."""

    sends: bool
    receives: bool
    live: bool


def agree(own: int, peer: int, compat: Compat) -> Agreed:
    """Combine both modes (reference 4.3). With `Compat.GO` diffs always go both ways."""
    live = bool(own & peer & LIVE)
    if compat is Compat.GO:
        return Agreed(True, True, live)
    return Agreed(bool(own & WRITE and peer & READ), bool(own & READ and peer & WRITE), live)


def write_handshake(t: Id, mode: int, vector: bytes, trace: bytes, *, features: int | None = None) -> bytes:
    """Encode H.

    ``features`` belongs in the first H of a connection only, and never in one to a peer that imitates Go.
    """
    extension = () if features is None else (record("X", _EXTENSION, bytes([features])),)
    return record(
        "H",
        record("t", t.zip()),
        record("m", pack_uint(mode)),
        record("V", vector),
        record("S", trace),
        *extension,
    )


def read_handshake(packet: Packet, *, compat: Compat = Compat.DEFAULT) -> Handshake:
    """Decode H. Records behind the trace id are ignored, except for Culm's own extension.

    Raises `HandshakeMalformed`, `PairLength` (of an entry of the vector), then `ModeUnknown`.
    """
    if packet.letter != "H":
        raise HandshakeMalformed(f"the first packet is {packet.letter}, not a handshake")
    bodies = []
    for index, wanted in enumerate("MVS"):
        if index >= len(packet.inner) or packet.inner[index][0] not in (wanted, TINY):
            raise HandshakeMalformed(f"a handshake without {wanted}")
        bodies.append(packet.inner[index][1])
    mode_bytes, vector, trace = bodies
    if len(trace) != TRACE_SIZE:
        raise HandshakeMalformed(f"a trace id of {len(trace)} bytes, not {TRACE_SIZE}")
    if compat is Compat.DEFAULT:
        try:
            check_value("V", vector)
        except ValueMalformed as error:
            raise HandshakeMalformed(f"the vector of a handshake: {error}") from None
    mode = int.from_bytes(mode_bytes[: WIDTH_MAX + 1], "little")
    if mode > MODE_MAX or len(mode_bytes) > WIDTH_MAX:
        raise ModeUnknown(f"the mode {mode_bytes[: WIDTH_MAX + 1].hex()} has more than three bits")
    features = 0
    for letter, body in packet.inner[3:]:
        if letter == "X" and body.startswith(_EXTENSION) and len(body) > len(_EXTENSION):
            features = body[len(_EXTENSION)]
    return Handshake(packet.id, mode, vector, trace, features)


def trace_pair(own: bytes, peer: bytes) -> str:
    """Return both ends' trace ids in hex as logs write them: the larger first, with a dash."""
    larger, smaller = sorted((own.hex(), peer.hex()), reverse=True)
    return f"{larger}-{smaller}"
