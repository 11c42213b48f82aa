"""Messages as bytes and back: the door to the codec (specification "Message"; see `profiles`, `decoder`).

What is written is, byte for byte, what the implementations of the profile write.
"""

from collections.abc import Iterable, Mapping

from culm_models.sds.wire.decoder import DEFAULT_MAX_MESSAGE_BYTES, MAX_ENTRIES, Decoder
from culm_models.sds.wire.entry_codec import entry_body, id_bytes
from culm_models.sds.wire.errors import FieldMissingError, LamportRangeError, MessageKindError
from culm_models.sds.wire.field_tags import TAG_BYTES
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from culm_models.sds.wire.profiles import PROFILES, WireProfile
from culm_models.sds.wire.protobuf import varint, with_length

__all__ = [
    "DEFAULT_MAX_MESSAGE_BYTES",
    "MAX_ENTRIES",
    "Decoder",
    "assemble",
    "bloom_field",
    "decode",
    "encode",
    "encode_entry",
]


def encode(message: Message, profile: Profile) -> bytes:
    """The bytes of a message. Raises MessageError for one that this profile cannot say."""
    before, after = assemble(
        profile,
        message.sender_id,
        message.message_id,
        message.channel_id,
        message.lamport_timestamp,
        [encode_entry(entry, profile) for entry in message.causal_history],
        message.content,
        message.repair_request,
    )
    return b"".join((before, bloom_field(message.bloom_filter, profile), after))


def encode_entry(entry: HistoryEntry, profile: Profile) -> bytes:
    """One entry of the causal history with its tag and length, as `assemble` takes it."""
    return with_length(TAG_BYTES[profile]["causal_history"], entry_body(entry, profile))


def bloom_field(value: bytes | None, profile: Profile) -> bytes:
    """The field of the bloom filter, which stands between the two parts that `assemble` gives."""
    if value is None:
        if not PROFILES[profile].empty_is_absent:
            return b""
        value = b""
    return with_length(TAG_BYTES[profile]["bloom_filter"], value)


def assemble(
    profile: Profile,
    sender_id: str,
    message_id: str,
    channel_id: str,
    lamport: int | None,
    history: Iterable[bytes],
    content: bytes | None,
    repair: Iterable[HistoryEntry] = (),
) -> tuple[bytes, bytes]:
    """A message's bytes before and behind its bloom filter; `history` holds what `encode_entry` gives."""
    facts = PROFILES[profile]
    tags = TAG_BYTES[profile]
    if facts.empty_is_absent:
        content = content or b""
    elif lamport is None and not content:
        raise MessageKindError("neither a Lamport timestamp nor content")
    fields = {
        "sender_id": _id_field(facts, tags, "sender_id", sender_id),
        "message_id": _id_field(facts, tags, "message_id", message_id),
        "channel_id": _id_field(facts, tags, "channel_id", channel_id),
        "lamport_timestamp": _lamport_field(facts, tags["lamport_timestamp"], lamport),
        "causal_history": b"".join(history),
        "content": b"" if content is None else with_length(tags["content"], content),
        "repair_request": b"".join(
            [with_length(tags["repair_request"], entry_body(entry, profile)) for entry in repair]
        ),
    }
    return (
        b"".join([fields[name] for name in facts.before_bloom]),
        b"".join([fields[name] for name in facts.after_bloom]),
    )


def _id_field(facts: WireProfile, tags: Mapping[str, bytes], name: str, value: str) -> bytes:
    if not value and name in facts.required_filled:
        raise FieldMissingError(f"the {name} is empty")
    # nim writes what it requires; all else that is empty is left out, as protobuf does.
    if not value and name not in facts.required:
        return b""
    return with_length(tags[name], id_bytes(value))


def _lamport_field(facts: WireProfile, tag_bytes: bytes, lamport: int | None) -> bytes:
    if lamport is None:
        if "lamport_timestamp" in facts.required:
            raise FieldMissingError(f"profile {facts.name} has no message without a Lamport timestamp")
        return b""
    if not 0 <= lamport <= facts.lamport_most:
        raise LamportRangeError(f"the Lamport timestamp {lamport} is not between 0 and {facts.lamport_most}")
    return tag_bytes + varint(lamport)


def decode(data: bytes, profile: Profile, *, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> Message:
    """The message that bytes say. Raises MessageError for bytes that are none."""
    return Decoder(profile, max_bytes=max_bytes, cached_entries=0).decode(data)
