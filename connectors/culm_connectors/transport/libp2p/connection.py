"""A libp2p connection for a protocol driver: one plain stream per side; everything else is answered here.

libp2p's streams are bidirectional and begin with a negotiation. p2panda uses two of them, each in one
direction: our data goes out on the stream that we opened, and the remote's data arrives on the stream that
the remote opened. On the latter only the answer to the remote's proposal is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from culm_connectors.transport import (
    Address,
    Authorise,
    CloseCode,
    CloseReason,
    Connection,
    ConnectionClosedError,
    ConnectionHandler,
    ConnectionStatistics,
    ReceiveStream,
    SendStream,
    TransportError,
    TransportSettings,
)
from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.errors import MultiaddrError, NegotiationError
from culm_connectors.transport.libp2p.host_key import HostKey
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.libp2p.multistream import Listening, Proposing
from culm_connectors.transport.libp2p.streams import FollowingReceiveStream, FollowingSendStream
from culm_connectors.transport.quic import Listener, allow_everybody, connect, serve
from culm_models.varint import write_varint

logger = logging.getLogger(__name__)

IDENTIFY = b"/ipfs/id/1.0.0"
PING = b"/ipfs/ping/1.0.0"
NEGOTIATION_TIMEOUT_S = 10.0
_PING_BYTES = 32
_MAX_WAITING_STREAMS = 2
AGENT = b"culm"
PROTOCOL_VERSION = b"/p2p/1.0.0"
# Field numbers of the protobuf `Identify`.
_PUBLIC_KEY, _LISTEN, _PROTOCOLS, _OBSERVED, _PROTOCOL_VERSION, _AGENT = range(1, 7)
ALPN = "libp2p"


class Libp2pConnection:
    """Implements `Connection` on top of a connection whose host key libp2p's certificate has proven.

    `protocol`: what its streams carry, by its name in a negotiation.
    """

    def __init__(
        self, inner: Connection, own_peer_id: bytes, protocol: bytes, listening: Sequence[Address] = ()
    ) -> None:
        self._inner = inner
        self._protocol = protocol
        self._protocols = (protocol, IDENTIFY, PING)
        self._own_peer_id = own_peer_id
        self._listening = listening
        self._accepted: asyncio.Queue[ReceiveStream | None] = asyncio.Queue(_MAX_WAITING_STREAMS + 1)
        self._confirmations: set[asyncio.Task[None]] = set()
        self._answering = asyncio.create_task(self._answer_streams(), name="libp2p streams")

    @property
    def peer_id(self) -> bytes:
        """The remote's Ed25519 host key, 32 bytes."""
        return self._inner.peer_id

    @property
    def remote_address(self) -> Address:
        """The address that the remote sends from."""
        return self._inner.remote_address

    @property
    def dialled(self) -> bool:
        """True if this side called."""
        return self._inner.dialled

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the connection ended; `None` while it is open."""
        return self._inner.close_reason

    def statistics(self) -> ConnectionStatistics:
        """Counters of this moment."""
        return self._inner.statistics()

    async def open_stream(self, bidirectional: bool = False) -> SendStream:
        """Open our stream of the protocol. What is written may go out before the remote has agreed to it."""
        stream = await self._inner.open_stream(bidirectional=True)
        proposing = Proposing(self._protocol)
        await stream.write(proposing.opening)
        confirmation = asyncio.create_task(self._confirm(stream, proposing), name="libp2p proposal")
        self._confirmations.add(confirmation)
        confirmation.add_done_callback(self._confirmations.discard)
        return FollowingSendStream(stream, self._inner)

    async def accept_stream(self) -> ReceiveStream:
        """Wait for the next stream of the protocol that the remote opens. Error: `ConnectionClosedError`."""
        stream = await self._accepted.get()
        if stream is None:
            self._accepted.put_nowait(None)
            reason = self._inner.close_reason
            assert reason is not None, "streams are answered as long as the connection lives"
            raise ConnectionClosedError(reason)
        return stream

    async def wait_closed(self) -> CloseReason:
        """Wait until the connection has ended."""
        return await self._inner.wait_closed()

    async def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Close in an orderly way."""
        await self._inner.close(code, reason)

    def abort(self, code: int, reason: str = "") -> None:
        """Close at once."""
        self._inner.abort(code, reason)

    # --- the streams that we open

    async def _confirm(self, stream: SendStream, proposing: Proposing) -> None:
        """Read the answer to our proposal; without agreement the connection is unusable."""
        assert stream.receive is not None, "a bidirectional stream"
        with contextlib.suppress(TransportError):
            try:
                async with asyncio.timeout(NEGOTIATION_TIMEOUT_S):
                    while not proposing.agreed:
                        data = await stream.receive.read()
                        if not data:
                            raise NegotiationError("the remote ends the stream")
                        proposing.feed(data)
            except (NegotiationError, TimeoutError) as error:
                text = str(error) or "the remote does not answer"
                name = self._protocol.decode()
                logger.warning("%s does not support %s: %s", self.peer_id.hex()[:16], name, text)
                self.abort(CloseCode.PROTOCOL, f"{name}: {text}")

    # --- the streams that the remote opens

    async def _answer_streams(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    stream = await self._inner.accept_stream()
                    if stream.send is None:
                        stream.stop(CloseCode.PROTOCOL)  # libp2p has no streams of one direction
                    else:
                        group.create_task(self._answer(stream, stream.send))
        except* TransportError:
            pass
        except* Exception:
            # A defect of ours must cost this connection only.
            logger.exception("answering the streams of %s failed", self.peer_id.hex()[:16])
            self.abort(CloseCode.INTERNAL, "internal error")
        finally:
            for confirmation in self._confirmations:
                confirmation.cancel()
            while self._accepted.full():
                self._accepted.get_nowait()
            self._accepted.put_nowait(None)

    async def _answer(self, stream: ReceiveStream, answers: SendStream) -> None:
        """Agree on a protocol and serve it; the number of streams at a time is bounded by the transport."""
        with contextlib.suppress(TransportError):
            listening = Listening(self._protocols)
            try:
                async with asyncio.timeout(NEGOTIATION_TIMEOUT_S):
                    await _negotiate(listening, stream, answers)
            except (NegotiationError, TimeoutError) as error:
                logger.debug("%s: %s", self.peer_id.hex()[:16], error)
                stream.stop(CloseCode.PROTOCOL)
                answers.reset(CloseCode.PROTOCOL)
            if listening.agreed == self._protocol:
                self._accept(FollowingReceiveStream(stream, listening.rest))
            elif listening.agreed == IDENTIFY:
                message = encode_identify(
                    self._own_peer_id, self._protocols, self.remote_address, self._listening
                )
                await answers.write(message)
                answers.finish()
                stream.stop(CloseCode.NORMAL)
            elif listening.agreed == PING:
                await _echo(FollowingReceiveStream(stream, listening.rest), answers)
            else:
                answers.finish()

    def _accept(self, stream: FollowingReceiveStream) -> None:
        if self._accepted.qsize() >= _MAX_WAITING_STREAMS:
            self.abort(CloseCode.TOO_MANY_STREAMS, "one stream a side carries the protocol")
        else:
            self._accepted.put_nowait(stream)


async def _negotiate(listening: Listening, stream: ReceiveStream, answers: SendStream) -> None:
    """Negotiate until a protocol is agreed on, or the remote ends the stream without a supported one."""
    while listening.agreed is None:
        data = await stream.read()
        if not data:
            return
        if answer := listening.feed(data):
            await answers.write(answer)


async def _echo(stream: ReceiveStream, answers: SendStream) -> None:
    pending = b""
    while data := await stream.read():
        pending += data
        whole = len(pending) - len(pending) % _PING_BYTES
        if whole:
            await answers.write(pending[:whole])
            pending = pending[whole:]
    answers.finish()


def encode_identify(
    peer_id: bytes, protocols: Sequence[bytes], observed: Address, listening: Sequence[Address] = ()
) -> bytes:
    """Encode the `Identify` answer with its length in front.

    `observed` is the address that the peer sends from.
    """
    parts = [wire.bytes_field(_PUBLIC_KEY, HostKey.ed25519(peer_id).encode())]
    parts += [wire.bytes_field(_LISTEN, _binary(address)) for address in listening]
    parts += [wire.bytes_field(_PROTOCOLS, protocol) for protocol in protocols]
    parts += [
        wire.bytes_field(_OBSERVED, _binary(observed)),
        wire.bytes_field(_PROTOCOL_VERSION, PROTOCOL_VERSION),
        wire.bytes_field(_AGENT, AGENT),
    ]
    message = b"".join(parts)
    return write_varint(len(message)) + message


def _binary(address: Address) -> bytes:
    try:
        return Multiaddr(address).encode()
    except MultiaddrError:
        return b""


@asynccontextmanager
async def serve_libp2p(
    address: Address,
    identity: Libp2pIdentity,
    settings: TransportSettings,
    on_connection: ConnectionHandler,
    *,
    protocol: bytes,
    authorise: Authorise = allow_everybody,
) -> AsyncIterator[Listener]:
    """Accept peers that speak `protocol` over libp2p while the context lasts; as `serve` otherwise."""

    async def handle(connection: Connection) -> None:
        # A server bound to every address cannot tell which of them the remote could reach.
        listening = [] if listener.address[0] in ("0.0.0.0", "::") else [listener.address]
        await on_connection(Libp2pConnection(connection, identity.peer_id, protocol, listening))

    async with serve(address, identity, settings, handle, alpn=ALPN, authorise=authorise) as listener:
        yield listener


async def dial_libp2p(
    to: Multiaddr, identity: Libp2pIdentity, settings: TransportSettings, *, protocol: bytes
) -> Connection:
    """Dial a libp2p peer; as `connect` otherwise. The peer id is checked if the address names one."""
    connection = await connect(to.address, identity, to.peer_id, settings, alpn=ALPN)
    return Libp2pConnection(connection, identity.peer_id, protocol)
