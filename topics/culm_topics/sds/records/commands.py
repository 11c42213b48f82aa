"""`sds.commands`: what a participant that the job hosts asks for."""

from dataclasses import field
from typing import Annotated, Literal, get_args

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PeerId
from culm_topics.records.kinds import rule, sized
from culm_topics.sds.records.shape import SomeDetails, SomeId, SomeProfile

SdsCommand = Literal["join", "leave", "send", "ephemeral", "resend", "open", "transfer"]
"""`join` and `leave` the channel; `send` a content, or an `ephemeral` one; `resend` now what is unheard.

`open`: a full participant has joined a channel that nobody was in; of an operator: the channel changes hands,
and begins anew where its profile is another one. `transfer`: an operator gives a hosted id to a key.
"""

COMMANDS: tuple[SdsCommand, ...] = get_args(SdsCommand)
TOKEN_SIZE = 16


@record("sds.commands", "what a hosted participant asks for. Key: channel id in UTF-8.")
class SdsCommandRecord(Record):
    """Value of `sds.commands`; its key is the channel's.

    `token` (16 bytes) is drawn by whoever asks and is the same when it asks again: the job does a command
    once, and a message's id follows from it; the events that answer name it. `content` belongs to `send` and
    `ephemeral`. `message_id` is of `send` the id that the caller chose, of `resend` the one message that is
    meant, or none for all. `settings` are of `join` those of the channel that differ from the profile's own,
    by their names in `culm_models.sds.settings`; the first `join` of who owns the channel decides. `peer_id`
    is the key that asked a connector for it; none: an operator, who may do anything. Of `open` and `transfer`
    by an operator `content` is the key that is to own it, or none for the operator.
    """

    kind: Annotated[SdsCommand, rule("command")]
    profile: SomeProfile
    participant_id: SomeId
    token: Annotated[bytes, sized(TOKEN_SIZE), "drawn by whoever asks, the same when it asks again"]
    content: Annotated[
        bytes | None, 'of "send" and "ephemeral"; of an operator\'s "open" and "transfer": who owns it'
    ] = None
    message_id: Annotated[
        SomeId | None, 'of "send" chosen by the caller, of "resend" the one that is meant'
    ] = None
    settings: Annotated[SomeDetails, 'of "join": what differs from the profile\'s own settings'] = field(
        default_factory=dict
    )
    peer_id: Annotated[PeerId | None, "the key that asked a connector; null: an operator"] = None
