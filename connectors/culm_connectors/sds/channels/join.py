"""Joining a channel: the check of the join, then the channel's history, then its live messages.

A full participant receives live messages from its join on. At the same time it receives the history since its
cursor, in the order of the store, and at the end the head. The client of a hosted participant receives the
events of the channel in the order of their numbers: first the history, and live events once it has caught up.

Members take turns to read history. While a remote has no capacity, at most one page is kept for it, and it
does not occupy a turn.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections import deque

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.sds.backbone import EventAt
from culm_connectors.sds.channels.joined import Channels
from culm_connectors.sds.channels.members import ChannelMembers
from culm_connectors.sds.link import MemberLink, Membership
from culm_models.errors import CulmError
from culm_models.sds.frames.messages import Join, Joined, Mark, Refused, SdsMessage
from culm_topics.sds.store import StoredMessage

limited = LimitedLog(logging.getLogger(__name__))

_PEER_ID = re.compile(r"[0-9a-f]{64}")


def refusal_of(link: MemberLink, frame: Join, channels: Channels) -> tuple[str, str] | None:
    """Return why a join is refused, as a code and a text; None if it is accepted."""
    if frame.channel_id in link.memberships:
        return "sds.join.twice", "the channel is joined already on this connection"
    if len(link.memberships) >= channels.settings.max_channels:
        return "sds.join.too_many", f"at most {channels.settings.max_channels} channels a connection"
    if link.budget.memberships >= channels.settings.max_memberships:
        return "sds.join.too_many", f"at most {channels.settings.max_memberships} channels a key"
    if not channels.permit(link.remote, frame.channel_id):
        return "sds.join.refused", "this key may not join the channel"
    if _PEER_ID.fullmatch(frame.participant_id) and frame.participant_id != link.remote.hex():
        return "sds.join.identity", "the participant id is the peer id of another key"
    return None


async def enter(member: Membership, frame: Join, channels: Channels) -> None:
    """Add a member to its channel and let it catch up."""
    link = member.link
    try:
        await channels.backbone.follow(member.channel_id)
    except CulmError as error:
        limited.warning("channels cannot be followed: %s", error)
        channels.metrics.rejects[error.code] += 1
        link.send(Refused(error.code, str(error), member.channel_id))
        member.entered.set()
        channels.leave(member)
        return
    member.following = True
    refusal = _owned_refusal(member, channels)
    if refusal is not None:
        channels.dismiss(member, *refusal)
        member.entered.set()
        return
    channels.channel_of(member).enter(member)
    if not member.hosted and channels.backbone.owners.channel(member.channel_id) is None:
        await _open(member, channels)
    link.send(Joined(member.channel_id))
    member.entered.set()
    cursor, after = frame.cursor, frame.after
    if member.hosted:
        await channels.staging.wait_for_capacity(link)
        channels.staging.add(member.command("join", frame.settings), link)
        # Settings of many joins that wait for a turn would add up.
        del frame
        await _enter_hosted(member, cursor, after, channels)
        return
    del frame
    if cursor is not None:
        await _read_history(member, cursor, channels)
    member.live = True
    await channels.heads.send(member, channels.channel_of(member))


async def _enter_hosted(member: Membership, cursor: bytes | None, after: int, channels: Channels) -> None:
    is_from_now = cursor is None and not after
    member.cursor = channels.backbone.present(member.channel_id) if is_from_now else cursor or b""
    if is_from_now:
        # Whose connection breaks before it is known whose the id is comes back to this place.
        member.link.send(Mark(member.channel_id, member.cursor, present=True))
    # Private events of the participant are for its key alone.
    channels.owned(member.channel_id, member.participant_id)
    is_at_once = member.admitted.is_set()
    await member.admitted.wait()
    member.on_behind = lambda: read_events(member, channels)
    if is_from_now and is_at_once:
        member.live = True
        return
    if not is_from_now:
        member.last = after
    await read_events(member, channels)


def _owned_refusal(member: Membership, channels: Channels) -> tuple[str, str] | None:
    channel_id, participant_id = member.channel_id, member.participant_id
    wanted = channels.settings.profile_of(channel_id)
    if wanted not in (None, member.profile):
        return "sds.join.profile", f"the channel has profile {wanted}"
    refusal = channels.backbone.owners.refusal(
        channel_id, member.profile, participant_id, member.link.remote, hosted=member.hosted
    )
    if refusal is not None:
        return refusal
    channel = channels.channel_of(member)
    others = channel.full if member.hosted else channel.hosted
    if any(other.participant_id == participant_id for other in others.values()):
        code = "sds.join.full" if member.hosted else "sds.join.hosted"
        return code, "one participant id cannot be a full and a hosted participant at once"
    return None


async def _open(member: Membership, channels: Channels) -> None:
    """Tell the job the profile of a new channel before any message of its first member."""
    await channels.staging.wait_for_capacity(member.link)
    channels.staging.add(member.command("open"), member.link)


async def _read_history(member: Membership, cursor: bytes, channels: Channels) -> None:
    link, channel = member.link, channels.channel_of(member)
    end = b""
    present = False
    while not present:
        await link.wait_for_capacity()
        left: deque[StoredMessage] = deque()
        async with (
            channels.turns.turn(link.budget) as turn,
            contextlib.aclosing(channels.backbone.history(member.channel_id, cursor, end)) as pages,
        ):
            async for page in pages:
                cursor, end, present = page.cursor, page.end, page.present
                left.extend(message for message in page.items if message.profile == member.profile)
                while left and link.has_capacity:
                    _pass_on_stored(member, channel, left.popleft(), channels)
                if left:
                    break
                link.send(Mark(member.channel_id, cursor, present))
                if turn.is_over:
                    break
        if left:
            while left:
                await link.wait_for_capacity()
                _pass_on_stored(member, channel, left.popleft(), channels)
            link.send(Mark(member.channel_id, cursor, present))


def _pass_on_stored(
    member: Membership, channel: ChannelMembers, message: StoredMessage, channels: Channels
) -> None:
    channel.newest.add(message.lamport_timestamp, message.message_id)
    member.link.send(SdsMessage(member.channel_id, message.wire, message.hint))
    channels.metrics.history_out += 1


async def read_events(member: Membership, channels: Channels) -> None:
    """Send events from a member's cursor on until it can receive them live."""
    link = member.link
    expected: int | None = None
    while not member.live:
        await link.wait_for_capacity()
        left: deque[EventAt] = deque()
        async with (
            channels.turns.turn(link.budget) as turn,
            contextlib.aclosing(
                channels.backbone.events(member.channel_id, member.cursor, expected)
            ) as pages,
        ):
            async for page in pages:
                left.extend(page.items)
                while left and link.has_capacity:
                    channels.pass_on(member, *left.popleft())
                if left:
                    break
                member.cursor = page.cursor
                if page.present:
                    # Nothing was waited for since the page was read: what comes next is heard.
                    member.live = True
                    break
                if turn.is_over:
                    break
        while left:
            await link.wait_for_capacity()
            channels.pass_on(member, *left.popleft())
        if member.last:
            # What is read next goes on from there, also where a hole is still to be filled.
            expected = member.last + 1
    link.send(Mark(member.channel_id, member.cursor, present=True))
