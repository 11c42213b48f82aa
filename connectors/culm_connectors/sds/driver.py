"""Drives SDS over many connections: each is taken in, served and let go; `channels` has what happens in them.

What a key may use is one budget for all of its connections.
"""

from __future__ import annotations

import random
import time

from culm_connectors.edge.serving import Links
from culm_connectors.sds.backbone import Backbone
from culm_connectors.sds.budgets import edge_budgets
from culm_connectors.sds.channels.joined import Channels, Permit
from culm_connectors.sds.connection import exchange
from culm_connectors.sds.link import MemberLink, Unsent
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Connection


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
        self.links = Links[MemberLink](self.metrics, id, self._on_gone)
        self.unsent = Unsent(self.settings.max_unsent_bytes)
        self._budgets = edge_budgets(self.settings)

    async def run(self) -> None:
        """Keep what peers bring and let time pass, until cancelled."""
        await self.channels.run()

    async def serve(self, connection: Connection) -> None:
        """Speak SDS on an accepted connection until it ends; never raises for what the remote does."""
        budget = self._budgets.begin(connection.peer_id, time.monotonic())
        if budget is None:
            self.links.refuse(connection, CloseCode.OVERLOADED, "too many connections of this key")
            return
        link = MemberLink(connection, self.settings, budget, self.unsent, self._reads_too_slowly)
        self.links.begin(link)
        await self.links.serve(link, lambda link: exchange(link, self.channels))

    def _reads_too_slowly(self, link: MemberLink) -> None:
        self.links.end(link, CloseCode.OVERLOADED, "what happens is not read in time")

    def judge_again(self) -> None:
        """Other rules are in force: connections in channels that they may not join any more are closed."""
        for link in tuple(self.links.open.values()):
            if not all(self.channels.permit(link.remote, channel_id) for channel_id in link.memberships):
                self.links.end(link, CloseCode.REVOKED, "this key is no longer allowed in a channel of it")

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until all that was taken from them is kept."""
        await self.links.finish(reason)
        await self.channels.staging.drained()

    def _on_gone(self, link: MemberLink) -> None:
        self._budgets.end(link.remote)
        for member in tuple(link.memberships.values()):
            self.channels.leave(member)
        self.channels.asking.gone(link)
        link.gone()
