"""`sds.commands`: what a participant that the job hosts asks for."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from culm_models.sds.wire.messages import Profile
from culm_topics.records.keys import PEER_ID_SIZE
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    choice_size,
    dump,
    load_array,
    optional_bytes_size,
    require,
)
from culm_topics.sds.records.shape import (
    PROFILES,
    Details,
    details_size,
    id_size,
    optional_id_size,
    packed_details,
    read_details,
    require_id,
    require_peer_id,
)

SdsCommand = Literal["join", "leave", "send", "ephemeral", "resend", "open", "transfer"]
"""`join` and `leave` the channel; `send` a content, or an `ephemeral` one; `resend` now what is unheard.

`open`: a full participant has joined a channel that nobody was in; of an operator: the channel changes hands,
and begins anew where its profile is another one. `transfer`: an operator gives a hosted id to a key.
"""

COMMANDS: tuple[SdsCommand, ...] = get_args(SdsCommand)
TOKEN_SIZE = 16
_NAME = "sds.commands"


@dataclass(frozen=True, slots=True)
class SdsCommandRecord:
    """Value of `sds.commands`; its key is the channel's.

    `token` (16 bytes) is drawn by whoever asks and is the same when it asks again: the job does a command
    once, and a message's id follows from it; the events that answer name it. `content` belongs to `send` and
    `ephemeral`. `message_id` is of `send` the id that the caller chose, of `resend` the one message that is
    meant, or none for all. `settings` are of `join` those of the channel that differ from the profile's own,
    by their names in `culm_models.sds.settings`; the first `join` of who owns the channel decides. `peer_id`
    is the key that asked a connector for it; none: an operator, who may do anything. Of `open` and `transfer`
    by an operator `content` is the key that is to own it, or none for the operator.
    """

    kind: SdsCommand
    profile: Profile
    participant_id: str
    token: bytes
    content: bytes | None = None
    message_id: str | None = None
    settings: Details = field(default_factory=dict)
    peer_id: bytes | None = None

    def encode(self) -> bytes:
        """`[1, kind, profile, participant_id, token, content, message_id, {setting: value}, peer_id]`."""
        require_id(_NAME, "participant_id", self.participant_id)
        require(len(self.token) == TOKEN_SIZE, _NAME, f"token is not {TOKEN_SIZE} bytes")
        require_id(_NAME, "message_id", self.message_id)
        require_peer_id(_NAME, self.peer_id)
        return dump(
            FORMAT,
            self.kind,
            self.profile,
            self.participant_id,
            self.token,
            self.content,
            self.message_id,
            packed_details(self.settings),
            self.peer_id,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SdsCommandRecord":
        """The record in `value`; `RecordError` says what is wrong with it. Settings are not looked at."""
        _, kind, profile, participant_id, token, content, message_id, settings, peer_id = load_array(
            value, _NAME, 9
        )
        size = (
            2
            + choice_size(_NAME, "kind", kind, COMMANDS)
            + choice_size(_NAME, "profile", profile, PROFILES)
            + id_size(_NAME, "participant_id", participant_id)
            + bytes_size(_NAME, "token", token, TOKEN_SIZE)
            + optional_bytes_size(_NAME, "content", content)
            + optional_id_size(_NAME, "message_id", message_id)
            + details_size(_NAME, "settings", settings)
            + optional_bytes_size(_NAME, "peer_id", peer_id, PEER_ID_SIZE)
        )
        check_size(value, size, _NAME)
        return SdsCommandRecord(
            kind, profile, participant_id, token, content, message_id, read_details(settings), peer_id
        )
