"""Channels with members at this edge, and the exchange among the members and with Kafka.

A full participant's message goes at once to the other full participants of its channel here, and into
`sds.in` for the job and the other connectors. Messages from the backbone go to members in the same way.
Unread data of a peer is not buffered forever: a peer that is too slow for live messages is disconnected and
has to connect again; history waits for capacity.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.sds.backbone import Backbone, OutgoingRecord
from culm_connectors.sds.channels.heads import Heads
from culm_connectors.sds.channels.members import ChannelMembers, Newest, Passed
from culm_connectors.sds.history.replay_limiter import ReplayLimiter
from culm_connectors.sds.history.retrieval import Retrieval
from culm_connectors.sds.link import MemberLink, Membership, Staging
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_models.sds.errors import SdsError
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import EventFrame, Refused, SdsMessage
from culm_models.sds.wire.codec import Decoder
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from culm_topics.sds.records import SdsEventRecord, SdsFetchRecord, SdsInRecord

logger = logging.getLogger(__name__)
limited = LimitedLog(logger)

Permit = Callable[[bytes, str], bool]
"""Whether a peer (by its id) may join a channel."""

_PROFILES: tuple[Profile, ...] = ("spec", "js", "nim")
# What the job says of a join that lost a race, in the words that it would have been refused with here.
_JOIN_CODES = {
    "sds.participant.owned": "sds.join.owned",
    "sds.participant.full": "sds.join.full",
    "sds.profile": "sds.join.profile",
}


class Channels:
    """State that all connections of SDS share. `run` must be running while they are served."""

    def __init__(
        self,
        backbone: Backbone,
        settings: SdsEdgeSettings,
        *,
        connector_id: bytes,
        permit: Permit,
        chance: random.Random | None = None,
    ) -> None:
        self.backbone = backbone
        self.settings = settings
        self.permit = permit
        self.metrics = SdsMetrics()
        self.open_channels: dict[tuple[str, Profile], ChannelMembers] = {}
        self.staging = Staging(backbone, settings, self.metrics)
        self.asking = Retrieval(backbone, settings, self.metrics)
        self.heads = Heads(backbone, settings, self.metrics)
        self.turns = ReplayLimiter(settings.max_catching_up, settings.turn_s)
        self._passed = Passed()
        self._connector_id = connector_id
        self._decoders = {profile: Decoder(profile) for profile in _PROFILES}
        self._chance = chance or random.Random()
        self._fetches: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Store what peers send and run the timers, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.staging.run(), name="sds-store")
                group.create_task(self.heads.run(self.open_channels.values()), name="sds-heads")
        finally:
            for task in self._fetches:
                task.cancel()

    @property
    def is_fetching(self) -> bool:
        """Whether a search for messages that the job is missing is running."""
        return bool(self._fetches)

    # Who is in.

    def channel_of(self, member: Membership) -> ChannelMembers:
        """Return the channel of a member; creates it if it does not exist."""
        key = (member.channel_id, member.profile)
        channel = self.open_channels.get(key)
        if channel is None:
            channel = self.open_channels[key] = ChannelMembers(
                *key, Newest(self.settings.head_size), self._passed
            )
            self.metrics.channels = len(self.open_channels)
        return channel

    def join(self, member: Membership) -> None:
        """Add the membership of a connection that is about to enter a channel."""
        member.link.memberships[member.channel_id] = member
        member.link.budget.memberships += 1
        self.metrics.memberships += 1

    def leave(self, member: Membership) -> None:
        """Remove the membership of a connection that leaves a channel."""
        if member.link.memberships.pop(member.channel_id, None) is None:
            return
        for task in member.tasks:
            task.cancel()
        member.link.budget.memberships -= 1
        self.metrics.memberships -= 1
        if member.following:
            self.backbone.unfollow(member.channel_id)
        channel = self.open_channels.get((member.channel_id, member.profile))
        if channel is not None:
            channel.leave(member)
            if channel.is_empty:
                del self.open_channels[member.channel_id, member.profile]
                self.metrics.channels = len(self.open_channels)

    def decode(self, profile: Profile, data: bytes) -> Message:
        """Decode a message of a profile. Raises `SdsError`."""
        return self._decoders[profile].decode(data)

    def bring(
        self,
        member: Membership | None,
        channel: ChannelMembers,
        message: Message,
        data: bytes,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Send a message to the other members here at once, and to everybody else through Kafka."""
        link = member.link if member is not None else None
        self._relay(channel, message, data, None, but=link)
        record = SdsInRecord(
            channel.profile, data, None if link is None else link.remote, None, self._connector_id
        )
        self.staging.add(OutgoingRecord(channel.channel_id, record), link, done)

    def _relay(
        self,
        channel: ChannelMembers,
        message: Message,
        data: bytes,
        hint: bytes | None,
        *,
        but: MemberLink | None = None,
    ) -> None:
        channel.quiet_since_s = time.monotonic()
        if message.kind == "content" and message.lamport_timestamp is not None:
            channel.note(message.message_id, message.lamport_timestamp)
        frame = wire.encode(SdsMessage(channel.channel_id, data, hint)) if channel.full else b""
        for member in tuple(channel.full.values()):
            if member.link is not but and member.link.put(frame):
                self.metrics.messages_out += 1
        if message.kind == "ephemeral" and channel.hosted:
            event = wire.encode(_ephemeral_frame(message))
            for member in tuple(channel.hosted.values()):
                if member.link is not but and member.link.put(event):
                    self.metrics.events_out += 1

    async def may_send(self, member: Membership, message: Message, data: bytes) -> bool:
        """Whether a full participant may send this: under its own id, or as a copy of a stored message."""
        channel_id, link = member.channel_id, member.link
        if self.backbone.owners.may_send(channel_id, message.sender_id, link.remote):
            return True
        wait_s = link.budget.lookups.wait_s(1, time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        stored = await self.backbone.find(channel_id, [HistoryEntry(message.message_id)])
        return any(stored_message.wire == data for stored_message in stored)

    def dismiss(self, member: Membership, code: str, reason: str) -> None:
        """Remove a member that may not stay, and send it the refusal."""
        self.metrics.rejects[code] += 1
        member.link.send(Refused(code, reason, member.channel_id))
        self.leave(member)

    # What the backbone hears.

    def owned(self, channel_id: str, participant_id: str) -> None:
        """Admit or remove members after the owner of an id, or of the channel (""), has become known."""
        for profile in _PROFILES:
            channel = self.open_channels.get((channel_id, profile))
            if channel is None:
                continue
            for member in (*channel.hosted.values(), *channel.full.values()):
                if participant_id not in ("", member.participant_id):
                    continue
                owners, key = self.backbone.owners, member.link.remote
                refusal = owners.refusal(
                    channel_id, profile, member.participant_id, key, hosted=member.hosted
                )
                if refusal is not None:
                    self.dismiss(member, *refusal)
                elif member.hosted and owners.is_admitted(channel_id, member.participant_id, key):
                    member.admitted.set()

    def _join_refused(self, channel: ChannelMembers, event: SdsEventRecord) -> None:
        """Remove the member whose join the job refused; no other member is informed."""
        for member in tuple(channel.hosted.values()):
            if member.join_token and member.join_token == event.details.get("token"):
                code = str(event.details.get("code"))
                self.dismiss(member, _JOIN_CODES.get(code, code), str(event.details.get("reason")))

    def received(
        self, channel_id: str, profile: Profile, data: bytes, retrieval_hint: bytes | None = None
    ) -> None:
        """Relay a message that came from another connector or from the job."""
        channel = self.open_channels.get((channel_id, profile))
        if channel is None:
            return
        try:
            message = self.decode(profile, data)
        except SdsError as error:
            self.metrics.rejects[error.code] += 1
            return
        self.metrics.messages_heard += 1
        self._relay(channel, message, data, retrieval_hint)

    def happened(self, channel_id: str, event: SdsEventRecord, cursor: bytes) -> None:
        """Pass an event of the job on to the hosted participants' clients."""
        for profile in _PROFILES:
            channel = self.open_channels.get((channel_id, profile))
            if channel is None:
                continue
            if _is_join_refused(event):
                self._join_refused(channel, event)
            for member in tuple(channel.hosted.values()):
                if not member.live:
                    continue
                if member.last is not None and event.number > member.last + 1:
                    # Something in between was not heard: it is read from where this one stands.
                    member.live = False
                    member.behind()
                else:
                    self.pass_on(member, event, cursor)

    def pass_on(self, member: Membership, event: SdsEventRecord, cursor: bytes) -> None:
        """Send an event to a hosted participant's client unless the client has received it already."""
        if member.last is not None and event.number <= member.last:
            return
        if _concerns(member, event) and member.link.send(_event_frame(member.channel_id, event, cursor)):
            self.metrics.events_out += 1
        member.last, member.cursor = event.number, cursor

    def wanted(self, channel_id: str, record: SdsFetchRecord) -> None:
        """Look for messages that the job is missing, if there are members of the channel here."""
        channel = self.open_channels.get((channel_id, record.profile))
        if channel is None or len(self._fetches) >= self.settings.max_job_fetches:
            return
        task = asyncio.get_running_loop().create_task(self._fetch_for_job(channel, record))
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)

    async def _fetch_for_job(self, channel: ChannelMembers, record: SdsFetchRecord) -> None:
        try:
            await asyncio.sleep(self._chance.uniform(0, self.settings.job_fetch_spread_s))
            entries = [entry for entry in record.entries if not channel.has_passed(entry.message_id)]
            if not entries:
                return
            for message in await self.asking.find(channel, entries, peers=record.attempt > 1):
                answer = SdsInRecord(
                    channel.profile, message.wire, message.peer_id, message.hint, self._connector_id
                )
                self.staging.add(OutgoingRecord(channel.channel_id, answer))
        except Exception:
            logger.exception("looking for what the job is missing in a channel failed")


