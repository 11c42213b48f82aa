"""`chotki.packets`: a live packet (C, O, E or Y) as it came (reference 9.1)."""

from dataclasses import dataclass
from typing import Final

from culm_models.chotki.compat import Compat
from culm_topics.chotki.records.shape import (
    Bringer,
    bringer_size,
    compat_items,
    compat_size,
    read_compat,
)
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    dump,
    load_array,
    refuse_item,
    require,
    uint_size,
)

MAX_PACKET_BYTES: Final = 3 * 1024 * 1024
"""The largest live packet: its record fits into a batch of Kafka's."""
_NAME = "chotki.packets"


@dataclass(frozen=True, slots=True)
class PacketRecord:
    """Value of `chotki.packets`; its key is the source of the packet's id.

    `after` is the progress of that source that the connection had brought before: the packet counts once the
    deployment has reached it. `compat` says how the packet is read: a value in it may not parse by default.
    """

    bringer: Bringer
    after: int
    packet: bytes
    compat: Compat = Compat.DEFAULT

    def encode(self) -> bytes:
        """`[1, edge, peer, session, after, packet]`, and `"go"` behind it with `Compat.GO`."""
        require(len(self.packet) <= MAX_PACKET_BYTES, _NAME, f"a packet of {len(self.packet)} bytes")
        return dump(FORMAT, *self.bringer, self.after, self.packet, *compat_items(self.compat))

    @staticmethod
    def decode(value: bytes | None) -> "PacketRecord":
        """The record in `value`; `RecordError` says what is wrong with it. The packet is not looked at."""
        _, edge, peer, session, after, packet, *more = load_array(value, _NAME, 6, optional=1)
        size = (
            2
            + bringer_size(_NAME, edge, peer, session)
            + uint_size(_NAME, "after", after)
            + bytes_size(_NAME, "packet", packet)
            + compat_size(_NAME, more)
        )
        if len(packet) > MAX_PACKET_BYTES:
            refuse_item(_NAME, "packet", packet, f"at most {MAX_PACKET_BYTES} bytes")
        check_size(value, size, _NAME)
        return PacketRecord(Bringer(edge, peer, session), after, packet, read_compat(more))
