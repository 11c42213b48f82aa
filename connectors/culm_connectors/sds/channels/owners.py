"""Owners of channels and participant ids, from `sds.owners`: what peers may join and send.

The job decides, by the order of its topics. What it has decided is known here before a join is answered; of
an id that nobody has used yet, the answer comes with the job's row.
"""

from __future__ import annotations

from typing import Final

from culm_models.sds.wire.messages import Profile
from culm_topics.sds.keys import split_owner_key
from culm_topics.sds.records import SdsOwnerRecord

Refusal = tuple[str, str]
"""A stable code and a text for people."""

_CHANNEL: Final = ""


class ChannelOwners:
    """The newest rows by channel and participant id, complete for the partitions that are followed."""

    def __init__(self) -> None:
        self._channels: dict[str, dict[str, SdsOwnerRecord]] = {}

    def take(self, key: bytes, value: bytes) -> tuple[str, str]:
        """Store an encoded row; returns its channel id and participant id ("" for the channel's own row).

        Raises `RecordError`: if the key or the row is malformed.
        """
        channel_id, participant_id = split_owner_key(key)
        self.put(channel_id, participant_id, SdsOwnerRecord.decode(value))
        return channel_id, participant_id

    def put(self, channel_id: str, participant_id: str, row: SdsOwnerRecord) -> None:
        """Store the newest row of a participant id, or of the channel itself ("")."""
        self._channels.setdefault(channel_id, {})[participant_id] = row

    def channel(self, channel_id: str) -> SdsOwnerRecord | None:
        """Return the channel's own row; None if the channel has had no members yet."""
        return self._channels.get(channel_id, {}).get(_CHANNEL)

    def refusal(
        self, channel_id: str, profile: Profile, participant_id: str, peer_id: bytes, *, hosted: bool
    ) -> Refusal | None:
        """Return why a key may not be in a channel as this participant; None if no known row forbids it."""
        rows = self._channels.get(channel_id, {})
        channel, owned = rows.get(_CHANNEL), rows.get(participant_id)
        if channel is not None and channel.profile != profile:
            return "sds.join.profile", f"the channel has profile {channel.profile}"
        if owned is None:
            return None
        if owned.role == "hosted" and not hosted:
            return "sds.join.hosted", "the participant id is that of a hosted participant: take another one"
        if owned.peer_id != peer_id:
            return "sds.join.owned", "the participant id belongs to another key"
        return None

    def is_admitted(self, channel_id: str, participant_id: str, peer_id: bytes) -> bool:
        """Whether a hosted participant belongs to this key."""
        owned = self._channels.get(channel_id, {}).get(participant_id)
        return owned is not None and owned.role == "hosted" and owned.peer_id == peer_id

    def may_send(self, channel_id: str, sender_id: str, peer_id: bytes) -> bool:
        """Whether a full participant may send new messages under a sender id."""
        owned = self._channels.get(channel_id, {}).get(sender_id) if sender_id else None
        return owned is None or (owned.role == "bound" and owned.peer_id == peer_id)
