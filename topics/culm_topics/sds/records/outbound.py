"""`sds.out`: what a participant that the job hosts broadcasts to its channel."""

from dataclasses import dataclass
from typing import Literal, get_args

from culm_models.sds.wire.messages import Profile
from culm_topics.records.shape import FORMAT, bytes_size, check_size, choice_size, dump, load_array
from culm_topics.sds.records.shape import PROFILES, id_size, require_id

SdsOutKind = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""Why a message goes out: for the first time, again, without content, for somebody who lacks it, or once."""

OUT_KINDS: tuple[SdsOutKind, ...] = get_args(SdsOutKind)
_NAME = "sds.out"


@dataclass(frozen=True, slots=True)
class SdsOutRecord:
    """Value of `sds.out`; its key is the channel's. `participant_id` is who broadcasts it.

    Of `repair` the message may have been written by somebody else.
    """

    profile: Profile
    kind: SdsOutKind
    participant_id: str
    message_id: str
    wire: bytes

    def encode(self) -> bytes:
        """`[1, profile, kind, participant_id, message_id, wire]`."""
        require_id(_NAME, "participant_id", self.participant_id)
        require_id(_NAME, "message_id", self.message_id)
        return dump(FORMAT, self.profile, self.kind, self.participant_id, self.message_id, self.wire)

    @staticmethod
    def decode(value: bytes | None) -> "SdsOutRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, profile, kind, participant_id, message_id, wire = load_array(value, _NAME, 6)
        size = (
            2
            + choice_size(_NAME, "profile", profile, PROFILES)
            + choice_size(_NAME, "kind", kind, OUT_KINDS)
            + id_size(_NAME, "participant_id", participant_id)
            + id_size(_NAME, "message_id", message_id)
            + bytes_size(_NAME, "wire", wire)
        )
        check_size(value, size, _NAME)
        return SdsOutRecord(profile, kind, participant_id, message_id, wire)
