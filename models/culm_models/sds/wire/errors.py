"""What can be wrong with an SDS message: one class a rule, each with its stable code."""

from culm_models.errors import ModelError


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
