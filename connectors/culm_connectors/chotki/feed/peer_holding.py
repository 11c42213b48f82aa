"""The progress of a peer: the entries that it holds, and its lag behind this edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from culm_connectors.chotki.feed.packet_tail import RelayedPacket
from culm_models.chotki.rdx import write_vector
from culm_topics.chotki.records import Behind, VectorRecord

_AGAIN_MS: Final = 60_000
_MOST_SOURCES: Final = 1_000
_MOST_HELD: Final = 100_000
"""Number of sources in the reported vector of a peer, which has to fit into a record of Kafka."""


class SendDecision(Enum):
    """Decision about a packet for one peer."""

    SEND = auto()
    """The peer holds the entries that the packet builds on, but not the packet."""
    HELD = auto()
    """The peer holds the packet already, or has sent it."""
    LATER = auto()
    """The peer is missing earlier entries; a follow-up sync sends them and the packet."""


class PeerHolding:
    """The entries that a peer holds, by source: announced by either end, sent to it or received from it."""

    def __init__(self) -> None:
        self.vector: dict[int, int] = {}

    def raise_to(self, entries: Mapping[int, int]) -> None:
        """Note that the peer holds these entries."""
        for src, pro in entries.items():
            self.vector[src] = max(pro, self.vector.get(src, 0))

    def missing(self, vector: Mapping[int, int]) -> dict[int, int]:
        """Return the entries of a vector that the peer is missing."""
        return {src: pro for src, pro in vector.items() if pro > self.vector.get(src, -1)}

    def deliver(self, packet: RelayedPacket) -> SendDecision:
        """Decide about a packet of another session. A packet to be sent counts as held from now on."""
        highest = self.vector.get(packet.src, 0)
        if packet.is_late:
            return SendDecision.SEND
        if packet.pro <= highest:
            return SendDecision.HELD
        if packet.after > highest:
            return SendDecision.LATER
        self.vector[packet.src] = packet.pro
        return SendDecision.SEND


class PeerLag:
    """The records of one peer for `chotki.vectors`: one after each change, and one a minute."""

    def __init__(self) -> None:
        self._since_ms: dict[int, int] = {}
        self._last_record: VectorRecord | None = None

    def oldest_ms(self, now_ms: int) -> int:
        """Return how long the source with the longest lag has been behind, in milliseconds."""
        return now_ms - min(self._since_ms.values(), default=now_ms)

    def next(
        self, own: Mapping[int, int], peer_vector: Mapping[int, int], now_ms: int
    ) -> VectorRecord | None:
        """Return the current record; None if the last one is less than a minute old and nothing changed."""
        behind = {src: pro for src, pro in own.items() if pro > peer_vector.get(src, -1)}
        self._since_ms = {src: self._since_ms.get(src, now_ms) for src in behind}
        lag = sorted(Behind(src, pro, self._since_ms[src]) for src, pro in behind.items())
        oldest = sorted(lag, key=lambda source: source.since_ms)[:_MOST_SOURCES]
        record = VectorRecord(write_vector(_within(peer_vector)), 0, now_ms, tuple(oldest))
        last_record = self._last_record
        if (
            last_record is not None
            and replace(last_record, time_ms=now_ms) == record
            and now_ms < last_record.time_ms + _AGAIN_MS
        ):
            return None
        self._last_record = record
        return record


def _within(vector: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(vector.items())[:_MOST_HELD])
