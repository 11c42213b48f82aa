"""The accepting side: one UDP socket, many connections, and the limits on them.

Connections are told apart by the connection ids in their datagrams (RFC 9000 section 5.2).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport.codes import CloseCode, name_of
from culm_connectors.transport.errors import ConnectionClosedError
from culm_connectors.transport.identity import Credentials
from culm_connectors.transport.interface import (
    Address,
    Authorise,
    CloseOrigin,
    CloseReason,
    Connection,
    ConnectionHandler,
    Refusal,
    Service,
)
from culm_connectors.transport.quic.admission import Admission, FirstDatagram
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.connection import QuicTransportConnection
from culm_connectors.transport.quic.endpoint import UdpEndpoint, resolve
from culm_connectors.transport.quic.library import (
    CONNECTION_ID_BYTES,
    NO_APPLICATION_PROTOCOL,
    CreditedQuicConnection,
)
from culm_connectors.transport.quic.turns import Turns
from culm_connectors.transport.settings import MIN_DATAGRAM_BYTES, TransportSettings

_LOGGER = logging.getLogger(__name__)


def allow_everybody(peer_id: bytes, address: Address) -> Refusal | None:
    """The authorisation that admits every proven key."""
    return None


class Listener:
    """Accepts connections at one address. Made by `serve`."""

    def __init__(
        self,
        identity: Credentials,
        settings: TransportSettings,
        services: Mapping[str, Service],
    ) -> None:
        self._identity = identity
        self._settings = settings
        assert services, "something is spoken here"
        self.services = dict(services)
        """The services by ALPN; a service that is added is offered to clients that connect from then on."""
        self._endpoint: UdpEndpoint | None = None
        self._admission = Admission(settings, self._send, identity.reset_token)
        self._loop = asyncio.get_running_loop()
        self._accepting = True
        self._by_connection_id: dict[bytes, QuicTransportConnection] = {}
        self._half_open: set[QuicTransportConnection] = set()
        # Insertion order is age: the first of a peer's connections is its oldest.
        self._live: dict[QuicTransportConnection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = LimitedLog(_LOGGER)
        self._turns = Turns()
        self._strangers = _Strangers(self._on_unknown_datagram)
        self.refused: Counter[tuple[str, str]] = Counter()
        """Number of refused or failed connections, by ALPN (empty before it was agreed on) and reason."""
        self.closed: Counter[tuple[str, str]] = Counter()
        """Number of accepted connections that the listener ended later, by ALPN and reason."""

    @property
    def address(self) -> Address:
        """The address to which the listener is bound."""
        assert self._endpoint is not None
        return self._endpoint.address

    @property
    def connections(self) -> list[Connection]:
        """The authorised open connections, oldest first."""
        return list(self._live)

    @property
    def refusals(self) -> Counter[str]:
        """Number of first datagrams refused before anything was known of their sender, by reason."""
        return self._admission.counts

    def judge_again(self) -> int:
        """Close the open connections that would be refused now. Returns their number."""
        revoked = 0
        for connection in list(self._live):
            refusal = self._judge(connection)
            if refusal is not None:
                code = refusal.code_when_revoked
                self.closed[connection.alpn, name_of(code)] += 1
                connection.abort(code, refusal.text)
                revoked += 1
        return revoked

    async def start(self, address: Address) -> None:
        """Bind and begin to accept. Error: `AddressError`."""
        family, socket_address = await resolve(address, passive=True)
        self._endpoint = UdpEndpoint(
            family,
            socket_buffer_bytes=self._settings.socket_buffer_bytes,
            on_batch=self._on_batch,
        )
        self._endpoint.bind(socket_address)

    async def stop(self) -> None:
        """Stop accepting, cancel the handlers, close the connections in an orderly way, free the socket."""
        self._accepting = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._half_open):
            connection.terminate()
        everyone = set(self._by_connection_id.values())
        closing = (connection.close(CloseCode.SHUTTING_DOWN) for connection in everyone)
        try:
            await asyncio.gather(*closing, return_exceptions=True)
        finally:
            for connection in everyone:
                connection.terminate()
            self._turns.stop()
            if self._endpoint is not None:
                self._endpoint.close()

    # --- datagrams

    def _on_batch(self, batch: list[tuple[bytes, Address]]) -> None:
        for data, source in batch:
            known = self._by_connection_id.get(destination_of(data))
            self._turns.add(known or self._strangers, data, source)
        self._turns.run()

    def _on_unknown_datagram(self, data: bytes, source: Address) -> None:
        """Process a datagram that belonged to no connection when it arrived."""
        connection = self._by_connection_id.get(destination_of(data)) or self._connection_for(data, source)
        if connection is not None:
            connection.receive(data, source)
            connection.settle()

    def _connection_for(self, data: bytes, source: Address) -> QuicTransportConnection | None:
        buffer = Buffer(data=data)
        try:
            header = pull_quic_header(buffer, host_cid_length=CONNECTION_ID_BYTES)
        except ValueError:
            self.refusals["malformed"] += 1
            return None
        if header.packet_type == QuicPacketType.ONE_RTT:
            self._admission.reset(header, len(data), source)
            return None
        if len(data) < MIN_DATAGRAM_BYTES or not self._accepting:
            return None
        first = self._admission.admit(
            header,
            data[: header.packet_length],
            buffer.tell(),
            source,
            half_open=len(self._half_open),
            connections=len(self._half_open) + len(self._live),
            from_address=self._per_address[source[0]],
        )
        return None if first is None else self._begin(first, source)

    def _send(self, data: bytes, address: Address) -> None:
        if self._endpoint is not None:
            self._endpoint.send(data, address)

    # --- connections

    def _begin(self, first: FirstDatagram, source: Address) -> QuicTransportConnection:
        first_alpn, *others = self.services
        quic = CreditedQuicConnection(
            self._settings,
            configuration=configuration(
                self._identity,
                self._settings,
                alpn=first_alpn,
                beside=others,
                is_client=False,
                remote_host=source[0],
            ),
            original_destination_connection_id=first.original_connection_id,
            retry_source_connection_id=first.retry_connection_id,
            reset_token=self._identity.reset_token,
            takes_ecdsa=self._identity.takes_ecdsa,
        )
        connection = QuicTransportConnection(
            quic,
            self._settings,
            alpns=self.services,
            dialled=False,
            remote_address=source,
            send_datagram=self._send,
            admit=self._judge,
            judge=self._identity.judge,
        )
        connection_ids = {first.destination_connection_id, quic.host_cid}
        connection.on_connection_id = partial(self._connection_id, connection, connection_ids)
        connection.on_established = partial(self._established, connection)
        connection.on_ended = partial(self._ended, connection)
        connection.on_terminated = partial(self._terminated, connection, connection_ids, source[0])
        self._by_connection_id.update(dict.fromkeys(connection_ids, connection))
        self._half_open.add(connection)
        self._per_address[source[0]] += 1
        return connection

    def _judge(self, connection: QuicTransportConnection) -> Refusal | None:
        return self.services[connection.alpn].authorise(connection.peer_id, connection.remote_address)

    def _established(self, connection: QuicTransportConnection) -> None:
        self._half_open.discard(connection)
        same_peer = [other for other in self._live if other.peer_id == connection.peer_id]
        for oldest in same_peer[: max(0, len(same_peer) + 1 - self._settings.max_connections_per_peer)]:
            self.closed[oldest.alpn, name_of(CloseCode.SUPERSEDED)] += 1
            oldest.abort(CloseCode.SUPERSEDED, "newer connections of the same key take its place")
        self._live[connection] = None
        host, port = connection.remote_address
        self._log.log(
            logging.INFO, "peer %s connected from %s port %d", connection.peer_id.hex()[:16], host, port
        )
        task = self._loop.create_task(self._serve(connection), name=f"serve {connection.peer_id.hex()[:16]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: QuicTransportConnection) -> None:
        code = CloseCode.NORMAL
        try:
            await self.services[connection.alpn].on_connection(connection)
        except asyncio.CancelledError:
            raise  # `stop` closes the connection
        except ConnectionClosedError:
            pass
        except Exception:
            _LOGGER.exception("the handler of peer %s failed", connection.peer_id.hex())
            code = CloseCode.INTERNAL
        await connection.close(code)

    def _connection_id(
        self, connection: QuicTransportConnection, known: set[bytes], connection_id: bytes, issued: bool
    ) -> None:
        if issued:
            known.add(connection_id)
            self._by_connection_id[connection_id] = connection
        else:
            known.discard(connection_id)
            self._by_connection_id.pop(connection_id, None)

    def _ended(self, connection: QuicTransportConnection) -> None:
        reason = connection.close_reason
        host, port = connection.remote_address
        if connection in self._half_open:
            # It stays among those that are half open until it is forgotten.
            self._admission.count_failure()
            if self._accepting:
                self.refused[connection.alpn, _why_refused(connection)] += 1
            self._log.log(logging.INFO, "the handshake with %s port %d failed: %s", host, port, reason)
        elif connection in self._live:
            del self._live[connection]
            if not _closed_by_handler(reason):
                peer = connection.peer_id.hex()[:16]
                self._log.log(logging.INFO, "peer %s at %s port %d is gone: %s", peer, host, port, reason)

    def _terminated(self, connection: QuicTransportConnection, connection_ids: set[bytes], host: str) -> None:
        self._half_open.discard(connection)
        self._turns.forget(connection)
        for connection_id in connection_ids:
            self._by_connection_id.pop(connection_id, None)
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]


@dataclass(frozen=True, slots=True, eq=False)
class _Strangers:
    """Takes all datagrams without a connection: together they get the turns of one connection."""

    receive: Callable[[bytes, Address], None]

    def settle(self) -> None:
        """Do nothing: each datagram is processed by itself."""


def _why_refused(connection: QuicTransportConnection) -> str:
    """Return the reason of a failed handshake: one of our codes, "alpn", or "handshake" for all else."""
    reason = connection.close_reason
    if reason is None or reason.origin != CloseOrigin.LOCAL:
        return "handshake"
    if not reason.application:
        return "alpn" if reason.code == NO_APPLICATION_PROTOCOL else "handshake"
    agreed_on_none = not connection.alpn and reason.code == CloseCode.PROTOCOL
    return "alpn" if agreed_on_none else name_of(reason.code)


def _closed_by_handler(reason: CloseReason | None) -> bool:
    """Return whether a handler closed the connection for a protocol error, which the handler itself logs."""
    return (
        reason is not None
        and reason.origin == CloseOrigin.LOCAL
        and reason.application
        and reason.code in (CloseCode.PROTOCOL, CloseCode.TOO_LARGE, CloseCode.INTERNAL)
    )


def destination_of(data: bytes) -> bytes:
    """The destination connection id of a datagram's first packet (RFC 8999 section 5), `b""` in noise."""
    if data[:1] >= b"\x80":
        return data[6 : 6 + data[5]] if len(data) > 5 else b""
    return data[1 : 1 + CONNECTION_ID_BYTES]


@asynccontextmanager
async def serve(
    address: Address,
    identity: Credentials,
    settings: TransportSettings,
    on_connection: ConnectionHandler,
    *,
    alpn: str,
    authorise: Authorise = allow_everybody,
) -> AsyncIterator[Listener]:
    """Accept connections at `address` while the context lasts.

    `on_connection` runs as one task per connection, once the remote's key is proven and `authorise` has
    admitted it. It must write at once, since its first bytes show the client that it is accepted. When it
    returns, the connection is closed; when it raises, it is closed with `CloseCode.INTERNAL`. Leaving the
    context cancels the handlers and closes all connections in an orderly way.
    Error: `AddressError`.
    """
    services = {alpn: Service(on_connection, authorise)}
    async with serve_all(address, identity, settings, services) as listener:
        yield listener


@asynccontextmanager
async def serve_all(
    address: Address, identity: Credentials, settings: TransportSettings, services: Mapping[str, Service]
) -> AsyncIterator[Listener]:
    """Accept connections for these application protocols, by their ALPN; otherwise as `serve`."""
    listener = Listener(identity, settings, services)
    await listener.start(address)
    try:
        yield listener
    finally:
        await listener.stop()
