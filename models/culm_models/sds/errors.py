"""Errors of SDS: one class a rule, each with its stable code.

First what is wrong with bytes of messages and filters, then what a channel refuses of its own side and of
others, at last what is wrong with a frame of the edge protocol.
"""

from culm_models.errors import CulmError, ModelError


class SdsError(ModelError, code="sds"):
    """Bytes or events that break a rule of SDS."""


class ChannelSettingsError(SdsError, code="sds.settings"):
    """Settings of a channel that are unknown, out of bounds or unfit for each other, or not those it has."""


class MessageError(SdsError, code="sds.message"):
    """Bytes that are no SDS message, or a message that cannot be written."""


class MessageTooLargeError(MessageError, code="sds.message.too_large"):
    """More bytes than this side takes."""


class TruncatedMessageError(MessageError, code="sds.message.truncated"):
    """The bytes end inside a field."""


class MalformedMessageError(MessageError, code="sds.message.malformed"):
    """Not protobuf: a number longer than 64 bits, field number 0, or a wire type that does not exist."""


class WireTypeError(MessageError, code="sds.message.wire_type"):
    """A field of the message with another wire type than its own."""


class TextError(MessageError, code="sds.message.text"):
    """An id that is not UTF-8."""


class EntryCountError(MessageError, code="sds.message.entry_count"):
    """More history entries or repair requests than any message needs."""


class FieldMissingError(MessageError, code="sds.message.field_missing"):
    """A field that messages of this profile must have is absent or empty."""


class MessageKindError(MessageError, code="sds.message.kind"):
    """Neither a Lamport timestamp nor content: no kind of message is like that."""


class LamportRangeError(MessageError, code="sds.message.lamport_range"):
    """A Lamport timestamp that the profile cannot write."""


class IdSizeError(MessageError, code="sds.message.id_size"):
    """An id or a retrieval hint of more bytes than any need."""


class BloomShapeError(SdsError, code="sds.bloom.shape"):
    """Measures that give no bloom filter, or an unreasonable one."""


class BloomForgottenError(SdsError, code="sds.bloom.forgotten"):
    """A former value of a filter whose ids have been let go, or that never was."""


class BloomSnapshotError(SdsError, code="sds.bloom.snapshot"):
    """Packed ids of a filter that are cut off or do not follow what is there."""


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


class FrameError(CulmError, code="sds.frame"):
    """Bytes that are no frame of the edge protocol; the stream cannot go on."""


class FrameTooLargeError(FrameError, code="sds.frame.too_large"):
    """A frame that says it is longer than this side takes."""


class FrameTruncatedError(FrameError, code="sds.frame.truncated"):
    """The stream ended within a frame."""


class FrameContentError(FrameError, code="sds.frame.cbor"):
    """A frame that is not the CBOR that every message here is."""


class FrameKindError(FrameError, code="sds.frame.kind"):
    """A frame of a kind that does not exist, or that the other side never sends."""


class FrameShapeError(FrameError, code="sds.frame.shape"):
    """A frame whose fields are not those of its kind."""
