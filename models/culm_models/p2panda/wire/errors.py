"""What can be wrong with a message on the wire: one class a rule, each with its stable code."""

from culm_models.p2panda.errors import P2pandaError


class MessageError(P2pandaError, code="p2panda.message"):
    """Bytes that are no p2panda message."""


class MalformedMessageError(MessageError, code="p2panda.message.malformed"):
    """Not CBOR as messages use it, or not an array that starts with a message type."""


class TruncatedMessageError(MessageError, code="p2panda.message.truncated"):
    """The stream ended within a message."""


class MessageTooLargeError(MessageError, code="p2panda.message.too_large"):
    """The message is, or declares itself to be, larger than this side takes."""


class UnknownTypeError(MessageError, code="p2panda.message.unknown_type"):
    """A message type that the specification does not know."""


class ItemCountError(MessageError, code="p2panda.message.item_count"):
    """More or fewer items than a message of this type has."""


class ItemKindError(MessageError, code="p2panda.message.item_kind"):
    """An item of another kind than the one that belongs in this place."""


class ItemRangeError(MessageError, code="p2panda.message.item_range"):
    """A number out of range: below 0, above 2**64 - 1, or the sequence number 0."""


class PublicKeyError(MessageError, code="p2panda.message.public_key"):
    """A public key that is not 32 bytes, or spelled otherwise than here."""


class FingerprintSizeError(MessageError, code="p2panda.message.fingerprint_size"):
    """A fingerprint of more bytes than any lift gives."""
