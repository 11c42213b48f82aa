"""How far a peer is: what it holds, by source, and what it lacks of what this edge holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from culm_connectors.chotki.feed.packet_tail import RelayedPacket
from culm_models.chotki.rdx import write_vector
from culm_topics.chotki.records import Behind, HoldingRecord

_AGAIN_MS: Final = 60_000
_MOST_SOURCES: Final = 1_000
_MOST_HELD: Final = 100_000
"""What a peer says that it holds is told of so many sources: a record of Kafka has them."""


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


class PeerLag:
    """What `chotki.vectors` is told of one peer: when it changes, and once a minute."""

    def __init__(self) -> None:
        self._since_ms: dict[int, int] = {}
        self._told: HoldingRecord | None = None

    def oldest_ms(self, now_ms: int) -> int:
        """For how long the source that is behind the longest has been so."""
        return now_ms - min(self._since_ms.values(), default=now_ms)

    def next(self, own: Mapping[int, int], held: Mapping[int, int], now_ms: int) -> HoldingRecord | None:
        """The record of now; None where the last one still says it."""
        behind = {src: pro for src, pro in own.items() if pro > held.get(src, -1)}
        self._since_ms = {src: self._since_ms.get(src, now_ms) for src in behind}
        lag = sorted(Behind(src, pro, self._since_ms[src]) for src, pro in behind.items())
        oldest = sorted(lag, key=lambda one: one.since_ms)[:_MOST_SOURCES]
        record = HoldingRecord(write_vector(_within(held)), 0, now_ms, tuple(oldest))
        told = self._told
        if told is not None and replace(told, time_ms=now_ms) == record and now_ms < told.time_ms + _AGAIN_MS:
            return None
        self._told = record
        return record


def _within(held: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(held.items())[:_MOST_HELD])
