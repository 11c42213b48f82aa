"""Errors of SDS: one class per rule, each with its stable code.

First malformed messages and filters, then operations and messages that a channel refuses, and last malformed
frames of the edge protocol.
"""

from culm_models.errors import CulmError, ModelError


class SdsError(ModelError, code="sds"):
    """Bytes or events that break a rule of SDS."""


class ChannelSettingsError(SdsError, code="sds.settings"):
    """Settings of a channel that are unknown, out of range, inconsistent, or different from its own."""


class SdsMessageError(SdsError, code="sds.message"):
    """Bytes that are not an SDS message, or a message that cannot be encoded."""


class SdsMessageTooLargeError(SdsMessageError, code="sds.message.too_large"):
    """A message of more bytes than the limit."""


class TruncatedSdsMessageError(SdsMessageError, code="sds.message.truncated"):
    """The bytes end inside a field."""


class MalformedSdsMessageError(SdsMessageError, code="sds.message.malformed"):
    """Not protobuf: a number longer than 64 bits, field number 0, or a wire type that does not exist."""


class WireTypeError(SdsMessageError, code="sds.message.wire_type"):
    """A field of the message with a wire type other than its own."""


class TextError(SdsMessageError, code="sds.message.text"):
    """An id that is not UTF-8."""


class EntryCountError(SdsMessageError, code="sds.message.entry_count"):
    """More history entries or repair requests than the limit."""


class FieldMissingError(SdsMessageError, code="sds.message.field_missing"):
    """A field that messages of this profile must have is absent or empty."""


class MessageKindError(SdsMessageError, code="sds.message.kind"):
    """Neither a Lamport timestamp nor content: no kind of message has neither."""


class LamportRangeError(SdsMessageError, code="sds.message.lamport_range"):
    """A Lamport timestamp that the profile cannot encode."""


class IdSizeError(SdsMessageError, code="sds.message.id_size"):
    """An id or a retrieval hint above the size limit."""


class BloomShapeError(SdsError, code="sds.bloom.shape"):
    """Parameters that give no bloom filter, or an unreasonable one."""


class BloomForgottenError(SdsError, code="sds.bloom.forgotten"):
    """A former value of a filter whose ids were forgotten, or that never existed."""


class BloomSnapshotError(SdsError, code="sds.bloom.snapshot"):
    """Packed ids of a filter that are cut off or do not follow the present ones."""


class ParticipantError(SdsError, code="sds.participant"):
    """The participant is not hosted in this channel, is hosted already, or exceeds the limit."""


class KnownMessageError(SdsError, code="sds.message_id.known"):
    """A message with this id is known already: each id is used once."""


class EmptyContentError(SdsError, code="sds.content.empty"):
    """A message to send has no content: it would be a sync."""


class OversizeError(SdsError, code="sds.size"):
    """An id, a hint or a content is larger than this channel accepts."""


class KindError(SdsError, code="sds.kind"):
    """The profile has no messages of this kind."""


class OtherChannelError(SdsError, code="sds.channel"):
    """A message of another channel."""


class OwnMessageError(SdsError, code="sds.sender.own"):
    """A message in the name of a hosted participant that did not send it, and that is not missing either."""


class DisputedIdError(SdsError, code="sds.message_id.disputed"):
    """Another message with a known id but other sender or content. The first one counts."""


class LamportAheadError(SdsError, code="sds.lamport.ahead"):
    """The Lamport timestamp is further ahead of the time than allowed."""


class ClockAheadError(SdsError, code="sds.clock.ahead"):
    """Messages in the log are too far ahead of the clock: others would not accept new ones."""


class WaitingFullError(SdsError, code="sds.waiting.full"):
    """Too many messages wait for others; this one is dropped and fetched again when it is needed."""


class SnapshotError(SdsError, code="sds.snapshot"):
    """Bytes that are not a journal or head of a channel, or that belong to another one."""


class JournalForgottenError(SdsError, code="sds.journal.forgotten"):
    """The journal since this mark is no longer kept: the whole journal must be rewritten."""


class FrameError(CulmError, code="sds.frame"):
    """Bytes that are not a frame of the edge protocol; the stream cannot continue."""


class FrameTooLargeError(FrameError, code="sds.frame.too_large"):
    """A frame whose announced length exceeds the limit."""


class FrameTruncatedError(FrameError, code="sds.frame.truncated"):
    """The stream ended within a frame."""


class FrameContentError(FrameError, code="sds.frame.cbor"):
    """A frame that is not valid CBOR in the required form."""


class FrameKindError(FrameError, code="sds.frame.kind"):
    """A frame of an unknown kind, or of a kind that the other side never sends."""


class FrameShapeError(FrameError, code="sds.frame.shape"):
    """A frame whose fields do not match its kind."""
