"""The dialling side: `connect`, which returns only once the server has accepted the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import ConnectError
from culm_connectors.transport.identity import Credentials
from culm_connectors.transport.interface import Address, CloseOrigin, CloseReason, Connection, Refusal
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.connection import QuicTransportConnection
from culm_connectors.transport.quic.endpoint import UdpEndpoint, resolve
from culm_connectors.transport.quic.library import CreditedQuicConnection
from culm_connectors.transport.quic.turns import Turns
from culm_connectors.transport.settings import TransportSettings


async def connect(
    address: Address,
    identity: Credentials,
    expected_peer_id: bytes | None,
    settings: TransportSettings,
    *,
    alpn: str,
    speak_first: Callable[[Connection], Awaitable[None]] | None = None,
) -> Connection:
    """Dial a server and return once its first stream bytes have come.

    In TLS 1.3 a client ends its handshake before the server has checked the client's key, so only the
    server's first bytes prove that the client is accepted. The server's driver must therefore write at once.
    If it only answers data from the client, `speak_first` writes that data once the handshake is complete.
    `expected_peer_id` is the key (32 bytes) that the server must prove; `None` accepts any proven key.

    Errors: `AddressError`, `ConnectError` (refused, unreachable, silent, another peer). If it raises or is
    cancelled, all resources are freed.
    """
    family, socket_address = await resolve(address, passive=False)
    remote: Address = (socket_address[0], socket_address[1])
    quic = CreditedQuicConnection(
        settings,
        configuration=configuration(
            identity, settings, alpn=alpn, is_client=True, remote_host=socket_address[0]
        ),
        takes_ecdsa=identity.takes_ecdsa,
    )

    turns = Turns()

    def on_batch(batch: list[tuple[bytes, Address]]) -> None:
        for data, _ in batch:
            turns.add(connection, data, remote)
        turns.run()

    def on_unreachable() -> None:
        # Anyone on the path may forge such a message: to an established connection it is only a hint.
        if connection.is_established:
            connection.probe()
        else:
            connection.terminate()

    endpoint = UdpEndpoint(
        family,
        socket_buffer_bytes=settings.socket_buffer_bytes,
        on_batch=on_batch,
        on_unreachable=on_unreachable,
    )
    endpoint.connect(socket_address)
    connection = QuicTransportConnection(
        quic,
        settings,
        alpns=(alpn,),
        dialled=True,
        remote_address=remote,
        send_datagram=endpoint.send,
        admit=lambda candidate: _judge(candidate.peer_id, expected_peer_id),
        judge=identity.judge,
    )

    def on_terminated() -> None:
        turns.stop()
        endpoint.close()

    connection.on_terminated = on_terminated
    may_speak = asyncio.Event()
    connection.on_established = connection.on_ended = may_speak.set
    try:
        connection.dial(remote)
        if speak_first is not None:
            await may_speak.wait()
            if connection.is_established:
                await speak_first(connection)
        await connection.answered.wait()
        if not connection.was_accepted:
            raise _failure(address, settings, connection.close_reason)
    except BaseException:
        connection.abort(CloseCode.NORMAL)
        connection.terminate()
        raise
    connection.cancel_deadline()
    return connection


def _judge(peer_id: bytes, expected_peer_id: bytes | None) -> Refusal | None:
    if expected_peer_id is None or peer_id == expected_peer_id:
        return None
    return Refusal("the server proved another key than the one that was dialled", CloseCode.WRONG_PEER)


def _failure(address: Address, settings: TransportSettings, reason: CloseReason | None) -> ConnectError:
    where = f"{address[0]} port {address[1]}"
    if reason is None or reason.origin == CloseOrigin.LOST:
        return ConnectError(
            f"nothing listens on {where} (UDP)", reason, hint="check the address, and that the server runs"
        )
    if reason.origin == CloseOrigin.REMOTE:
        return ConnectError(f"{where} refused the connection ({reason})", reason)
    if reason.code == CloseCode.HANDSHAKE_TIMEOUT:
        return ConnectError(
            f"{where} did not accept within {settings.handshake_timeout_s:g} s",
            reason,
            hint="check that a server runs there and that UDP passes the firewall",
        )
    return ConnectError(f"the server on {where} was not accepted ({reason})", reason)
