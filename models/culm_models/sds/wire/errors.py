"""What can be wrong with an SDS message: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import ModelError


class SdsError(ModelError):
    """Bytes or events that break a rule of SDS."""

    code: ClassVar[str] = "sds"


class ChannelSettingsError(SdsError):
    """Settings of a channel that are unknown, out of bounds or unfit for each other, or not those it has."""

    code: ClassVar[str] = "sds.settings"


class MessageError(SdsError):
    """Bytes that are no SDS message, or a message that cannot be written."""

    code: ClassVar[str] = "sds.message"


class MessageTooLargeError(MessageError):
    """More bytes than this side takes."""

    code: ClassVar[str] = "sds.message.too_large"


class TruncatedMessageError(MessageError):
    """The bytes end inside a field."""

    code: ClassVar[str] = "sds.message.truncated"


class MalformedMessageError(MessageError):
    """Not protobuf: a number longer than 64 bits, field number 0, or a wire type that does not exist."""

    code: ClassVar[str] = "sds.message.malformed"


class WireTypeError(MessageError):
    """A field of the message with another wire type than its own."""

    code: ClassVar[str] = "sds.message.wire_type"


class TextError(MessageError):
    """An id that is not UTF-8."""

    code: ClassVar[str] = "sds.message.text"


class EntryCountError(MessageError):
    """More history entries or repair requests than any message needs."""

    code: ClassVar[str] = "sds.message.entry_count"


class FieldMissingError(MessageError):
    """A field that messages of this profile must have is absent or empty."""

    code: ClassVar[str] = "sds.message.field_missing"


class MessageKindError(MessageError):
    """Neither a Lamport timestamp nor content: no kind of message is like that."""

    code: ClassVar[str] = "sds.message.kind"


class LamportRangeError(MessageError):
    """A Lamport timestamp that the profile cannot write."""

    code: ClassVar[str] = "sds.message.lamport_range"


class IdSizeError(MessageError):
    """An id or a retrieval hint of more bytes than any need."""

    code: ClassVar[str] = "sds.message.id_size"


class BloomShapeError(SdsError):
    """Measures that give no bloom filter, or an unreasonable one."""

    code: ClassVar[str] = "sds.bloom.shape"


class BloomForgottenError(SdsError):
    """A former value of a filter whose ids have been let go, or that never was."""

    code: ClassVar[str] = "sds.bloom.forgotten"


class BloomSnapshotError(SdsError):
    """Packed ids of a filter that are cut off or do not follow what is there."""

    code: ClassVar[str] = "sds.bloom.snapshot"
