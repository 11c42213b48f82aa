"""Strictness of CBOR: the decoder's options for messages, records and operations.

| | messages (`values`) | records (`culm_topics.records.shape`) |
|---|---|---|
| a key twice in a map | refused | refused |
| tags, also those for which a decoder runs code | refused | refused |
| indefinite lengths | refused | refused |
| depth | 8, or as the caller says | 4 |
| bytes after the item | refused | refused, by the record's size |
| longer forms of numbers and lengths | accepted: other programs write them | refused, by the record's size |
| floats | written in the shortest form | written with 64 bits |

Records are Culm's own: they have only one encoding, so that equal records are equal bytes. Operations, read
by `culm_models.p2panda.operations.operation`, have these options and the depth 4, and bytes after them are
ignored. Operations that these options refuse are left to `operations.reader`, which accepts and refuses the
same as p2panda nodes. If Culm were stricter, a log would end here while it continues elsewhere. Operations
are written like messages.

State that a program keeps for itself (`culm_models.sds.state.journal`, the jobs) is not input: it is read
without these options, and its outline is checked.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

import cbor2

from culm_models.errors import ModelError


class CborError(ModelError, code="cbor"):
    """Bytes that strict CBOR refuses."""


class MalformedError(CborError, code="cbor.malformed"):
    """Not CBOR (RFC 8949): a reserved head, a misplaced break, text that is not UTF-8, a repeated key."""


class TruncatedError(CborError, code="cbor.truncated"):
    """The bytes end before the item does."""


class TrailingBytesError(CborError, code="cbor.trailing_bytes"):
    """Bytes follow the item."""


class IndefiniteLengthError(CborError, code="cbor.indefinite_length"):
    """A string, an array or a map without a definite length."""


class TagError(CborError, code="cbor.tag"):
    """A tagged item: Culm's messages have no tags, and decoders run code for some."""


class DepthError(CborError, code="cbor.depth"):
    """Arrays and maps are nested too deeply."""


class TooLargeError(CborError, code="cbor.too_large"):
    """The item is larger than allowed, or declares a larger size."""


class TooManyItemsError(TooLargeError, code="cbor.too_many_items"):
    """The item contains or declares too many items: each costs many times its size to decode."""


class CborValueError(CborError, code="cbor.value"):
    """A value outside of the types and ranges that messages use."""


DEFAULT_MAX_DEPTH: Final = 8
"""Depth limit of messages."""
FLAT_MAX_DEPTH: Final = 4
"""Depth limit of records and operations."""


class _TagSeen(ValueError):
    """Leaves the decoder at the first tag."""


def _refuse_tag(*_: object) -> NoReturn:
    raise _TagSeen("tags are not allowed")


# The tags that cbor2 would process itself; all others go to the tag hook.
_KNOWN_TAGS: Final = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100),
    *(256, 258, 260, 261, 1004, 43000, 55799),
)
_OPTIONS: Final[Mapping[str, Any]] = {
    "allow_indefinite": False,
    "allow_duplicate_keys": False,
    "tag_hook": _refuse_tag,
    "semantic_decoders": dict.fromkeys(_KNOWN_TAGS, _refuse_tag),
}

decode_item: Final[Callable[..., Any]] = partial(cbor2.loads, **_OPTIONS)
"""`decode_item(data, max_depth=...)`: decode the first item of `data`, whatever follows it.

The decoder raises exceptions of several kinds; the caller translates them to its own error.
"""
item_decoder: Final[Callable[..., cbor2.CBORDecoder]] = partial(cbor2.CBORDecoder, **_OPTIONS)
"""`item_decoder(stream, max_depth=...)`: a decoder that leaves the stream's position after the item."""
