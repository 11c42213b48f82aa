"""One connection on top of the library, with the driver's interface: identity, streams, the end.

The owner (listener or dialler) hands datagrams to `receive` and calls `settle` after a batch of them, so that
many datagrams cost one round of events, one transmission and one wake-up of the driver.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence

from aioquic.quic import events
from cryptography import x509

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import ConnectionClosedError, IdentityError
from culm_connectors.transport.identity import peer_id_of
from culm_connectors.transport.interface import (
    Address,
    CloseOrigin,
    CloseReason,
    ConnectionStatistics,
    Refusal,
)
from culm_connectors.transport.quic.library import CreditedQuicConnection
from culm_connectors.transport.quic.liveness import Liveness
from culm_connectors.transport.quic.pump import DatagramPump
from culm_connectors.transport.quic.streams import QuicReceiveStream, QuicSendStream
from culm_connectors.transport.settings import TransportSettings

_LOGGER = logging.getLogger(__name__)

_MAX_REASON_BYTES = 100
_MAX_SHOWN_REASON = 200
_CLOSE_PATIENCE = 4

Admit = Callable[["QuicTransportConnection"], Refusal | None]
"""The owner's decision on a proven peer id, made once, before any stream byte is handed on."""


class QuicTransportConnection:
    """Implements `Connection`; the `on_...` attributes belong to the owner."""

    def __init__(
        self,
        quic: CreditedQuicConnection,
        settings: TransportSettings,
        *,
        alpns: Collection[str],
        dialled: bool,
        remote_address: Address,
        send_datagram: Callable[[bytes, Address], None],
        admit: Admit,
        judge: Callable[[Sequence[x509.Certificate]], bytes] = peer_id_of,
    ) -> None:
        self.quic = quic
        self.settings = settings
        self.dialled = dialled
        self.peer_id = b""
        self.alpn = ""
        """The application protocol that was agreed upon, once it was."""
        self.is_established = False
        """True once the remote's key is proven and admitted."""
        self.answered = asyncio.Event()
        """Set when the remote's first stream bytes arrive, or the connection ends before."""
        self.was_accepted = False
        """True once the remote's first stream bytes have arrived."""
        self.on_established: Callable[[], None] = lambda: None
        self.on_ended: Callable[[], None] = lambda: None
        self.on_terminated: Callable[[], None] = lambda: None
        self.on_connection_id: Callable[[bytes, bool], None] = lambda connection_id, issued: None

        self._alpns = alpns
        self._admit = admit
        self._peer_id_of = judge
        self._first_address = remote_address
        self._loop = asyncio.get_running_loop()
        self._pump = DatagramPump(
            quic,
            send_datagram,
            on_events=self._dispatch,
            on_timer=self.settle,
            on_terminated=self._pump_terminated,
        )
        self._send_streams: dict[int, QuicSendStream] = {}
        self._receive_streams: dict[int, QuicReceiveStream] = {}
        self._to_accept: deque[QuicReceiveStream] = deque()
        self._accepting: asyncio.Future[None] | None = None
        self._close_reason: CloseReason | None = None
        self._ended = asyncio.Event()
        self._lost_text = "unreachable"
        self._liveness = Liveness(quic, self._pump, settings, self.terminate)
        self._deadline: asyncio.TimerHandle | None = self._loop.call_later(
            settings.handshake_timeout_s, self._handshake_is_late
        )

    # --- the driver's interface

    @property
    def remote_address(self) -> Address:
        """The address that the remote sends from."""
        return self.quic.remote_address or self._first_address

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the connection ended; `None` while it is open."""
        return self._close_reason

    @property
    def is_ended(self) -> bool:
        """True once `close_reason` is known."""
        return self._close_reason is not None

    def statistics(self) -> ConnectionStatistics:
        """Counters of this moment."""
        return ConnectionStatistics(
            received_bytes=self._pump.received_bytes,
            sent_bytes=self._pump.sent_bytes,
            unread_bytes=sum(stream.unread for stream in self._receive_streams.values()),
            unsent_bytes=sum(stream.written - stream.acknowledged for stream in self._send_streams.values()),
            round_trip_ms=self.quic.round_trip_s * 1_000,
        )

    async def open_stream(self, bidirectional: bool = False) -> QuicSendStream:
        """Open a stream of ours."""
        if self._close_reason is not None:
            raise ConnectionClosedError(self._close_reason)
        stream_id, sender = self.quic.open_sender(bidirectional=bidirectional)
        receive = QuicReceiveStream(self, stream_id) if bidirectional else None
        stream = QuicSendStream(self, stream_id, sender, receive)
        self._send_streams[stream_id] = stream
        if receive is not None:
            receive.send = stream
            self._receive_streams[stream_id] = receive
        return stream

    async def accept_stream(self) -> QuicReceiveStream:
        """Wait for the next stream that the remote opens."""
        assert self._accepting is None, "one task accepts streams"
        while not self._to_accept:
            if self._close_reason is not None:
                raise ConnectionClosedError(self._close_reason)
            self._accepting = self._loop.create_future()
            try:
                await self._accepting
            finally:
                self._accepting = None
        return self._to_accept.popleft()

    async def wait_closed(self) -> CloseReason:
        """Wait until the connection has ended."""
        await self._ended.wait()
        assert self._close_reason is not None
        return self._close_reason

    async def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Finish all our streams, wait (bounded) until the remote has received all data, then close."""
        try:
            if self.is_established and not self.is_ended:
                await self._deliver_what_was_written()
        finally:
            self.abort(code, reason)
        await self._pump.terminated.wait()

    def abort(self, code: int, reason: str = "") -> None:
        """Close at once."""
        if self.is_ended:
            return
        text = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        self.quic.close(error_code=int(code), reason_phrase=text)
        self._pump.transmit()

    # --- called by the owner

    def dial(self, address: Address) -> None:
        """Begin the handshake with a server."""
        self._pump.dial(address)

    def receive(self, data: bytes, address: Address) -> None:
        """Take one datagram; `settle` acts on what it brought."""
        if self.quic.is_reset(data):
            self._lost_text = "reset by a remote that no longer knows this connection"
            self.terminate()
        else:
            self._pump.receive(data, address)

    def settle(self) -> None:
        """Act on what a batch of datagrams, or a timer, brought: events, receipts, transmission."""
        self._dispatch()
        for stream_id, stream in list(self._send_streams.items()):
            stream.progress()
            if stream.is_settled:
                del self._send_streams[stream_id]
        self._pump.transmit()

    def probe(self) -> None:
        """Probe the remote after the network reported it unreachable; only silence ends the connection."""
        self._liveness.probe()

    def terminate(self) -> None:
        """Drop all state at once without notifying the remote."""
        self._pump.terminate()

    def cancel_deadline(self) -> None:
        """Cancel the deadline of the handshake (for a client: of the server's first bytes)."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- called by the streams

    def transmit_soon(self) -> None:
        """Transmit once, after everything that runs now has written what it has to write."""
        self._pump.transmit_soon()

    def taken(self, stream: QuicReceiveStream, count: int) -> None:
        """Grant the remote as many bytes as the driver has read from a stream."""
        if self.quic.take(stream.stream_id, count):
            self._pump.transmit_soon()

    def release(self, stream: QuicReceiveStream) -> None:
        """Nothing more will be read from a stream."""
        if self._receive_streams.pop(stream.stream_id, None) is not None:
            self.quic.release(stream.stream_id)
            self._pump.transmit_soon()

    def stop_remote(self, stream: QuicReceiveStream, code: int) -> None:
        """Ask the remote to stop a stream."""
        self.quic.stop_stream(stream.stream_id, code)
        self._pump.transmit_soon()

    # --- events

    def _dispatch(self) -> None:
        while (event := self.quic.next_event()) is not None:
            match event:
                case events.StreamDataReceived(data=data, end_stream=end, stream_id=stream_id):
                    self._stream_data(stream_id, data, end=end)
                case events.HandshakeCompleted(alpn_protocol=alpn):
                    self._handshake_completed(alpn)
                case events.StreamReset(error_code=code, stream_id=stream_id):
                    self._stream_reset(stream_id, code)
                case events.StopSendingReceived(stream_id=stream_id):
                    if (stopped := self._send_streams.pop(stream_id, None)) is not None:
                        stopped.end("was stopped by the remote")
                case events.ConnectionIdIssued(connection_id=connection_id):
                    self.on_connection_id(connection_id, True)
                case events.ConnectionIdRetired(connection_id=connection_id):
                    self.on_connection_id(connection_id, False)
                case events.ConnectionTerminated():
                    self.terminate()
        if self.quic.ending is not None:
            self._end()
            if self.quic.is_draining:
                self.terminate()

    def _handshake_completed(self, alpn: str | None) -> None:
        refusal = self._judge(alpn)
        if refusal is not None:
            self.abort(refusal.code, refusal.text)
            return
        self.is_established = True
        if not self.dialled:
            self.cancel_deadline()
        self._liveness.start()
        self.on_established()

    def _judge(self, alpn: str | None) -> Refusal | None:
        if alpn is None or alpn not in self._alpns:
            return Refusal("another application protocol was negotiated", CloseCode.PROTOCOL)
        self.alpn = alpn
        try:
            self.peer_id = self._peer_id_of(self.quic.remote_certificates)
            return self._admit(self)
        except IdentityError as error:
            return Refusal(str(error))
        except Exception:  # an allow-list that fails must refuse, not admit
            _LOGGER.exception("the authorisation of a peer failed")
            return Refusal("the authorisation failed", CloseCode.INTERNAL)

    def _stream_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        if not self.is_established or self.is_ended:
            return
        if data and not self.was_accepted:
            self.was_accepted = True
            self.answered.set()
        stream = self._receive_streams.get(stream_id) or self._accept(stream_id)
        if stream is not None:
            stream.feed(data, end=end)

    def _accept(self, stream_id: int) -> QuicReceiveStream | None:
        if self.quic.is_ours(stream_id):
            return None
        theirs = sum(not self.quic.is_ours(known) for known in self._receive_streams)
        if theirs >= 2 * self.settings.max_streams:
            self.abort(CloseCode.TOO_MANY_STREAMS, "more streams open than granted")
            return None
        stream = QuicReceiveStream(self, stream_id)
        self._receive_streams[stream_id] = stream
        if not stream_id & 2:
            stream.send = QuicSendStream(self, stream_id, self.quic.sender_of(stream_id), stream)
            self._send_streams[stream_id] = stream.send
        self._to_accept.append(stream)
        self._wake_acceptor()
        return stream

    def _wake_acceptor(self) -> None:
        if self._accepting is not None and not self._accepting.done():
            self._accepting.set_result(None)

    def _stream_reset(self, stream_id: int, code: int) -> None:
        stream = self._receive_streams.get(stream_id)
        if stream is not None:
            stream.reset(code)
        else:
            self.quic.release(stream_id)

    # --- the end

    async def _deliver_what_was_written(self) -> None:
        streams = list(self._send_streams.values())
        for stream in streams:
            stream.finish()
        for _ in range(_CLOSE_PATIENCE):
            before = sum(stream.acknowledged for stream in streams)
            try:
                async with asyncio.timeout(self.settings.close_timeout_s):
                    for stream in streams:
                        await stream.wait_settled()
                return
            except TimeoutError:
                if sum(stream.acknowledged for stream in streams) == before:
                    return

    def _end(self) -> None:
        """Record the reason of the end once it is known, stop reading and writing, and notify all streams."""
        if self._close_reason is not None:
            return
        self._close_reason = self._reason()
        self.cancel_deadline()
        self._liveness.stop()
        for send_stream in self._send_streams.values():
            send_stream.connection_ended()
        for receive_stream in self._receive_streams.values():
            receive_stream.connection_ended()
        self._wake_acceptor()
        self.answered.set()
        self._ended.set()
        self.on_ended()

    def _reason(self) -> CloseReason:
        ending = self.quic.ending
        if ending is None:
            return CloseReason(0, self._lost_text, CloseOrigin.LOST, application=False)
        # The text is the remote's choice; it must not be able to forge log lines.
        text = ending.reason_phrase[:_MAX_SHOWN_REASON].encode("unicode_escape").decode("ascii")
        return CloseReason(
            ending.error_code,
            text[:_MAX_SHOWN_REASON],
            self.quic.ending_origin,
            application=ending.frame_type is None,
        )

    def _handshake_is_late(self) -> None:
        self.abort(CloseCode.HANDSHAKE_TIMEOUT, "the handshake did not end in time")

    def _pump_terminated(self) -> None:
        self._end()
        self.on_terminated()
