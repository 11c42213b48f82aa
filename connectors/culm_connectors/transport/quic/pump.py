"""Drives one QUIC connection of the library: datagrams in and out, and its one timer.

Nothing that a remote sends raises out of here: what the library cannot cope with ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Address
from culm_connectors.transport.quic.library import CreditedQuicConnection

_LOGGER = logging.getLogger(__name__)

_REPEATS = 2


class DatagramPump:
    """Moves datagrams and time between a `CreditedQuicConnection` and the event loop.

    `on_events` is called whenever the library may have events, `on_timer` after its timer has fired, and
    `on_terminated` once, when nothing will be sent or received any more.
    """

    def __init__(
        self,
        quic: CreditedQuicConnection,
        send_datagram: Callable[[bytes, Address], None],
        *,
        on_events: Callable[[], None],
        on_timer: Callable[[], None],
        on_terminated: Callable[[], None],
    ) -> None:
        self._quic = quic
        self._send_datagram = send_datagram
        self._on_events = on_events
        self._on_timer = on_timer
        self._on_terminated = on_terminated
        self._loop = asyncio.get_running_loop()
        self._transmission: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._repeat: asyncio.TimerHandle | None = None
        self._last_words: list[tuple[bytes, Address]] = []
        self.terminated = asyncio.Event()
        self.received_bytes = 0
        self.sent_bytes = 0
        self.heard_at = self._loop.time()
        """Time of the last received datagram, on the loop's clock."""
        self.unanswered_since: float | None = None
        """Time since which an answer is due and nothing has been received; `None` while no answer is due."""

    def dial(self, address: Address) -> None:
        """Begin the handshake with a server."""
        self._quic.connect(address, now=self._loop.time())
        self.transmit()

    def receive(self, data: bytes, address: Address) -> None:
        """Hand one datagram to the library."""
        if self.terminated.is_set():
            return
        self.received_bytes += len(data)
        self.heard_at = self._loop.time()
        self.unanswered_since = None
        if self._quic.is_ending:
            self._quic.count_late_datagram(len(data))
            return
        try:
            self._quic.receive_datagram(data, address, self.heard_at)
        except Exception:  # any exception that a remote causes in the library must end only its connection
            _LOGGER.warning("the QUIC library failed on a datagram", exc_info=True)
            self._quic.close(error_code=int(CloseCode.INTERNAL))

    def transmit_soon(self) -> None:
        """Transmit once, after everything that runs now has written what it has to write."""
        if self._transmission is None and not self.terminated.is_set():
            self._transmission = self._loop.call_soon(self.transmit)

    def transmit(self) -> None:
        """Send what the library has to send, and set its timer."""
        if self._transmission is not None:
            self._transmission.cancel()
            self._transmission = None
        if self.terminated.is_set():
            return
        if not self._quic.can_send:
            if self._quic.is_ending:
                self.terminate()
            return
        closing = self._quic.is_ending
        try:
            datagrams = self._quic.datagrams_to_send(self._loop.time())
        except Exception:  # as in `receive`: received data may cause the exception only here
            _LOGGER.warning("the QUIC library failed to build a datagram", exc_info=True)
            self.terminate()
            return
        if closing and datagrams:
            self._last_words = datagrams
            self._repeat_last_words(_REPEATS)
        for data, address in datagrams:
            self.sent_bytes += len(data)
            self._send_datagram(data, address)
        if self.unanswered_since is None and self._quic.awaits_answer:
            self.unanswered_since = self._loop.time()
        self._on_events()
        self._arm()

    def terminate(self) -> None:
        """Stop at once, silently. Harmless when repeated."""
        if self.terminated.is_set():
            return
        self.terminated.set()
        for handle in (self._timer, self._transmission, self._repeat):
            if handle is not None:
                handle.cancel()
        self._timer = self._transmission = self._repeat = None
        self._quic.end_trace()
        self._on_terminated()

    def _repeat_last_words(self, times: int) -> None:
        """Repeat a close a few times, evenly through its closing period, whatever the remote does meanwhile.

        It may be waiting in silence, and what it sends must not make us send more (RFC 9000 section 10.2.1).
        """
        due = self._quic.get_timer()
        if times and due is not None:
            delay_s = (due - self._loop.time()) / (times + 1)
            self._repeat = self._loop.call_later(delay_s, self._say_again, times - 1)

    def _say_again(self, times: int) -> None:
        for data, address in self._quic.allowed_again(self._last_words):
            self._send_datagram(data, address)
        self._repeat_last_words(times)

    def _arm(self) -> None:
        due = None if self.terminated.is_set() else self._quic.get_timer()
        if due is None:
            return
        # A timer that fires too early is set again; cancelling one for every datagram would cost more.
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._fire)

    def _fire(self) -> None:
        self._timer = None
        due = self._quic.get_timer()
        if due is None:
            return
        now = self._loop.time()
        if now < due:
            self._arm()
            return
        try:
            self._quic.handle_timer(now=now)
        except Exception:  # as in `receive`
            _LOGGER.warning("the QUIC library failed on its timer", exc_info=True)
            self.terminate()
            return
        self._on_timer()
