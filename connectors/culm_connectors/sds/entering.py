"""Joining a channel: who may, then what has been said, then what is said from now on.

A full participant hears what happens from the moment of its join on; the past since its cursor comes beside,
in the store's order, and at last the head. A hosted participant's client gets the channel's events in the
order of their numbers: the past is read until it has caught up with what is heard, then they come live.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from culm_connectors.sds.frames import Join, Joined, Mark, SdsMessage
from culm_connectors.sds.sessions import Link, Membership

if TYPE_CHECKING:
    from culm_connectors.sds.driver import SdsDriver

logger = logging.getLogger(__name__)

_PEER_ID = re.compile(r"[0-9a-f]{64}")


def refusal_of(link: Link, frame: Join, driver: SdsDriver) -> tuple[str, str] | None:
    """Why somebody may not join, as a code and words; None where it may."""
    if frame.channel_id in link.memberships:
        return "sds.join.twice", "the channel is joined already on this connection"
    if len(link.memberships) >= driver.settings.max_channels:
        return "sds.join.too_many", f"at most {driver.settings.max_channels} channels a connection"
    if not driver.permit(link.remote, frame.channel_id):
        return "sds.join.refused", "this key may not join the channel"
    if _PEER_ID.fullmatch(frame.participant_id) and frame.participant_id != link.remote.hex():
        return "sds.join.identity", "the participant id is the peer id of another key"
    return None


async def enter(member: Membership, frame: Join, driver: SdsDriver) -> None:
    """Bring a member into its channel and up to the present."""
    await driver.backbone.follow(member.channel_id)
    member.following = True
    room = driver.room(member)
    room.enter(member)
    link = member.link
    link.say(Joined(member.channel_id))
    if not member.hosted:
        if frame.cursor is not None:
            await _read_history(member, frame.cursor, driver)
        member.live = True
        if room.newest.heads():
            driver.tell_head(member, room)
        return
    driver.staging.add(member.command("join", frame.settings), link)
    member.on_behind = lambda: read_events(member, driver)
    if frame.cursor is None and not frame.after:
        member.live = True
        return
    member.last, member.cursor = frame.after, frame.cursor or b""
    await read_events(member, driver)


async def _read_history(member: Membership, cursor: bytes, driver: SdsDriver) -> None:
    link = member.link
    room = driver.room(member)
    async with driver.catching_up:
        async for page in driver.backbone.history(member.channel_id, cursor):
            for one in page.items:
                if one.record.profile != member.profile:
                    continue
                room.newest.add(one.record.lamport_timestamp, one.record.message_id)
                await link.room()
                link.say(SdsMessage(member.channel_id, one.record.wire, one.retrieval_hint))
                driver.metrics.history_out += 1
            link.say(Mark(member.channel_id, page.cursor, page.present))


async def read_events(member: Membership, driver: SdsDriver) -> None:
    """Pass on events from where a member stands until it can hear them live."""
    link = member.link
    async with driver.catching_up:
        async for page in driver.backbone.events(member.channel_id, member.cursor):
            for event, cursor in page.items:
                await link.room()
                driver.pass_on(member, event, cursor)
            member.cursor = page.cursor
            if page.present:
                # Without a pause since the page was read: what comes now is heard.
                member.live = True
                link.say(Mark(member.channel_id, page.cursor, present=True))
                return
