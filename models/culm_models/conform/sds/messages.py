"""Operations on SDS messages and their bloom filters: encoding and decoding in each wire profile."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments
from culm_models.conform.forms import RecordForm
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.sds.bloom import LAYOUTS, ReceivedFilter, filter_of
from culm_models.sds.errors import BloomShapeError
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.messages import PROFILES, Message, Profile

_LARGEST_MESSAGE_BYTES = 1 << 25
_LARGEST_CAPACITY = 1 << 32
_DEFAULT_CAPACITY = 10_000
_DEFAULT_ERROR_RATE = 0.001


_PROFILES: Final[dict[str, Profile]] = {profile: profile for profile in PROFILES}
_MESSAGE: Final = RecordForm(
    Message, first=("sender_id", "message_id", "channel_id", "causal_history", "repair_request")
)


def profile_of(arguments: Arguments) -> Profile:
    """Return the argument ``profile``; the specification's profile if it is left out."""
    return arguments.word("profile", _PROFILES, default="spec")


def _message_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = arguments.octets("bytes")
    return {"message": message_to_json(decode(data, profile_of(arguments), max_bytes=_LARGEST_MESSAGE_BYTES))}


def _message_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    message = message_from_json(arguments.mapping("message"))
    return {"bytes": encode(message, profile_of(arguments)).hex()}


def _bloom_build(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    layout = PROFILES[profile_of(arguments)].bloom_layout
    value = filter_of(layout, arguments.texts("ids"), *_bloom_measures(arguments))
    return {"bytes": value.hex()}


def _bloom_contains(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    layout = PROFILES[profile_of(arguments)].bloom_layout
    bloom_filter = ReceivedFilter.parse(layout, arguments.octets("bytes"), *_bloom_measures(arguments))
    if bloom_filter is None:
        raise BloomShapeError("the bytes are no filter of these measures")
    return {
        "hits": [bloom_filter.contains(LAYOUTS[layout].hash_pair(each)) for each in arguments.texts("ids")]
    }


def _bloom_measures(arguments: Arguments) -> tuple[int, float]:
    capacity = arguments.integer(
        "capacity", min_value=1, max_value=_LARGEST_CAPACITY, default=_DEFAULT_CAPACITY
    )
    error_rate = arguments.raw("error_rate") if arguments.has("error_rate") else _DEFAULT_ERROR_RATE
    if not isinstance(error_rate, float):
        raise ArgumentError("error_rate is not a number between 0 and 1")
    return capacity, error_rate


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a message in the form of docs/conform.md; absent fields are left out."""
    return {"kind": message.kind, **_MESSAGE.show(message)}


def message_from_json(value: dict[str, Any]) -> Message:
    """Return the message that a JSON object describes."""
    message, kind = _MESSAGE.read(value), Arguments(value).optional_text("kind")
    if kind not in (None, message.kind):
        raise ArgumentError(f"the fields are those of a message of the kind {message.kind}")
    return message


OPERATIONS = [
    ConformOperation(
        "sds.message.decode", "bytes, profile? (spec, js or nim; spec)", "message", _message_decode
    ),
    ConformOperation(
        "sds.message.encode", "message, profile? (spec, js or nim; spec)", "bytes", _message_encode
    ),
    ConformOperation(
        "sds.bloom.build",
        "ids, profile? (spec), capacity? (10000), error_rate? (0.001)",
        "bytes",
        _bloom_build,
    ),
    ConformOperation(
        "sds.bloom.contains",
        "bytes, ids, profile? (spec), capacity? (10000), error_rate? (0.001)",
        "hits: a list of booleans",
        _bloom_contains,
    ),
]
