"""Search for missing messages: in the store, then at peers that are in the channel.

What peers answer is taken only where it was asked for: a message of this channel with a wanted id.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from culm_connectors.sds.backbone import Backbone
from culm_connectors.sds.channels.members import ChannelMembers
from culm_connectors.sds.errors import OwnedSenderError
from culm_connectors.sds.link import MemberLink, Membership
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_models.sds.errors import SdsError
from culm_models.sds.frames.codec import DEFAULT_MAX_FRAME_BYTES
from culm_models.sds.frames.messages import MAX_ENTRIES, Fetch, Fetched
from culm_models.sds.wire.codec import decode
from culm_models.sds.wire.messages import HistoryEntry

Wire = tuple[bytes, bytes | None]
"""A message and the hint under which the store has it."""


class Found(NamedTuple):
    """A message, the hint under which the store has it, and the peer that sent it (None: the store)."""

    wire: bytes
    hint: bytes | None
    peer_id: bytes | None


_MAX_ASKED = 1_024
_FRAME_MARGIN = 64
# Of answers to all questions under way; what comes beyond is not taken, and is asked for again later.
_MAX_ANSWER_BYTES = 32 * 1024 * 1024


@dataclass(slots=True)
class _Asked:
    """One question to several peers."""

    channel: ChannelMembers
    wanted: set[str]
    links: set[int]
    found: dict[str, Found] = field(default_factory=dict)
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Retrieval:
    """Answers requests for messages; the number of requests under way is bounded."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._settings = settings
        self._metrics = metrics
        self._asked: dict[int, _Asked] = {}
        self._answer_bytes = 0
        self._numbers = itertools.count()

    async def find(
        self,
        channel: ChannelMembers,
        entries: Sequence[HistoryEntry],
        *,
        but: MemberLink | None = None,
        peers: bool = True,
    ) -> list[Found]:
        """Return the messages that the store or a member can supply now; `but` is the link that asked."""
        stored = await self._backbone.find(channel.channel_id, entries)
        wires = [Found(message.wire, message.hint, None) for message in stored]
        self._metrics.lookups["store"] += len(stored)
        have = {message.message_id for message in stored}
        missing = [entry for entry in entries if entry.message_id not in have]
        if missing and peers:
            answers = await self._ask(channel, missing[:MAX_ENTRIES], but)
            self._metrics.lookups["peer"] += len(answers)
            wires += answers
        self._metrics.lookups["nowhere"] += len(entries) - len(wires)
        return wires

    async def _ask(
        self, channel: ChannelMembers, entries: Sequence[HistoryEntry], but: MemberLink | None
    ) -> list[Found]:
        members = self._whom(channel, entries, but)
        if not members or len(self._asked) >= _MAX_ASKED:
            return []
        number = next(self._numbers)
        asked = self._asked[number] = _Asked(
            channel, {entry.message_id for entry in entries}, {id(member.link) for member in members}
        )
        try:
            question = Fetch(channel.channel_id, number, tuple(entries))
            for member in members:
                if not member.link.send(question):
                    asked.links.discard(id(member.link))
            if asked.links:
                async with asyncio.timeout(self._settings.ask_timeout_s):
                    await asked.settled.wait()
        except TimeoutError:
            pass
        finally:
            del self._asked[number]
            self._answer_bytes -= sum(len(answer.wire) for answer in asked.found.values())
        return list(asked.found.values())

    def _whom(
        self, channel: ChannelMembers, entries: Iterable[HistoryEntry], but: MemberLink | None
    ) -> list[Membership]:
        """Return the members to ask: first the writers of the messages, then the oldest members."""
        writers = {entry.sender_id for entry in entries}
        others = [member for member in channel.full.values() if member.link is not but]
        others.sort(key=lambda member: member.participant_id not in writers)
        return others[: self._settings.asked_peers]

    def answered(self, link: MemberLink, frame: Fetched) -> bool:
        """Take a peer's answer; returns False if the peer was not asked."""
        asked = self._asked.get(frame.request)
        if asked is None or id(link) not in asked.links or asked.channel.channel_id != frame.channel_id:
            return False
        for wire, _ in frame.wires:
            try:
                message = decode(wire, asked.channel.profile)
            except SdsError as error:
                self._metrics.rejects[error.code] += 1
                continue
            wanted = message.channel_id == frame.channel_id and message.message_id in asked.wanted
            if not wanted or message.message_id in asked.found:
                continue
            if self._answer_bytes + len(wire) > _MAX_ANSWER_BYTES:
                self._metrics.rejects["sds.fetch.too_much"] += 1
                break
            # What a hosted participant has sent the store has: others can only invent more of it.
            if not self._backbone.owners.may_send(frame.channel_id, message.sender_id, link.remote):
                self._metrics.rejects[OwnedSenderError.code] += 1
                continue
            asked.found[message.message_id] = Found(wire, None, link.remote)
            self._answer_bytes += len(wire)
        if not frame.more:
            asked.links.discard(id(link))
        if len(asked.found) == len(asked.wanted) or not asked.links:
            asked.settled.set()
        return True

    def gone(self, link: MemberLink) -> None:
        """Stop waiting for answers of a peer that has left."""
        for asked in self._asked.values():
            asked.links.discard(id(link))
            if not asked.links:
                asked.settled.set()


def cut(
    channel_id: str,
    request: int,
    wires: Sequence[Wire],
    max_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    *,
    more: bool = False,
) -> list[Fetched]:
    """Split an answer into frames of at most `max_bytes`; a message that fits in no frame is left out.

    `more`: another part of it follows.
    """
    frames: list[Fetched] = []
    part: list[Wire] = []
    size = 0
    max_wire_bytes = max_bytes - len(channel_id.encode()) - _FRAME_MARGIN
    for wire in wires:
        wire_size = len(wire[0]) + len(wire[1] or b"") + _FRAME_MARGIN
        if wire_size > max_wire_bytes:
            continue
        if part and (size + wire_size > max_wire_bytes or len(part) == MAX_ENTRIES):
            frames.append(Fetched(channel_id, request, tuple(part), more=True))
            part, size = [], 0
        part.append(wire)
        size += wire_size
    return [*frames, Fetched(channel_id, request, tuple(part), more)]
