"""What can be wrong with CBOR that arrives: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import ModelError


class CborError(ModelError):
    """Bytes that the strict CBOR door does not let in."""

    code: ClassVar[str] = "cbor"


class MalformedError(CborError):
    """Not CBOR (RFC 8949): a reserved head, a stray break, text that is not UTF-8, a repeated key."""

    code: ClassVar[str] = "cbor.malformed"


class TruncatedError(CborError):
    """The bytes end before the item does."""

    code: ClassVar[str] = "cbor.truncated"


class TrailingBytesError(CborError):
    """Bytes follow the item."""

    code: ClassVar[str] = "cbor.trailing_bytes"


class IndefiniteLengthError(CborError):
    """A string, an array or a map does not say its length first."""

    code: ClassVar[str] = "cbor.indefinite_length"


class TagError(CborError):
    """A tagged item: no message of ours has any, and decoders run code for some."""

    code: ClassVar[str] = "cbor.tag"


class DepthError(CborError):
    """Arrays and maps are nested too deeply."""

    code: ClassVar[str] = "cbor.depth"


class TooLargeError(CborError):
    """The item is, or declares itself to be, larger than allowed."""

    code: ClassVar[str] = "cbor.too_large"


class TooManyItemsError(TooLargeError):
    """The item holds, or declares, more items than allowed: each costs many times its byte to decode."""

    code: ClassVar[str] = "cbor.too_many_items"


class ValueKindError(CborError):
    """A value outside of the kinds and ranges that messages use."""

    code: ClassVar[str] = "cbor.value"
