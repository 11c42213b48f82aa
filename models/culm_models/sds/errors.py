"""What a channel refuses of its own side, and why it refuses what others send."""

from typing import ClassVar

from culm_models.sds.wire.errors import SdsError


class ParticipantError(SdsError):
    """The participant is not hosted in this channel, is hosted already, or is one too many."""

    code: ClassVar[str] = "sds.participant"


class KnownMessageError(SdsError):
    """A message with this id is known already: each id is used once."""

    code: ClassVar[str] = "sds.message_id.known"


class EmptyContentError(SdsError):
    """A message to send has no content: such a message would be a sync."""

    code: ClassVar[str] = "sds.content.empty"


class OversizeError(SdsError):
    """An id, a hint or a content is larger than this channel takes."""

    code: ClassVar[str] = "sds.size"


class KindError(SdsError):
    """The profile has no messages of this kind."""

    code: ClassVar[str] = "sds.kind"


class OtherChannelError(SdsError):
    """A message of another channel."""

    code: ClassVar[str] = "sds.channel"


class OwnMessageError(SdsError):
    """A message under the name of a hosted participant that it did not send, and that nobody asked for."""

    code: ClassVar[str] = "sds.sender.own"


class DisputedIdError(SdsError):
    """Another message with the id of one that is known: of another sender or content. The first counts."""

    code: ClassVar[str] = "sds.message_id.disputed"


class LamportAheadError(SdsError):
    """The Lamport timestamp is further ahead of the time than allowed."""

    code: ClassVar[str] = "sds.lamport.ahead"


class ClockAheadError(SdsError):
    """Messages in the own log are further ahead of the clock than allowed: others would not take new ones."""

    code: ClassVar[str] = "sds.clock.ahead"


class WaitingFullError(SdsError):
    """Too many messages wait for others; this one is dropped and fetched again when its turn has come."""

    code: ClassVar[str] = "sds.waiting.full"


class SnapshotError(SdsError):
    """Bytes that are no journal or head of a channel, or of another one."""

    code: ClassVar[str] = "sds.snapshot"


class JournalForgottenError(SdsError):
    """The journal since this mark is not kept any more: the whole journal must be written anew."""

    code: ClassVar[str] = "sds.journal.forgotten"
