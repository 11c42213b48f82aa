"""`sds.owners`: whose each channel is, and each participant id of it that belongs to a key.

Compacted: the last record of a key counts, and there are no tombstones. The job decides by the order of its
input, and connectors hold what peers say to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from culm_models.sds.wire.messages import Profile
from culm_topics.records.keys import PEER_ID_SIZE
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    choice_size,
    dump,
    load_array,
    optional_bytes_size,
    uint_size,
)
from culm_topics.sds.records.shape import PROFILES, require_peer_id

OwnedRole = Literal["channel", "hosted", "bound"]
"""A channel itself; an id that the job hosts, or has hosted; a full participant's sender id, where the
channel binds those to keys."""

OWNED_ROLES: tuple[OwnedRole, ...] = get_args(OwnedRole)
_NAME = "sds.owners"


@dataclass(frozen=True, slots=True)
class SdsOwnerRecord:
    """Value of `sds.owners`; its key is the channel's id, and the participant's (`owner_key`).

    `peer_id` is the key that owns it; none: the operator. `profile` is the channel's. `time_ms`: since when.
    """

    role: OwnedRole
    profile: Profile
    peer_id: bytes | None
    time_ms: int

    def encode(self) -> bytes:
        """`[1, role, profile, peer_id, time_ms]`."""
        require_peer_id(_NAME, self.peer_id)
        return dump(FORMAT, self.role, self.profile, self.peer_id, self.time_ms)

    @staticmethod
    def decode(value: bytes | None) -> SdsOwnerRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, role, profile, peer_id, time_ms = load_array(value, _NAME, 5)
        size = (
            2
            + choice_size(_NAME, "role", role, OWNED_ROLES)
            + choice_size(_NAME, "profile", profile, PROFILES)
            + optional_bytes_size(_NAME, "peer_id", peer_id, PEER_ID_SIZE)
            + uint_size(_NAME, "time_ms", time_ms)
        )
        check_size(value, size, _NAME)
        return SdsOwnerRecord(role, profile, peer_id, time_ms)
