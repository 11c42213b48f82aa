"""Operations on SDS messages and their bloom filters: bytes and back in each wire profile."""

from __future__ import annotations

from typing import Any

from culm_models.conform.arguments import ArgumentError, Arguments, as_mapping
from culm_models.conform.operation import Machines, Operation
from culm_models.sds.bloom import LAYOUTS, ReceivedFilter, filter_of
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.errors import BloomShapeError
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from culm_models.sds.wire.profiles import PROFILES

_LARGEST_MESSAGE_BYTES = 1 << 25
_LARGEST_CAPACITY = 1 << 32
_DEFAULT_CAPACITY = 10_000
_DEFAULT_ERROR_RATE = 0.001


def profile_of(arguments: Arguments) -> Profile:
    """The argument ``profile``; the specification's where it is left out."""
    if not arguments.has("profile"):
        return "spec"
    name = arguments.text("profile")
    for profile in PROFILES:
        if profile == name:
            return profile
    raise ArgumentError(f"profile is not one of {', '.join(PROFILES)}")


def _message_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = arguments.octets("bytes")
    return {"message": message_to_json(decode(data, profile_of(arguments), max_bytes=_LARGEST_MESSAGE_BYTES))}


def _message_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    message = message_from_json(as_mapping(arguments.raw("message"), "message"))
    return {"bytes": encode(message, profile_of(arguments)).hex()}


def _bloom_build(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    layout = PROFILES[profile_of(arguments)].bloom_layout
    value = filter_of(layout, arguments.texts("ids"), *_bloom_measures(arguments))
    return {"bytes": value.hex()}


def _bloom_contains(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    layout = PROFILES[profile_of(arguments)].bloom_layout
    found = ReceivedFilter.parse(layout, arguments.octets("bytes"), *_bloom_measures(arguments))
    if found is None:
        raise BloomShapeError("the bytes are no filter of these measures")
    return {"hits": [found.contains(LAYOUTS[layout].hash_pair(each)) for each in arguments.texts("ids")]}


def _bloom_measures(arguments: Arguments) -> tuple[int, float]:
    capacity = arguments.integer("capacity", least=1, most=_LARGEST_CAPACITY, default=_DEFAULT_CAPACITY)
    error_rate = arguments.raw("error_rate") if arguments.has("error_rate") else _DEFAULT_ERROR_RATE
    if not isinstance(error_rate, float):
        raise ArgumentError("error_rate is not a number between 0 and 1")
    return capacity, error_rate


def message_to_json(message: Message) -> dict[str, Any]:
    """A message in the form of docs/conform.md; what is absent is left out."""
    found: dict[str, Any] = {
        "kind": message.kind,
        "sender_id": message.sender_id,
        "message_id": message.message_id,
        "channel_id": message.channel_id,
        "causal_history": [entry_to_json(entry) for entry in message.causal_history],
        "repair_request": [entry_to_json(entry) for entry in message.repair_request],
    }
    if message.lamport_timestamp is not None:
        found["lamport_timestamp"] = message.lamport_timestamp
    if message.bloom_filter is not None:
        found["bloom_filter"] = message.bloom_filter.hex()
    if message.content is not None:
        found["content"] = message.content.hex()
    return found


def message_from_json(value: dict[str, Any]) -> Message:
    """The message that a JSON object describes."""
    fields = Arguments(value)
    message = Message(
        sender_id=fields.text("sender_id"),
        message_id=fields.text("message_id"),
        channel_id=fields.text("channel_id"),
        lamport_timestamp=fields.integer("lamport_timestamp") if fields.has("lamport_timestamp") else None,
        causal_history=_entries(fields, "causal_history"),
        bloom_filter=fields.optional_octets("bloom_filter"),
        content=fields.optional_octets("content"),
        repair_request=_entries(fields, "repair_request"),
    )
    if fields.has("kind") and fields.text("kind") != message.kind:
        raise ArgumentError(f"the fields are those of a message of the kind {message.kind}")
    return message


def _entries(fields: Arguments, name: str) -> tuple[HistoryEntry, ...]:
    return tuple(_entry_from_json(as_mapping(item, f"an item of {name}")) for item in fields.items(name, []))


def _entry_from_json(value: dict[str, Any]) -> HistoryEntry:
    fields = Arguments(value)
    return HistoryEntry(
        fields.text("message_id"),
        fields.optional_octets("retrieval_hint"),
        fields.text("sender_id") if fields.has("sender_id") else None,
    )


def entry_to_json(entry: HistoryEntry) -> dict[str, Any]:
    """A history entry; what is not known of it is left out."""
    found: dict[str, Any] = {"message_id": entry.message_id}
    if entry.retrieval_hint is not None:
        found["retrieval_hint"] = entry.retrieval_hint.hex()
    if entry.sender_id is not None:
        found["sender_id"] = entry.sender_id
    return found


OPERATIONS = [
    Operation("sds.message.decode", "bytes, profile? (spec, js or nim; spec)", "message", _message_decode),
    Operation("sds.message.encode", "message, profile? (spec, js or nim; spec)", "bytes", _message_encode),
    Operation(
        "sds.bloom.build",
        "ids, profile? (spec), capacity? (10000), error_rate? (0.001)",
        "bytes",
        _bloom_build,
    ),
    Operation(
        "sds.bloom.contains",
        "bytes, ids, profile? (spec), capacity? (10000), error_rate? (0.001)",
        "hits: a list of booleans",
        _bloom_contains,
    ),
]
