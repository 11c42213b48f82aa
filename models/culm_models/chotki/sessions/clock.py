"""Times of a session: when a ping is due, and when a peer is late, silent or deaf (reference 4.4).

Two questions have two timers. Is the peer present? A ping is sent if nothing was received for a while, and
any record answers it. Does the peer read? A peer that does not read may go on sending, so a ping is also sent
regularly regardless of what is received, and only a pong answers it.
"""

from __future__ import annotations

from culm_models.chotki.errors import PeerDeaf, PingTimeout
from culm_models.chotki.settings import ChotkiSettings


class SessionClock:
    """The times of one session, in milliseconds and supplied by the caller."""

    __slots__ = (
        "_asked_at_ms",
        "_bye_at_ms",
        "_deaf_asked_at_ms",
        "_diff_heard_at_ms",
        "_heard_at_ms",
        "_opened_at_ms",
        "_pong_at_ms",
        "_settings",
    )

    def __init__(self, settings: ChotkiSettings, now_ms: int) -> None:
        self._settings = settings
        self._opened_at_ms = now_ms
        self._heard_at_ms = now_ms
        self._pong_at_ms = now_ms
        self._diff_heard_at_ms = now_ms
        self._bye_at_ms = now_ms
        self._asked_at_ms: int | None = None
        """The time of the ping that any record answers."""
        self._deaf_asked_at_ms: int | None = None
        """The time of the ping that only a pong answers."""

    def start_live(self, now_ms: int) -> None:
        """Start the live phase: this side's V was sent, or no diff is due."""
        self._heard_at_ms = max(self._heard_at_ms, now_ms)
        self._pong_at_ms = now_ms

    def received(self, now_ms: int) -> None:
        """Record that bytes were received."""
        self._heard_at_ms = now_ms
        self._asked_at_ms = None

    def received_diff(self, now_ms: int) -> None:
        """Record that the peer is sending its diff: it reads, but Go answers no ping before its diff ends."""
        self._diff_heard_at_ms = now_ms
        self._deaf_asked_at_ms = None

    def received_pong(self, now_ms: int) -> None:
        """Record that a pong was received."""
        self._pong_at_ms = now_ms
        self._deaf_asked_at_ms = None

    def sent_ping(self, now_ms: int) -> None:
        """Record that a ping is sent. It asks both questions, as far as they are due."""
        if self._asked_at_ms is None:
            self._asked_at_ms = now_ms
        if self._deaf_asked_at_ms is None and now_ms >= self._deaf_check_at_ms():
            self._deaf_asked_at_ms = now_ms

    def sent_bye(self, now_ms: int) -> None:
        """Record that B is sent."""
        self._bye_at_ms = now_ms

    def is_ping_due(self, now_ms: int) -> bool:
        """Whether one of the two questions is due."""
        return now_ms >= self._next_ping_ms()

    def check_answers(self, now_ms: int) -> None:
        """Raise `PingTimeout` if nothing answered a ping, `PeerDeaf` if records but no pong did."""
        settings = self._settings
        if self._asked_at_ms is not None and now_ms >= self._asked_at_ms + settings.ping_wait_ms:
            raise PingTimeout(f"nothing came in {settings.ping_wait_ms} ms after a ping")
        if self._deaf_asked_at_ms is not None and now_ms >= self._deaf_asked_at_ms + settings.deaf_wait_ms:
            raise PeerDeaf(f"records but no pong came in {settings.deaf_wait_ms} ms after a ping")

    def is_handshake_late(self, now_ms: int) -> bool:
        """Whether the peer's handshake is late."""
        return now_ms >= self.handshake_late_at_ms()

    def is_bye_old(self, now_ms: int) -> bool:
        """Whether the wait for the peer's B is over."""
        return now_ms >= self.bye_old_at_ms()

    def handshake_late_at_ms(self) -> int:
        """Return the time from which the peer's handshake is late."""
        return self._opened_at_ms + self._settings.ping_wait_ms

    def bye_old_at_ms(self) -> int:
        """Return the time at which the transport is closed after this side's B."""
        return self._bye_at_ms + self._settings.close_wait_ms

    def next_ping_or_timeout_ms(self) -> int:
        """Return the time of the next ping or time-out of a live session."""
        due_ms = [self._next_ping_ms()]
        if self._asked_at_ms is not None:
            due_ms.append(self._asked_at_ms + self._settings.ping_wait_ms)
        if self._deaf_asked_at_ms is not None:
            due_ms.append(self._deaf_asked_at_ms + self._settings.deaf_wait_ms)
        return min(due_ms)

    def _next_ping_ms(self) -> int:
        due_ms = []
        if self._asked_at_ms is None:
            due_ms.append(self._heard_at_ms + self._settings.ping_period_ms)
        if self._deaf_asked_at_ms is None:
            due_ms.append(self._deaf_check_at_ms())
        return min(due_ms, default=1 << 62)

    def _deaf_check_at_ms(self) -> int:
        return max(self._pong_at_ms, self._diff_heard_at_ms) + self._settings.deaf_check_ms
