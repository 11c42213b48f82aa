"""Messages of an SDS channel (specification "Payloads"), and the differences between the dialects of SDS.

Ids of sent messages are derived from the message: they are unique even for equal contents, and identical if
an input is replayed. Values are checked when bytes are decoded (`codec`), not here.

A profile is one row of facts, with its tags. `spec` has the field numbers of the specification with its later
additions (64-bit Lamport timestamps in milliseconds, field 13 and the sender of a history entry). `js` is the
format of @waku/sds 0.0.8, `nim` that of nim-sds and everything built on it. js and nim cannot understand each
other at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from culm_models.varint import write_varint

Profile: TypeAlias = Literal["spec", "js", "nim"]
"""The wire format of a channel; every participant of a channel must use the same one (see `PROFILES`)."""

MessageKind: TypeAlias = Literal["content", "sync", "ephemeral"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Another message of the channel by its id, how to fetch it, and its sender, as far as known.

    With `sender_id` the sender of that message can answer a repair request first (SDS-R).
    """

    message_id: str
    retrieval_hint: bytes | None = None
    sender_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel.

    `lamport_timestamp`: in the unit of the channel's profile; absent in ephemeral messages. `causal_history`:
    the end of the sender's log, oldest first. `bloom_filter`: the field's bytes as they are on the wire, in
    profile nim the nested container. `repair_request`: messages that the sender is missing.
    """

    sender_id: str
    message_id: str
    channel_id: str
    lamport_timestamp: int | None = None
    causal_history: tuple[HistoryEntry, ...] = ()
    bloom_filter: bytes | None = None
    content: bytes | None = None
    repair_request: tuple[HistoryEntry, ...] = ()

    @property
    def kind(self) -> MessageKind:
        """Content, sync (a Lamport timestamp without content) or ephemeral (no Lamport timestamp)."""
        if self.lamport_timestamp is None:
            return "ephemeral"
        return "content" if self.content else "sync"


_DIGEST_BYTES: Final = 8


def content_message_id(channel_id: str, sender_id: str, nonce: bytes, content: bytes) -> str:
    """Return the hex SHA-256 of channel, sender, nonce and content, each after its 8-byte length."""
    parts = (channel_id.encode(), sender_id.encode(), nonce, content)
    return sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts])).hexdigest()


def message_digest(sender_id: str, content: bytes) -> bytes:
    """Return 8 bytes that distinguish two messages of one id, as a hash of sender and content.

    The Lamport timestamp is not included: @waku/sds gives a message that it sends again a new one.
    """
    digest = blake2b(content, digest_size=_DIGEST_BYTES)
    digest.update(sender_id.encode())
    return digest.digest()


BloomLayout: TypeAlias = Literal["spec", "js", "nim"]
RepairHash: TypeAlias = Literal["sha256", "farmhash"]
"""The hash with which SDS-R spreads repair requests: `sha256` in spec and js, `farmhash` in nim."""

VARINT: Final = 0
LENGTH: Final = 2
"""Wire types of protobuf."""

ENTRY_MESSAGE_ID: Final = 1
ENTRY_RETRIEVAL_HINT: Final = 2
ENTRY_SENDER_ID: Final = 3


@dataclass(frozen=True, slots=True)
class FieldNumbers:
    """The protobuf field number of each part of a message; those of a history entry are fixed."""

    sender_id: int
    message_id: int
    channel_id: int
    lamport_timestamp: int
    causal_history: int
    bloom_filter: int
    repair_request: int
    content: int


@dataclass(frozen=True, slots=True)
class WireProfile:
    """One dialect.

    `before_bloom` and `after_bloom`: the fields in the order in which they are written, around the filter.
    `required`: fields that a message must have; `required_filled`: fields that must also not be empty.
    `strict`: refuses numbers that are not in their shortest form, and groups, which protobuf allows.
    `empty_is_absent`: empty strings and bytes mean "none", so fields that have no other way to be absent
    (nim's content and filter) are always written, and empty hints and senders never. `kinds`: the kinds of
    messages of this dialect. `lamport_max`: the largest Lamport timestamp; `lamport_unit_ms`: the length of
    its unit in milliseconds; `lamport_receipt_step`: the number added to max(own, received) on receipt.
    """

    name: Profile
    fields: FieldNumbers
    before_bloom: tuple[str, ...]
    after_bloom: tuple[str, ...]
    required: frozenset[str]
    required_filled: frozenset[str]
    strict: bool
    empty_is_absent: bool
    kinds: frozenset[MessageKind]
    lamport_max: int
    lamport_unit_ms: int
    lamport_receipt_step: int
    bloom_layout: BloomLayout
    repair_hash: RepairHash

    def lamport_now(self, now_ms: int) -> int:
        """Return the Lamport timestamp of a time, in this profile's unit."""
        return now_ms // self.lamport_unit_ms

    def lamport_to_send(self, own: int, now_ms: int) -> int:
        """Return the Lamport timestamp of the next message: that of the time, but above `own`."""
        return max(self.lamport_now(now_ms), own + 1)

    def lamport_after(self, own: int, received: int) -> int:
        """Return a participant's Lamport timestamp after `own`, when a message with `received` arrives."""
        return max(own, received) + self.lamport_receipt_step


_SPEC_FIELDS: Final = FieldNumbers(
    sender_id=1,
    message_id=2,
    channel_id=3,
    lamport_timestamp=10,
    causal_history=11,
    bloom_filter=12,
    repair_request=13,
    content=20,
)
_NIM_FIELDS: Final = FieldNumbers(
    message_id=1,
    lamport_timestamp=2,
    causal_history=3,
    channel_id=4,
    content=5,
    bloom_filter=6,
    sender_id=7,
    repair_request=13,
)
_BEFORE_BLOOM: Final = ("sender_id", "message_id", "channel_id", "lamport_timestamp", "causal_history")
_AFTER_BLOOM: Final = ("repair_request", "content")
_IDS: Final = frozenset({"sender_id", "message_id", "channel_id"})
_ALL_KINDS: Final[frozenset[MessageKind]] = frozenset({"content", "sync", "ephemeral"})

_SPEC: Final = WireProfile(
    name="spec",
    fields=_SPEC_FIELDS,
    before_bloom=_BEFORE_BLOOM,
    after_bloom=_AFTER_BLOOM,
    required=_IDS,
    required_filled=_IDS,
    strict=False,
    empty_is_absent=False,
    kinds=_ALL_KINDS,
    lamport_max=(1 << 64) - 1,
    lamport_unit_ms=1,
    lamport_receipt_step=0,
    bloom_layout="spec",
    repair_hash="sha256",
)

PROFILES: Final[Mapping[Profile, WireProfile]] = MappingProxyType(
    {
        "spec": _SPEC,
        "js": replace(_SPEC, name="js", required=frozenset(), required_filled=frozenset(), bloom_layout="js"),
        "nim": WireProfile(
            name="nim",
            fields=_NIM_FIELDS,
            before_bloom=("message_id", "lamport_timestamp", "causal_history", "channel_id", "content"),
            after_bloom=("sender_id", "repair_request"),
            required=frozenset({"message_id", "lamport_timestamp", "channel_id", "content"}),
            required_filled=frozenset(),
            strict=True,
            empty_is_absent=True,
            kinds=frozenset({"content"}),
            lamport_max=(1 << 63) - 1,
            lamport_unit_ms=1_000,
            lamport_receipt_step=1,
            bloom_layout="nim",
            repair_hash="farmhash",
        ),
    }
)


TEXT_FIELDS: Final = ("sender_id", "message_id", "channel_id")
_FIELDS: Final = (
    *TEXT_FIELDS,
    "lamport_timestamp",
    "causal_history",
    "repair_request",
    "bloom_filter",
    "content",
)


def tag(number: int, wire_type: int) -> int:
    """Return the tag of a field as a number."""
    return number << 3 | wire_type


def _tag_of(profile: WireProfile, name: str) -> int:
    number: int = getattr(profile.fields, name)
    return tag(number, VARINT if name == "lamport_timestamp" else LENGTH)


TAGS: Final[Mapping[Profile, Mapping[str, int]]] = {
    name: {field: _tag_of(profile, field) for field in _FIELDS} for name, profile in PROFILES.items()
}
TAG_BYTES: Final[Mapping[Profile, Mapping[str, bytes]]] = {
    name: {field: write_varint(found) for field, found in tags.items()} for name, tags in TAGS.items()
}
NAMES: Final[Mapping[Profile, Mapping[int, str]]] = {
    name: {found: field for field, found in tags.items()} for name, tags in TAGS.items()
}
NUMBERS: Final[Mapping[Profile, frozenset[int]]] = {
    name: frozenset(found >> 3 for found in tags.values()) for name, tags in TAGS.items()
}
