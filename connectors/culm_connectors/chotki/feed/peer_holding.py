"""What one peer holds, as far as this edge knows, and so what may be sent to it (reference 9.2, rule 8)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from culm_connectors.chotki.feed.packet_tail import RelayedPacket


class Delivery(Enum):
    """What becomes of a packet for one peer."""

    SEND = auto()
    """It holds what the packet builds on, and not the packet."""
    HELD = auto()
    """It holds it already, or has brought it."""
    LATER = auto()
    """It lacks something before: a follow-up sync brings both."""


class PeerHolding:
    """By source what a peer holds: its handshake, what we announced, what we sent, what it brought."""

    def __init__(self) -> None:
        self.vector: dict[int, int] = {}

    def raise_to(self, entries: Mapping[int, int]) -> None:
        """It holds this too."""
        for src, pro in entries.items():
            self.vector[src] = max(pro, self.vector.get(src, 0))

    def lacks(self, vector: Mapping[int, int]) -> dict[int, int]:
        """The entries of a vector that are beyond what it holds."""
        return {src: pro for src, pro in vector.items() if pro > self.vector.get(src, -1)}

    def deliver(self, packet: RelayedPacket) -> Delivery:
        """What becomes of a packet that another session brought; one to be sent counts as held."""
        held = self.vector.get(packet.src, 0)
        if packet.is_late:
            return Delivery.SEND
        if packet.pro <= held:
            return Delivery.HELD
        if packet.after > held:
            return Delivery.LATER
        self.vector[packet.src] = packet.pro
        return Delivery.SEND
