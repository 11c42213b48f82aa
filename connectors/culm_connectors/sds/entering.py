"""Joining a channel: who may, then what has been said, then what is said from now on.

A full participant hears what happens from the moment of its join on; the past since its cursor comes beside,
in the store's order, and at last the head. A hosted participant's client gets the channel's events in the
order of their numbers: the past is read until it has caught up with what is heard, then they come live.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import TYPE_CHECKING

from culm_connectors.sds.frames import Join, Joined, Mark, Refused, SdsMessage
from culm_connectors.sds.sessions import Link, LinkEnded, Membership
from culm_connectors.transport.codes import CloseCode
from culm_models.errors import CulmError

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
    link = member.link
    try:
        await driver.backbone.follow(member.channel_id)
    except CulmError as error:
        logger.warning("channels cannot be followed: %s", error)
        driver.metrics.rejects[error.code] += 1
        link.say(Refused(error.code, str(error), member.channel_id))
        member.entered.set()
        driver.leave(member)
        return
    member.following = True
    driver.room(member).enter(member)
    link.say(Joined(member.channel_id))
    member.entered.set()
    if not member.hosted:
        if frame.cursor is not None:
            await _read_history(member, frame.cursor, driver)
        member.live = True
        await driver.heads.tell(member, driver.room(member))
        return
    driver.staging.add(member.command("join", frame.settings), link)
    member.on_behind = lambda: read_events(member, driver)
    if frame.cursor is None and not frame.after:
        member.cursor, member.live = driver.backbone.present(member.channel_id), True
        link.say(Mark(member.channel_id, member.cursor, present=True))
        return
    member.last, member.cursor = frame.after, frame.cursor or b""
    await read_events(member, driver)


async def _read_history(member: Membership, cursor: bytes, driver: SdsDriver) -> None:
    link = member.link
    room = driver.room(member)
    async with (
        link.catching_up,
        driver.catching_up,
        contextlib.aclosing(driver.backbone.history(member.channel_id, cursor)) as pages,
    ):
        async for page in pages:
            for one in page.items:
                if one.profile != member.profile:
                    continue
                room.newest.add(one.lamport_timestamp, one.message_id)
                await _room(link, driver)
                link.say(SdsMessage(member.channel_id, one.wire, one.hint))
                driver.metrics.history_out += 1
            link.say(Mark(member.channel_id, page.cursor, page.present))


async def read_events(member: Membership, driver: SdsDriver) -> None:
    """Pass on events from where a member stands until it can hear them live."""
    link = member.link
    async with link.catching_up, driver.catching_up:
        while not member.live:
            async with contextlib.aclosing(driver.backbone.events(member.channel_id, member.cursor)) as pages:
                async for page in pages:
                    waited = False
                    for event, cursor in page.items:
                        waited |= await _room(link, driver)
                        driver.pass_on(member, event, cursor)
                    member.cursor = page.cursor
                    if page.present:
                        # What has come while we waited was not heard: the past is longer by that.
                        member.live = not waited
                        break
    link.say(Mark(member.channel_id, member.cursor, present=True))


async def _room(link: Link, driver: SdsDriver) -> bool:
    """Wait for room in the outbox; whether that took any time. Ends the connection that reads nothing."""
    if link.has_room:
        return False
    try:
        async with asyncio.timeout(driver.settings.stall_timeout_s):
            await link.room()
    except TimeoutError:
        raise LinkEnded(CloseCode.OVERLOADED, "the past is not read in time") from None
    return True
