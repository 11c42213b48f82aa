"""Pings of a session: sends them when they are due, and answers the peer's (reference 4.4).

`clock` decides when a ping is due; this module sends it and records what was received in return.
"""

from __future__ import annotations

from collections.abc import Callable

from culm_models.chotki import events
from culm_models.chotki.events import SyncState
from culm_models.chotki.packets.packet import PING, PONG, write_ping
from culm_models.chotki.sessions.clock import SessionClock
from culm_models.chotki.sessions.outgoing import OutgoingRecords


class Pings:
    """The pings and pongs of one session.

    `enter` gets the states that a session passes through while it sends a ping or a pong.
    """

    __slots__ = ("_clock", "_enter", "_is_pong_due", "_outgoing", "_report")

    def __init__(
        self,
        clock: SessionClock,
        outgoing: OutgoingRecords,
        *,
        report: Callable[[events.SessionEvent], None],
        enter: Callable[[SyncState], None],
    ) -> None:
        self._clock = clock
        self._outgoing = outgoing
        self._report = report
        self._enter = enter
        self._is_pong_due = True

    def begin_read(self) -> None:
        """Start a read of the transport: its first ping is answered."""
        self._is_pong_due = True

    def receive(self, word: bytes, state: SyncState, now_ms: int) -> None:
        """Take the word of a P; ``state`` is the session's, and it returns to it after a pong."""
        if word == PING:
            self._report(events.PingReceived())
            self._answer(state)
        elif word == PONG:
            self._report(events.PongReceived())
            self._clock.received_pong(now_ms)

    def check(self, now_ms: int) -> None:
        """Send a ping in a live session if one is due.

        Raises `PingTimeout` or `PeerDeaf`: an answer to an earlier ping is late.
        """
        clock = self._clock
        clock.check_answers(now_ms)
        if clock.is_ping_due(now_ms):
            self._enter(SyncState.PING)
            self._outgoing.append(write_ping(PING))
            clock.sent_ping(now_ms)
            self._enter(SyncState.LIVE)

    def _answer(self, state: SyncState) -> None:
        """Answer one ping per read, also in the middle of a diff: the peer waits for nothing else."""
        if state is SyncState.NONE or not self._is_pong_due:
            return
        self._is_pong_due = False
        self._enter(SyncState.PONG)
        self._outgoing.append_urgent(write_ping(PONG))
        self._enter(state)
