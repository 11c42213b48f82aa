"""Heads of channels: full participants receive the newest message ids and request what they are missing.

A head is sent after a join, on request, and once whenever a channel has become quiet and its newest messages
differ from those sent before. So a message that no later message names yet is not missed for long.
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

_CHANNELS_AT_ONCE = 256


class Heads:
    """Sends heads. `run` must be running."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._settings = settings
        self._metrics = metrics

    async def send(self, member: Membership, channel: ChannelMembers) -> None:
        """Send the head of a channel to one full participant."""
        await self._refresh([channel])
        self._send_heads(member, channel)

    async def run(self, channels: Collection[ChannelMembers]) -> None:
        """Send heads to members of channels that are quiet, until cancelled; `channels` may change."""
        while True:
            await asyncio.sleep(self._settings.tick_interval_s)
            before_s = time.monotonic() - self._settings.head_idle_s
            quiet = [
                channel
                for channel in channels
                if channel.full and channel.quiet_since_s <= before_s and channel.checked_s <= before_s
            ]
            for start in range(0, len(quiet), _CHANNELS_AT_ONCE):
                await self._send_to_quiet(quiet[start : start + _CHANNELS_AT_ONCE])

    def _send_heads(self, member: Membership, channel: ChannelMembers) -> None:
        if member.link.send(Head(channel.channel_id, channel.newest.heads())):
            self._metrics.heads_out += 1

    async def _refresh(self, channels: Sequence[ChannelMembers]) -> None:
        """Add the newest messages of the store to those seen here."""
        heads_of_channel = await self._backbone.heads([channel.channel_id for channel in channels])
        for channel in channels:
            for head in heads_of_channel.get(channel.channel_id, ()):
                channel.newest.add(*head)

    async def _send_to_quiet(self, channels: Sequence[ChannelMembers]) -> None:
        await self._refresh(channels)
        for channel in channels:
            channel.checked_s = time.monotonic()
            heads = channel.newest.heads()
            if heads == channel.last_sent:
                continue
            channel.last_sent = heads
            cursor = self._backbone.mark(channel.channel_id)
            for member in tuple(channel.full.values()):
                self._send_heads(member, channel)
                if cursor is not None and member.live:
                    member.link.send(Mark(channel.channel_id, cursor, present=True))
