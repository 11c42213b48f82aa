"""Drives SDS over many connections: each is taken in, served and let go; `channels` has what happens in them.

What a key may use is one budget for all of its connections.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.sds.backbone import Backbone
from culm_connectors.sds.budgets import edge_budgets
from culm_connectors.sds.channels.joined import Channels, Permit
from culm_connectors.sds.connection import exchange
from culm_connectors.sds.link import LinkEnded, MemberLink, Unsent
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Connection

logger = logging.getLogger(__name__)
limited = LimitedLog(logger)


def permit_everything(remote: bytes, channel_id: str) -> bool:
    """The rule without an allow-list."""
    return True


class SdsDriver:
    """The connections that speak SDS. `run` must be running while they are served."""

    def __init__(
        self,
        backbone: Backbone,
        settings: SdsEdgeSettings | None = None,
        *,
        connector_id: bytes,
        permit: Permit = permit_everything,
        chance: random.Random | None = None,
    ) -> None:
        self.settings = settings or SdsEdgeSettings()
        self.channels = Channels(
            backbone, self.settings, connector_id=connector_id, permit=permit, chance=chance
        )
        self.metrics = self.channels.metrics
        self.links: dict[int, MemberLink] = {}
        self.unsent = Unsent(self.settings.max_unsent_bytes)
        self._budgets = edge_budgets(self.settings)
        self._left = asyncio.Event()

    async def run(self) -> None:
        """Keep what peers bring and let time pass, until cancelled."""
        await self.channels.run()

    async def serve(self, connection: Connection) -> None:
        """Speak SDS on an accepted connection until it ends; never raises for what the remote does."""
        now_s = time.monotonic()
        budget = self._budgets.of(connection.peer_id, now_s)
        is_refused = self._budgets.begin(connection.peer_id, now_s) is None
        link = MemberLink(connection, self.settings, budget, self.unsent, self._reads_too_slowly)
        self.links[id(link)] = link
        self.metrics.connections += 1
        self.metrics.connections_total += not is_refused
        try:
            if is_refused:
                ended = LinkEnded(CloseCode.OVERLOADED, "too many connections of this key")
            else:
                ended = await exchange(link, self.channels)
        except Exception:
            # A defect of ours must cost this connection only.
            logger.exception("serving %s failed", link.name)
            ended = LinkEnded(CloseCode.INTERNAL, "internal error")
        finally:
            self._drop(link)
            if not is_refused:
                self._budgets.end(link.remote)
        if ended.close_code is not CloseCode.NORMAL:
            counted = self.metrics.refused if is_refused else self.metrics.closed
            counted[ended.close_code.name.lower()] += 1
            limited.warning("closing the connection of %s: %s", link.name, ended)
        await connection.close(ended.close_code, str(ended))

    def let_go(self, link: MemberLink, code: CloseCode, reason: str) -> None:
        """Close a connection at once, if that has not been done."""
        if not link.letting_go:
            link.letting_go = True
            if link.connection.close_reason is None:  # else whoever ended it has counted it
                self.metrics.closed[code.name.lower()] += 1
            limited.log(logging.INFO, "closing the connection of %s: %s", link.name, reason)
            link.connection.abort(code, reason)

    def _reads_too_slowly(self, link: MemberLink) -> None:
        self.let_go(link, CloseCode.OVERLOADED, "what happens is not read in time")

    def judge_again(self) -> None:
        """Other rules are in force: connections in channels that they may not join any more are closed."""
        for link in tuple(self.links.values()):
            if not all(self.channels.permit(link.remote, channel_id) for channel_id in link.memberships):
                self.let_go(link, CloseCode.REVOKED, "this key is no longer allowed in a channel of it")

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until all that was taken from them is kept."""
        while self.links:
            for link in tuple(self.links.values()):
                self.let_go(link, CloseCode.SHUTTING_DOWN, reason)
            self._left.clear()
            await self._left.wait()
        await self.channels.staging.drained()

    def _drop(self, link: MemberLink) -> None:
        del self.links[id(link)]
        self.metrics.connections -= 1
        for member in tuple(link.memberships.values()):
            self.channels.leave(member)
        self.channels.asking.gone(link)
        link.gone()
        self._left.set()
