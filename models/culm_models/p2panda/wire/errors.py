"""What can be wrong with a message on the wire: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.p2panda.errors import P2pandaError


class MessageError(P2pandaError):
    """Bytes that are no p2panda message."""

    code: ClassVar[str] = "p2panda.message"


class MalformedMessageError(MessageError):
    """Not CBOR as messages use it, or not an array that starts with a message type."""

    code: ClassVar[str] = "p2panda.message.malformed"


class TruncatedMessageError(MessageError):
    """The stream ended within a message."""

    code: ClassVar[str] = "p2panda.message.truncated"


class MessageTooLargeError(MessageError):
    """The message is, or declares itself to be, larger than this side takes."""

    code: ClassVar[str] = "p2panda.message.too_large"


class UnknownTypeError(MessageError):
    """A message type that the specification does not know."""

    code: ClassVar[str] = "p2panda.message.unknown_type"


class ItemCountError(MessageError):
    """More or fewer items than a message of this type has."""

    code: ClassVar[str] = "p2panda.message.item_count"


class ItemKindError(MessageError):
    """An item of another kind than the one that belongs in this place."""

    code: ClassVar[str] = "p2panda.message.item_kind"


class ItemRangeError(MessageError):
    """A number out of range: below 0, above 2**64 - 1, or the sequence number 0."""

    code: ClassVar[str] = "p2panda.message.item_range"


class PublicKeyError(MessageError):
    """A public key that is not 32 bytes, or spelled otherwise than here."""

    code: ClassVar[str] = "p2panda.message.public_key"


class FingerprintSizeError(MessageError):
    """A fingerprint of more bytes than any lift gives."""

    code: ClassVar[str] = "p2panda.message.fingerprint_size"
