"""Liveness check: detects within seconds that the remote of an established connection is gone.

QUIC's own idle timeout is long (RFC 9000 section 10.1). Two events start a check sooner: the network reports
that nothing listens at the remote's address, or the remote is silent while an answer is due. Neither is
proof: the first can be forged, the second may be mere loss. Both start a probe, several PINGs spread over a
short time. Any datagram from the remote ends the probe; the connection ends only if nothing answers it.
(Noise addressed to the connection counts as an answer, so a forger can delay the end, to the idle timeout at
most.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from culm_connectors.transport.quic.library import CreditedQuicConnection
from culm_connectors.transport.quic.pump import DatagramPump
from culm_connectors.transport.settings import TransportSettings

_PROBE_PINGS = 8
_PROBE_ROUND_TRIPS = 4


class Liveness:
    """Keeps a silent connection alive with PINGs, and calls `on_lost` once if nothing answers."""

    def __init__(
        self,
        quic: CreditedQuicConnection,
        pump: DatagramPump,
        settings: TransportSettings,
        on_lost: Callable[[], None],
    ) -> None:
        self._quic = quic
        self._pump = pump
        self._ping_interval_s = settings.ping_interval_s
        self._probe_timeout_s = settings.probe_timeout_s
        self._patience_s = settings.silence_timeout_s - settings.probe_timeout_s
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._pinged_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._probe: asyncio.TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to watch; the connection is established."""
        self._watch()

    def stop(self) -> None:
        """Watch no more. Harmless when repeated."""
        self._stopped = True
        for handle in (self._timer, self._probe):
            if handle is not None:
                handle.cancel()

    def probe(self) -> None:
        """Find out whether the remote is there. A probe that runs already goes on as it is."""
        if self._probe is None and not self._stopped:
            duration_s = max(self._probe_timeout_s, _PROBE_ROUND_TRIPS * self._quic.round_trip_s)
            self._probe_on(_PROBE_PINGS, duration_s / _PROBE_PINGS, self._pump.received_bytes)

    def _probe_on(self, pings_left: int, interval_s: float, received_before: int) -> None:
        # Counted in steps, not by the clock: a process that was itself held up must read before it judges.
        self._probe = None
        if self._pump.received_bytes != received_before:
            return
        if not pings_left:
            self._on_lost()
            return
        self._ping()
        self._probe = self._loop.call_later(
            interval_s, self._probe_on, pings_left - 1, interval_s, received_before
        )

    def _watch(self) -> None:
        now = self._loop.time()
        if now >= self._ping_due():
            self._ping()
        unanswered_since = self._pump.unanswered_since
        if unanswered_since is not None and now - unanswered_since >= self._patience_s:
            self.probe()
        due = self._ping_due()
        if self._probe is None:
            due = min(due, (now if unanswered_since is None else unanswered_since) + self._patience_s)
        self._timer = self._loop.call_at(due, self._watch)

    def _ping_due(self) -> float:
        return max(self._pump.heard_at, self._pinged_at) + self._ping_interval_s

    def _ping(self) -> None:
        self._pinged_at = self._loop.time()
        self._quic.send_ping(0)
        self._pump.transmit_soon()
