"""The accepting side: one TCP socket, many channels, and the limits on them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator

from culm_connectors.followed_file import FollowedFile
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.codes import CloseCode, name_of
from culm_connectors.transport.errors import AddressError, TransportError
from culm_connectors.transport.interface import Address, AuthorisePrincipal, ChannelHandler, Refusal
from culm_connectors.transport.principal import Principal
from culm_connectors.transport.tcp.channel import TcpChannel
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.transport.tcp.tls import FollowedContext, TlsSession, followed_server_context

_LOGGER = logging.getLogger(__name__)


def allow_everybody(principal: Principal) -> Refusal | None:
    """Admit every principal."""
    return None


class TcpListener:
    """Accepts channels at one address. Made by `serve_tcp`."""

    def __init__(
        self,
        settings: TcpSettings,
        handler: ChannelHandler,
        authorise: AuthorisePrincipal,
        tls: FollowedContext | None,
    ) -> None:
        self._settings = settings
        self._handler = handler
        self._authorise = authorise
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._held: set[TcpChannel] = set()
        self._per_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = LimitedLog(_LOGGER)
        self.refusals: Counter[str] = Counter()
        """Number of refused connections, by reason."""
        self.closed: Counter[str] = Counter()
        """Number of accepted channels that the listener ended later, by reason."""

    @property
    def address(self) -> Address:
        """The address to which the listener is bound."""
        assert self._server is not None, "it was started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    @property
    def channels(self) -> list[TcpChannel]:
        """The channels whose remote is known."""
        return [channel for channel in self._held if channel.is_established]

    @property
    def files(self) -> tuple[FollowedFile, ...]:
        """The files of TLS that it follows, if it serves TLS; from any thread."""
        return () if self._tls is None else (self._tls.file(),)

    def judge_again(self) -> int:
        """End the channels that would be refused now. Returns their number."""
        revoked = 0
        for channel in self.channels:
            if (refusal := self._authorise(channel.principal)) is not None:
                self.closed[name_of(refusal.code_when_revoked)] += 1
                channel.abort(refusal.text)
                revoked += 1
        return revoked

    async def start(self, address: Address) -> None:
        """Bind and begin to accept. Error: `AddressError`."""
        host, port = address
        try:
            self._server = await self._loop.create_server(self._channel, host, port)
        except OSError as error:
            raise AddressError(
                f"cannot listen on {host} port {port} (TCP): {error.strerror or error}",
                hint="give another address to listen on",
            ) from error

    async def stop(self) -> None:
        """Stop accepting, cancel the handlers, and close the open channels in an orderly way."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(channel.close() for channel in tuple(self._held)), return_exceptions=True)

    def _channel(self) -> TcpChannel:
        session = None if self._tls is None else TlsSession(self._tls.current(), server_side=True)
        return TcpChannel(
            self._settings, session, accept=self._accept, established=self._established, ended=self._ended
        )

    def _accept(self, channel: TcpChannel) -> bool:
        host = channel.remote_address[0]
        if (
            len(self._held) >= self._settings.max_connections
            or self._per_address[host] >= self._settings.max_connections_per_address
        ):
            self.refusals["connections"] += 1
            return False
        self._held.add(channel)
        self._per_address[host] += 1
        return True

    def _established(self, channel: TcpChannel) -> None:
        try:
            refusal = self._authorise(channel.principal)
        except Exception:  # an allow-list that fails must refuse, not admit
            _LOGGER.exception("the authorisation of a remote failed")
            refusal = Refusal("the authorisation failed", CloseCode.INTERNAL)
        if refusal is not None:
            self.refusals[name_of(refusal.code)] += 1
            self._log.log(logging.INFO, "%s port %d is refused: %s", *channel.remote_address, refusal.text)
            channel.abort(refusal.text)
            return
        task = self._loop.create_task(self._serve(channel), name=f"serve {channel.principal.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, channel: TcpChannel) -> None:
        try:
            await self._handler(channel)
        except asyncio.CancelledError:
            raise  # `stop` closes the channel
        except TransportError:
            pass
        except Exception:
            _LOGGER.exception("the handler of %s failed", channel.principal.name)
            channel.abort("internal error")
        await channel.close()

    def _ended(self, channel: TcpChannel) -> None:
        if channel not in self._held:
            return
        self._held.discard(channel)
        host = channel.remote_address[0]
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        if not channel.is_established:
            self.refusals["handshake"] += 1
            self._log.log(logging.INFO, "the handshake with %s failed: %s", host, channel.close_reason)


@contextlib.asynccontextmanager
async def serve_tcp(
    address: Address,
    handler: ChannelHandler,
    settings: TcpSettings,
    *,
    tls: TlsFiles | None = None,
    authorise: AuthorisePrincipal = allow_everybody,
) -> AsyncIterator[TcpListener]:
    """Accept channels at `address` while the context lasts; `handler` runs as one task per channel.

    Errors: `AddressError`; `IdentityError` if the TLS files cannot be used.
    """
    context = None if tls is None else followed_server_context(tls)
    listener = TcpListener(settings, handler, authorise, context)
    await listener.start(address)
    try:
        yield listener
    finally:
        await listener.stop()
