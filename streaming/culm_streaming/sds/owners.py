"""The owners of a channel and its participant ids: the first key that used them at a connector.

The job decides by the order of its input, so two connectors never decide differently; `sds.owners` carries
the decisions to them. A hosted id stays with its key after the participant has left, because its private
events can still be read. Input without a key belongs to the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import cbor2

from culm_streaming.errors import StreamingError
from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_streaming.sds.record import ChannelRecord
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.keys import owner_key
from culm_topics.sds.records import OwnedRole, SdsOwnerRecord

_CHANNEL: Final = ""
_PEER_ID = re.compile(r"[0-9a-f]{64}")


class OwnedIdError(StreamingError):
    """A participant id belongs to another key, which alone may join, send and leave under it."""

    code: ClassVar[str] = "sds.participant.owned"


class FullParticipantError(StreamingError):
    """An id has sent as a full participant: it cannot be hosted as well."""

    code: ClassVar[str] = "sds.participant.full"


class OwnedTooManyError(StreamingError):
    """A key would have too many ids in a channel, or a channel too many owned ids."""

    code: ClassVar[str] = "sds.participant.too_many"


class ForeignSenderError(StreamingError):
    """A new message has a sender id of another key; repeats of that key's messages are allowed."""

    code: ClassVar[str] = "sds.sender.owned"


class Owned(NamedTuple):
    """An id and its owner; `peer_id` None is the operator."""

    role: OwnedRole
    peer_id: bytes | None
    time_ms: int


class IdOwners:
    """The owned ids of one channel during one batch; `flush` writes changes."""

    def __init__(
        self, state: JobState, channel_id: str, record: ChannelRecord, settings: ChannelsSettings
    ) -> None:
        self._state = state
        self._channel_id = channel_id
        self._record = record
        self._settings = settings
        self._found: dict[str, Owned | None] = {}
        self._changed: dict[str, None] = {}
        self._counts: dict[bytes, int] = {}

    def owns_channel(self, peer_id: bytes | None) -> bool:
        """Whether this key may decide the channel's settings: its owner, or the operator."""
        if peer_id is None:
            return True
        owned = self._find(_CHANNEL)
        return owned is not None and owned.peer_id == peer_id

    def take_channel(self, peer_id: bytes | None, now_ms: int) -> None:
        """Make this key the channel's owner from now on."""
        self._put(_CHANNEL, Owned("channel", peer_id, now_ms))

    def give(self, participant_id: str, peer_id: bytes | None, now_ms: int) -> None:
        """Give a hosted id to a key, whatever its owner was (operators only)."""
        self._put(participant_id, Owned("hosted", peer_id, now_ms))

    def check(self, participant_id: str, peer_id: bytes | None) -> None:
        """Raise `OwnedIdError` unless this key may send commands as that hosted participant."""
        if peer_id is None:
            return
        owned = self._find(participant_id)
        if owned is None or owned.peer_id != peer_id:
            raise OwnedIdError(f"{participant_id[:100]!r} is not this key's")

    def host(
        self, participant_id: str, peer_id: bytes | None, now_ms: int, *, is_hosted: bool, has_spoken: bool
    ) -> None:
        """Let a key join as a hosted participant: an id without another owner belongs to it from now on.

        `has_spoken`: the log has messages from the id. Raises `OwnedIdError`, `FullParticipantError`,
        `OwnedTooManyError`.
        """
        owned = self._find(participant_id)
        if owned is not None and peer_id not in (None, owned.peer_id):
            raise OwnedIdError(f"{participant_id[:100]!r} belongs to another key")
        if owned is not None and owned.role == "hosted":
            return
        if peer_id is not None:
            if _PEER_ID.fullmatch(participant_id) and participant_id != peer_id.hex():
                raise OwnedIdError("the participant id is the peer id of another key")
            # An id hosted before keys were recorded has messages too, and belongs to its first key.
            if has_spoken and not is_hosted:
                raise FullParticipantError(f"{participant_id[:100]!r} is in use by a full participant")
            if owned is None:
                self._count(peer_id)
        self._put(participant_id, Owned("hosted", peer_id, now_ms))

    def admit(
        self, sender_id: str, peer_id: bytes, now_ms: int, *, is_new: bool, binds: bool
    ) -> ForeignSenderError | OwnedTooManyError | None:
        """Return the reason why a key may not send as a full participant under a sender id, or None.

        `is_new`: the message is not known; the id then belongs to the key, if the channel `binds` ids.
        """
        # Profiles js and nim have messages without a sender.
        if not sender_id or (not self._record.owned and not binds):
            return None
        owned = self._find(sender_id)
        if owned is not None:
            if owned.peer_id == peer_id:
                return None
            return ForeignSenderError(f"the sender id {sender_id[:100]!r} belongs to another key")
        if not binds or not is_new:
            return None
        if _PEER_ID.fullmatch(sender_id):
            if sender_id == peer_id.hex():
                return None
            return ForeignSenderError("the sender id is the peer id of another key")
        try:
            self._count(peer_id)
        except OwnedTooManyError as error:
            return error
        self._put(sender_id, Owned("bound", peer_id, now_ms))
        return None

    def flush(self) -> Iterator[OutputRecord]:
        """Write changes, and yield the rows of `sds.owners`."""
        for key, count in self._counts.items():
            self._state.save(StateKind.KEY_IDS, name_of(self._channel_id, key), cbor2.dumps(count))
        for participant_id in self._changed:
            owned = self._found[participant_id]
            assert owned is not None, "an id is owned for good"
            self._state.save(StateKind.OWNER, name_of(self._channel_id, participant_id), cbor2.dumps(owned))
            row = SdsOwnerRecord(owned.role, self._record.profile, owned.peer_id, owned.time_ms)
            yield OutputRecord(Topic.OWNERS, owner_key(self._channel_id, participant_id), row.encode())
        self._changed.clear()
        self._counts.clear()

    def _find(self, participant_id: str) -> Owned | None:
        if participant_id not in self._found:
            blob = self._state.load(StateKind.OWNER, name_of(self._channel_id, participant_id))
            self._found[participant_id] = None if blob is None else Owned(*cbor2.loads(blob))
        return self._found[participant_id]

    def _put(self, participant_id: str, owned: Owned) -> None:
        if self._find(participant_id) is None and participant_id != _CHANNEL:
            self._record.owned += 1
        self._found[participant_id] = owned
        self._changed[participant_id] = None

    def _count(self, peer_id: bytes) -> None:
        """Count one more id of this key. Raises `OwnedTooManyError`."""
        count = self._counts.get(peer_id)
        if count is None:
            blob = self._state.load(StateKind.KEY_IDS, name_of(self._channel_id, peer_id))
            count = 0 if blob is None else cbor2.loads(blob)
        if count >= self._settings.ids_per_key:
            raise OwnedTooManyError(f"a key may have {self._settings.ids_per_key} ids in a channel")
        if self._record.owned >= self._settings.ids_per_channel:
            raise OwnedTooManyError(f"a channel keeps the owners of {self._settings.ids_per_channel} ids")
        self._counts[peer_id] = count + 1
