"""What can be wrong with CBOR that arrives: one class a rule, each with its stable code."""

from culm_models.errors import ModelError


class CborError(ModelError, code="cbor"):
    """Bytes that the strict CBOR door does not let in."""


class MalformedError(CborError, code="cbor.malformed"):
    """Not CBOR (RFC 8949): a reserved head, a stray break, text that is not UTF-8, a repeated key."""


class TruncatedError(CborError, code="cbor.truncated"):
    """The bytes end before the item does."""


class TrailingBytesError(CborError, code="cbor.trailing_bytes"):
    """Bytes follow the item."""


class IndefiniteLengthError(CborError, code="cbor.indefinite_length"):
    """A string, an array or a map does not say its length first."""


class TagError(CborError, code="cbor.tag"):
    """A tagged item: no message of ours has any, and decoders run code for some."""


class DepthError(CborError, code="cbor.depth"):
    """Arrays and maps are nested too deeply."""


class TooLargeError(CborError, code="cbor.too_large"):
    """The item is, or declares itself to be, larger than allowed."""


class TooManyItemsError(TooLargeError, code="cbor.too_many_items"):
    """The item holds, or declares, more items than allowed: each costs many times its byte to decode."""


class ValueKindError(CborError, code="cbor.value"):
    """A value outside of the kinds and ranges that messages use."""
