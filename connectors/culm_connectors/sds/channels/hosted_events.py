"""What clients of hosted participants are told: the job's events, and ephemeral messages on the live path."""

from __future__ import annotations

import time

from culm_connectors.sds.link import Membership
from culm_models.sds.frames.messages import EventFrame
from culm_models.sds.wire.messages import Message
from culm_topics.sds.records import SdsEventRecord


def event_frame(channel_id: str, event: SdsEventRecord, cursor: bytes) -> EventFrame:
    """An event of the job; the cursor is the one behind it."""
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


def ephemeral_frame(message: Message) -> EventFrame:
    """An ephemeral message: nothing keeps it, so it has no number."""
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


def concerns(member: Membership, event: SdsEventRecord) -> bool:
    """Events of the channel, and of the participant itself; what other hosted ones say is delivered too.

    An ephemeral message has come on the live path already.
    """
    if event.kind == "delivered" and event.details.get("ephemeral") is True:
        return False
    if is_join_refused(event):
        return False
    return event.participant_id in (None, member.participant_id)


def is_join_refused(event: SdsEventRecord) -> bool:
    """Whether the job tells that it did not let somebody in: that one is told, not whose the id is."""
    return event.kind == "rejected" and event.details.get("command") == "join"
