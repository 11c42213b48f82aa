"""Members and newest messages of the channels that have members at this edge."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from dataclasses import dataclass, field

from culm_connectors.sds.link import Membership
from culm_models.sds.wire.messages import Profile

_PASSED_IDS = 65_536


class Newest:
    """The newest messages of a channel that are known here, at most `size`, by (Lamport, id)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heads: list[tuple[int, str]] = []

    def add(self, lamport_timestamp: int, message_id: str) -> bool:
        """Add a message; returns True if it is one of the newest and was not listed yet."""
        head = (lamport_timestamp, message_id)
        position = bisect.bisect_left(self._heads, head)
        if position < len(self._heads) and self._heads[position] == head:
            return False
        if len(self._heads) == self._size:
            if position == 0:
                return False
            del self._heads[0]
            position -= 1
        self._heads.insert(position, head)
        return True

    def heads(self) -> tuple[tuple[int, str], ...]:
        """Return the newest messages in ascending order of (Lamport timestamp, id)."""
        return tuple(self._heads)


class Passed:
    """Recently seen messages, of all channels together.

    Of each a hash is kept, under a key of this process alone: ids are as long as strangers like.
    """

    def __init__(self, size: int = _PASSED_IDS) -> None:
        self._size = size
        self._hashes: OrderedDict[int, None] = OrderedDict()

    def add(self, channel_id: str, profile: Profile, message_id: str) -> None:
        """Note that a message was seen."""
        digest = hash((channel_id, profile, message_id))
        self._hashes[digest] = None
        self._hashes.move_to_end(digest)
        if len(self._hashes) > self._size:
            self._hashes.popitem(last=False)

    def __contains__(self, message: tuple[str, Profile, str]) -> bool:
        return hash(message) in self._hashes


@dataclass(slots=True)
class ChannelMembers:
    """Members of one channel in one profile. The same channel id in another profile is another channel."""

    channel_id: str
    profile: Profile
    newest: Newest
    passed: Passed
    full: dict[int, Membership] = field(default_factory=dict)
    """Members by the identity of their connection."""
    hosted: dict[int, Membership] = field(default_factory=dict)
    quiet_since_s: float = 0.0
    checked_s: float = 0.0
    """Time of the last request to the store for its newest messages."""
    last_sent: tuple[tuple[int, str], ...] = ()
    """The head that was last sent to the members while nothing happened."""

    @property
    def is_empty(self) -> bool:
        """Whether the channel has no members."""
        return not self.full and not self.hosted

    def enter(self, member: Membership) -> None:
        """Add a member."""
        (self.hosted if member.hosted else self.full)[id(member.link)] = member

    def leave(self, member: Membership) -> None:
        """Remove a member."""
        (self.hosted if member.hosted else self.full).pop(id(member.link), None)

    def note(self, message_id: str, lamport_timestamp: int) -> None:
        """Note that a message with content was seen."""
        self.passed.add(self.channel_id, self.profile, message_id)
        self.newest.add(lamport_timestamp, message_id)

    def has_passed(self, message_id: str) -> bool:
        """Whether this message was seen recently."""
        return (self.channel_id, self.profile, message_id) in self.passed
