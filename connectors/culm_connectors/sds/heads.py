"""The trailing edge of channels: full participants are told the newest messages, to ask for what they lack.

After a join, when somebody asks, and once whenever a channel has fallen silent with other newest messages
than were told before: a message that no later one has named yet is missed by nobody for long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from culm_connectors.sds.backbone import Backbone
from culm_connectors.sds.frames import Head, Mark
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.rooms import Room
from culm_connectors.sds.sessions import Membership
from culm_connectors.sds.settings import SdsEdgeSettings

_ROOMS_AT_ONCE = 256


class Heads:
    """Tells heads. `run` must be running."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._settings = settings
        self._metrics = metrics

    async def tell(self, member: Membership, room: Room) -> None:
        """Tell one full participant."""
        await self._refresh([room])
        self._say(member, room)

    async def run(self, rooms: Collection[Room]) -> None:
        """Tell the members of channels that have fallen silent, for ever; `rooms` changes meanwhile."""
        while True:
            await asyncio.sleep(self._settings.tick_interval_s)
            before_s = time.monotonic() - self._settings.head_idle_s
            quiet = [
                room
                for room in rooms
                if room.full and room.quiet_since_s <= before_s and room.checked_s <= before_s
            ]
            for start in range(0, len(quiet), _ROOMS_AT_ONCE):
                await self._tell_quiet(quiet[start : start + _ROOMS_AT_ONCE])

    def _say(self, member: Membership, room: Room) -> None:
        if member.link.say(Head(room.channel_id, room.newest.heads())):
            self._metrics.heads_out += 1

    async def _refresh(self, rooms: Sequence[Room]) -> None:
        """Add to what has passed here what the store holds."""
        found = await self._backbone.heads([room.channel_id for room in rooms])
        for room in rooms:
            for head in found.get(room.channel_id, ()):
                room.newest.add(*head)

    async def _tell_quiet(self, rooms: Sequence[Room]) -> None:
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
