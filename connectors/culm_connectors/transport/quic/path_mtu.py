"""Path MTU discovery: the datagram size is searched upwards by probes (RFC 8899, RFC 9000 section 14.3).

Every connection begins with 1,200 bytes, which every path must carry. A probe is a packet that contains only
a PING and padding. If it is acknowledged, datagrams may be as large; if it is lost, no other data is lost
with it. A path may also shrink: after enough losses of large packets alone the search starts again.
"""

from __future__ import annotations

from collections.abc import Iterable

from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.packet_builder import QuicSentPacket

from culm_connectors.transport.settings import ETHERNET_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES

_MAX_PROBES = 3
"""A size is given up after so many probes were lost (MAX_PROBES of RFC 8899)."""
_GRANULARITY_BYTES = 16
_RAISE_S = 600.0
"""Seconds after which a search that ended below the limit starts again (PMTU_RAISE_TIMER of RFC 8899)."""
_BLACK_HOLE_LOSSES = 6


class PathMtu:
    """The search on one path (section 5 of RFC 8899). Times in seconds; at most one probe is on its way."""

    def __init__(self, limit: int) -> None:
        assert limit >= MIN_DATAGRAM_BYTES, "every path carries so much"
        self.limit = limit
        """The largest datagram size, whatever the path carries."""
        self.size = MIN_DATAGRAM_BYTES
        """The largest datagram that is known to pass."""
        self._too_large = limit + 1
        self._candidate = limit
        self._losses = 0
        self._probe: int | None = None
        self._found_s: float | None = None
        self._largest_acknowledged = -1
        self._black_hole_losses = 0

    def lower_limit(self, limit: int) -> None:
        """The remote takes no datagrams above `limit` bytes (`max_udp_payload_size`, at least 1,200)."""
        if limit < self.limit:
            self.limit = limit
            self.restart()

    def restart(self) -> None:
        """Start again at the smallest size, on a new path."""
        self.size = MIN_DATAGRAM_BYTES
        self._probe = None
        self._black_hole_losses = 0
        self._begin_search()

    def next_probe(self, now_s: float) -> int | None:
        """The size of the probe to send now; `None` while one is on its way, or nothing is left to find."""
        if self._probe is not None or self.size >= self.limit:
            return None
        if self._too_large - self.size <= _GRANULARITY_BYTES:
            if self._found_s is None:
                self._found_s = now_s
            if now_s - self._found_s < _RAISE_S:
                return None
            self._begin_search()
        return self._candidate

    def probe_sent(self, number: int) -> None:
        """Record the packet number of the probe."""
        self._probe = number

    def is_probe(self, number: int) -> bool:
        """True for the packet number of the probe that is on its way."""
        return number == self._probe

    def acknowledged(self, number: int, size: int) -> None:
        """Record that a packet of `size` bytes was acknowledged."""
        if number == self._probe:
            self._probe = None
            self.size = self._candidate
            self._next_candidate()
        if size > MIN_DATAGRAM_BYTES and number > self._largest_acknowledged:
            self._largest_acknowledged = number
            self._black_hole_losses = 0

    def lost(self, number: int, size: int) -> None:
        """Record that a packet of `size` bytes was lost, or that its answer is overdue."""
        if number == self._probe:
            self._probe = None
            self._losses += 1
            if self._losses >= _MAX_PROBES:
                self._too_large = self._candidate
                self._next_candidate()
        elif MIN_DATAGRAM_BYTES < size <= self.size and number > self._largest_acknowledged:
            self._black_hole_losses += 1
            if self._black_hole_losses >= _BLACK_HOLE_LOSSES:
                # Loss by congestion looks alike: a wrong guess costs a search, no more.
                self.restart()
                self._too_large = size
                self._next_candidate()

    def _begin_search(self) -> None:
        self._too_large = self.limit + 1
        self._candidate = self.limit
        self._losses = 0
        self._found_s = None

    def _next_candidate(self) -> None:
        self._losses = 0
        if self.size < ETHERNET_DATAGRAM_BYTES < self._too_large:
            self._candidate = ETHERNET_DATAGRAM_BYTES
        else:
            self._candidate = (self.size + self._too_large) // 2


class ProbingReno(RenoCongestionControl):
    """Reno that reports the fate of packets to the path's search; a lost probe does not mean congestion."""

    def __init__(self, path_mtu: PathMtu) -> None:
        super().__init__(max_datagram_size=path_mtu.size)
        self._path_mtu = path_mtu

    def resize(self, datagram_bytes: int) -> None:
        """Set a new datagram size."""
        self._max_datagram_size = datagram_bytes

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """Called by the library for every acknowledged packet that counted as in flight."""
        super().on_packet_acked(now=now, packet=packet)
        self._path_mtu.acknowledged(packet.packet_number, packet.sent_bytes)

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Called by the library for packets that were lost, in the order in which they were sent."""
        congested = []
        for packet in packets:
            if self._path_mtu.is_probe(packet.packet_number):
                self.bytes_in_flight -= packet.sent_bytes
            else:
                congested.append(packet)
            self._path_mtu.lost(packet.packet_number, packet.sent_bytes)
        if congested:
            super().on_packets_lost(now=now, packets=congested)

    def on_packets_expired(self, *, packets: Iterable[QuicSentPacket]) -> None:
        """Called by the library for packets whose answer is overdue, and those of keys that are given up."""
        expired = list(packets)
        super().on_packets_expired(packets=expired)
        for packet in expired:
            self._path_mtu.lost(packet.packet_number, packet.sent_bytes)
