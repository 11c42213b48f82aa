"""Heads of channels: full participants receive the newest message ids and request what they are missing.

After a join, when somebody asks, and once whenever a channel has fallen silent with other newest messages
than were told before: a message that no later one has named yet is missed by nobody for long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from culm_connectors.sds.backbone import Backbone
from culm_connectors.sds.channels.members import ChannelMembers
from culm_connectors.sds.link import Membership
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_models.sds.frames.messages import Head, Mark

_ROOMS_AT_ONCE = 256


class Heads:
    """Sends heads. `run` must be running."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._settings = settings
        self._metrics = metrics

    async def send(self, member: Membership, room: ChannelMembers) -> None:
        """Send the head of a channel to one full participant."""
        await self._refresh([room])
        self._say(member, room)

    async def run(self, rooms: Collection[ChannelMembers]) -> None:
        """Send heads to members of channels that have fallen silent, until cancelled; `rooms` may change."""
        while True:
            await asyncio.sleep(self._settings.tick_interval_s)
            before_s = time.monotonic() - self._settings.head_idle_s
            quiet = [
                room
                for room in rooms
                if room.full and room.quiet_since_s <= before_s and room.checked_s <= before_s
            ]
            for start in range(0, len(quiet), _ROOMS_AT_ONCE):
                await self._send_to_quiet(quiet[start : start + _ROOMS_AT_ONCE])

    def _say(self, member: Membership, room: ChannelMembers) -> None:
        if member.link.say(Head(room.channel_id, room.newest.heads())):
            self._metrics.heads_out += 1

    async def _refresh(self, rooms: Sequence[ChannelMembers]) -> None:
        """Add the newest messages of the store to those seen here."""
        found = await self._backbone.heads([room.channel_id for room in rooms])
        for room in rooms:
            for head in found.get(room.channel_id, ()):
                room.newest.add(*head)

    async def _send_to_quiet(self, rooms: Sequence[ChannelMembers]) -> None:
        await self._refresh(rooms)
        for room in rooms:
            room.checked_s = time.monotonic()
            heads = room.newest.heads()
            if heads == room.told:
                continue
            room.told = heads
            cursor = self._backbone.mark(room.channel_id)
            for member in tuple(room.full.values()):
                self._say(member, room)
                if cursor is not None and member.live:
                    member.link.say(Mark(room.channel_id, cursor, present=True))
