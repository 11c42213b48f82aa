"""What a channel refuses of its own side, and why it refuses what others send."""

from culm_models.sds.wire.errors import SdsError


class ParticipantError(SdsError, code="sds.participant"):
    """The participant is not hosted in this channel, is hosted already, or is one too many."""


class KnownMessageError(SdsError, code="sds.message_id.known"):
    """A message with this id is known already: each id is used once."""


class EmptyContentError(SdsError, code="sds.content.empty"):
    """A message to send has no content: such a message would be a sync."""


class OversizeError(SdsError, code="sds.size"):
    """An id, a hint or a content is larger than this channel takes."""


class KindError(SdsError, code="sds.kind"):
    """The profile has no messages of this kind."""


class OtherChannelError(SdsError, code="sds.channel"):
    """A message of another channel."""


class OwnMessageError(SdsError, code="sds.sender.own"):
    """A message under the name of a hosted participant that it did not send, and that nobody asked for."""


class DisputedIdError(SdsError, code="sds.message_id.disputed"):
    """Another message with the id of one that is known: of another sender or content. The first counts."""


class LamportAheadError(SdsError, code="sds.lamport.ahead"):
    """The Lamport timestamp is further ahead of the time than allowed."""


class ClockAheadError(SdsError, code="sds.clock.ahead"):
    """Messages in the own log are further ahead of the clock than allowed: others would not take new ones."""


class WaitingFullError(SdsError, code="sds.waiting.full"):
    """Too many messages wait for others; this one is dropped and fetched again when its turn has come."""


class SnapshotError(SdsError, code="sds.snapshot"):
    """Bytes that are no journal or head of a channel, or of another one."""


class JournalForgottenError(SdsError, code="sds.journal.forgotten"):
    """The journal since this mark is not kept any more: the whole journal must be written anew."""
