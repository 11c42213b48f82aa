"""Serving a connector's peers: the listeners, the peers and nodes it calls, and who may ask for what.

The allow-list is read again whenever its file changes. What it says counts for living connections too: those
that it judges otherwise than before are closed, and come again under the new rules if they may.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable

from culm_connectors.access import ALLOW_EVERYBODY, AccessList, load_access_list
from culm_connectors.aquadoggo.links import NodeLinks
from culm_connectors.limited_log import LimitedLog
from culm_connectors.p2panda.dialling import keep_connected
from culm_connectors.p2panda.driver import Driver
from culm_connectors.sds.driver import SdsDriver
from culm_connectors.sds.settings import ALPN as SDS_ALPN
from culm_connectors.settings import ALPN, ConnectorSettings
from culm_connectors.transport import (
    Address,
    CloseCode,
    Identity,
    Listener,
    Refusal,
    Service,
    serve,
)
from culm_connectors.watch import watch_access_list
from culm_models.keys import KeyPair
from culm_models.p2panda.messages import Announce, Message, SyncRequest

_LIMITED = LimitedLog(logging.getLogger(__name__))


class PeerService:
    """Who is served, and where. `started` is called with the address (None: nobody may call) when peers may.

    Raises AccessError: the allow-list cannot be read.
    """

    def __init__(
        self,
        settings: ConnectorSettings,
        key_pair: KeyPair,
        started: Callable[[Address | None], None],
    ) -> None:
        self.access = (
            ALLOW_EVERYBODY if settings.allow_list is None else load_access_list(settings.allow_list)
        )
        self.address: Address | None = None
        self._settings = settings
        self._identity = Identity.from_private_key(key_pair.private_key)
        self._started = started
        self._reload = asyncio.Event()
        self._listener: Listener | None = None
        self._driver: Driver
        self._nodes: NodeLinks | None = None
        self._sds: SdsDriver | None = None

    def attach(self, driver: Driver, nodes: NodeLinks | None, sds: SdsDriver | None) -> None:
        """What peers, p2panda nodes and SDS participants are handed to, if served. Before `serve`."""
        self._driver, self._nodes, self._sds = driver, nodes, sds

    async def serve(self, group: asyncio.TaskGroup) -> None:
        """Take calls and make calls until cancelled; what goes on beside that are tasks of the group."""
        settings = self._settings
        for address in settings.dial:
            group.create_task(
                keep_connected(self._driver, address, self._identity, settings.transport, alpn=ALPN)
            )
        if settings.allow_list is not None:
            group.create_task(
                watch_access_list(settings.allow_list, self._apply, self._reload, settings.reload_interval_s)
            )
        async with contextlib.AsyncExitStack() as stack:
            if self._nodes is not None:
                await self._nodes.start(
                    stack,
                    group,
                    listen=settings.listen_libp2p,
                    dial=settings.dial_libp2p,
                    authorise=self.access.authorise,
                )
            if settings.listen is not None:
                self._listener = await stack.enter_async_context(
                    serve(
                        settings.listen,
                        self._identity,
                        settings.transport,
                        self._driver.serve,
                        alpn=ALPN,
                        authorise=self.access.authorise,
                        beside=self._beside(),
                    )
                )
                self.address = self._listener.address
            self._started(self.address)
            await asyncio.Event().wait()

    def _beside(self) -> dict[str, Service]:
        """What else is spoken at the same address."""
        if self._sds is None:
            return {}
        return {SDS_ALPN: Service(self._sds.serve, self.access.authorise_for_channels)}

    async def finish(self, reason: str) -> None:
        """Let nobody in, close every link, and wait until what peers brought is stored."""
        refusal = Refusal(reason, CloseCode.SHUTTING_DOWN)
        if self._listener is not None:
            self._listener.set_authorise(lambda *_: refusal)
        if self._nodes is not None:
            self._nodes.set_authorise(lambda *_: refusal)
            await self._nodes.finish(reason)
        if self._sds is not None:
            await self._sds.finish(reason)
        await self._driver.finish(reason)

    # The allow-list.

    def reload(self) -> None:
        """Read the allow-list again now."""
        self._reload.set()

    def _apply(self, access: AccessList) -> None:
        """Put another allow-list in force; connections that it judges otherwise are closed."""
        former, self.access = self.access, access
        if self._listener is not None:
            self._listener.set_authorise(access.authorise, ALPN)
            if self._sds is not None:
                self._listener.set_authorise(access.authorise_for_channels, SDS_ALPN)
        if self._sds is not None:
            self._sds.judge_again()
        if self._nodes is not None:
            self._nodes.set_authorise(access.authorise)
        for driver in (self._driver, *((self._nodes.driver,) if self._nodes is not None else ())):
            for remote in tuple(driver.links):
                if not access.allows(remote):
                    driver.disconnect(remote, CloseCode.REVOKED, "this key is no longer allowed")
                elif access.schemas_of(remote) != former.schemas_of(remote):
                    driver.disconnect(remote, CloseCode.SHUTTING_DOWN, "the rules for this key have changed")

    def permit_channel(self, remote: bytes, channel_id: str) -> bool:
        """Whether the allow-list lets a peer join a channel."""
        return self.access.allows_channel(remote, channel_id)

    def schemas_of(self, remote: bytes) -> frozenset[str] | None:
        """The schemas that the allow-list lets a peer replicate, and know of; None for all of them."""
        return self.access.schemas_of(remote)

    def permit(self, remote: bytes, message: Message) -> Message | None:
        """What a remote says, as far as the allow-list lets it."""
        allowed = self.access.schemas_of(remote)
        if allowed is None or not isinstance(message, Announce | SyncRequest):
            return message
        permitted = self.access.permitted(remote, message.schema_ids)
        if len(permitted) == len(message.schema_ids):
            return message
        self._driver.metrics.ignored["connector.access"] += 1
        _LIMITED.warning("peer %s asks for schemas that it is not allowed", remote.hex()[:16])
        if isinstance(message, SyncRequest):
            return None
        return dataclasses.replace(message, schema_ids=permitted)
