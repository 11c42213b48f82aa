"""`sds.messages`: the store of a deployment: the bytes of every content message of every channel.

The value is a function of the message alone: whoever writes it again writes the same bytes, and readers take
the first record of an id.
"""

from dataclasses import dataclass

from culm_models.sds.wire.messages import Profile
from culm_topics.records.shape import FORMAT, bytes_size, check_size, choice_size, dump, load_array, uint_size
from culm_topics.sds.records.shape import PROFILES, hint_size, id_size, require_hint, require_id

_NAME = "sds.messages"


@dataclass(frozen=True, slots=True)
class SdsMessageRecord:
    """Value of `sds.messages`; its key is the channel's.

    `message_id`, `sender_id` (may be empty) and `lamport_timestamp` (in the profile's unit) are those of the
    message in `wire`. `retrieval_hint` is what others fetch it by, of another transport's store.
    """

    profile: Profile
    message_id: str
    sender_id: str
    lamport_timestamp: int
    wire: bytes
    retrieval_hint: bytes | None = None

    def encode(self) -> bytes:
        """`[1, profile, message_id, sender_id, lamport_timestamp, wire, retrieval_hint]`."""
        require_id(_NAME, "message_id", self.message_id)
        require_id(_NAME, "sender_id", self.sender_id, empty=True)
        require_hint(_NAME, self.retrieval_hint)
        return dump(
            FORMAT,
            self.profile,
            self.message_id,
            self.sender_id,
            self.lamport_timestamp,
            self.wire,
            self.retrieval_hint,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SdsMessageRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, profile, message_id, sender_id, lamport, wire, hint = load_array(value, _NAME, 7)
        size = (
            2
            + choice_size(_NAME, "profile", profile, PROFILES)
            + id_size(_NAME, "message_id", message_id)
            + id_size(_NAME, "sender_id", sender_id, empty=True)
            + uint_size(_NAME, "lamport_timestamp", lamport)
            + bytes_size(_NAME, "wire", wire)
            + hint_size(_NAME, hint)
        )
        check_size(value, size, _NAME)
        return SdsMessageRecord(profile, message_id, sender_id, lamport, wire, hint)
