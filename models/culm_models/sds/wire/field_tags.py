"""The tags of a message's fields in each profile, and back (see `profiles`)."""

from collections.abc import Mapping
from typing import Final

from culm_models.sds.wire.messages import Profile
from culm_models.sds.wire.profiles import PROFILES, WireProfile
from culm_models.sds.wire.protobuf import LENGTH, VARINT, tag, varint

TEXT_FIELDS: Final = ("sender_id", "message_id", "channel_id")
_FIELDS: Final = (
    *TEXT_FIELDS,
    "lamport_timestamp",
    "causal_history",
    "repair_request",
    "bloom_filter",
    "content",
)


def _tag_of(profile: WireProfile, name: str) -> int:
    number: int = getattr(profile.fields, name)
    return tag(number, VARINT if name == "lamport_timestamp" else LENGTH)


TAGS: Final[Mapping[Profile, Mapping[str, int]]] = {
    name: {field: _tag_of(profile, field) for field in _FIELDS} for name, profile in PROFILES.items()
}
TAG_BYTES: Final[Mapping[Profile, Mapping[str, bytes]]] = {
    name: {field: varint(found) for field, found in tags.items()} for name, tags in TAGS.items()
}
NAMES: Final[Mapping[Profile, Mapping[int, str]]] = {
    name: {found: field for field, found in tags.items()} for name, tags in TAGS.items()
}
NUMBERS: Final[Mapping[Profile, frozenset[int]]] = {
    name: frozenset(found >> 3 for found in tags.values()) for name, tags in TAGS.items()
}