def _event_frame(channel_id: str, event: SdsEventRecord, cursor: bytes) -> EventFrame:
    """Return the frame of an event of the job, with the cursor behind the event."""
    return EventFrame(
        channel_id,
        event.number,
        event.kind,
        event.participant_id,
        event.message_id,
        event.time_ms,
        event.details,
        event.content,
        cursor,
    )


def _ephemeral_frame(message: Message) -> EventFrame:
    """Return the event frame of an ephemeral message, which is not stored and so has no number."""
    return EventFrame(
        message.channel_id,
        None,
        "delivered",
        None,
        message.message_id,
        time.time_ns() // 1_000_000,
        {"sender_id": message.sender_id, "ephemeral": True},
        message.content,
    )


def _concerns(member: Membership, event: SdsEventRecord) -> bool:
    """Whether an event is of the channel or of the participant itself, including messages delivered to it.

    An ephemeral message has already arrived on the live path.
    """
    if event.kind == "delivered" and event.details.get("ephemeral") is True:
        return False
    if _is_join_refused(event):
        return False
    return event.participant_id in (None, member.participant_id)


def _is_join_refused(event: SdsEventRecord) -> bool:
    """Whether the job refused a join. Only the member that tried receives it, not the id's owner."""
    return event.kind == "rejected" and event.details.get("command") == "join"
