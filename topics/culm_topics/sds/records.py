"""Values of the `sds.*` topics.

First the parts that several of them share: ids, hints and details. Then the records of connectors (`sds.in`,
`sds.commands`), the records of the job (`sds.out`, `sds.events`, `sds.acks`, `sds.fetch`), the store and the
positions of messages in it (`sds.messages`, `sds.index`), and the owners of channels and ids (`sds.owners`).
"""

import math
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, get_args

from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import ConnectorId, PeerId
from culm_topics.records.kinds import (
    ItemKind,
    between,
    counted,
    row,
    rule,
    sized,
    sized_between,
)
from culm_topics.records.shape import MAX_UINT, item_size, require
from culm_topics.sds.keys import MAX_ID_BYTES

MAX_HINT_BYTES = 1_024
"""Limit of a retrieval hint in a record, in bytes."""
MAX_DETAILS = 64
"""Limit of entries in a map of settings or details."""
MAX_DETAIL_ITEMS = 10_000
"""Limit of items in a list among the details."""
MAX_NAME_BYTES = 64

Detail = None | bool | int | float | str | bytes | tuple[str, ...]
"""One detail: a number (a float is finite and written with 64 bits), a text, bytes, several ids, or None."""
Details = Mapping[str, Detail]
"""Details by name. They are written in the order of the names' bytes, whatever the order of insertion."""

SomeProfile = Annotated[Profile, rule("profile")]
SomeId = Annotated[str, sized_between(1, MAX_ID_BYTES), rule("id")]
SenderId = Annotated[str, sized_between(0, MAX_ID_BYTES), rule("sender-id")]
"""An id that may be empty."""
Hint = Annotated[bytes, sized_between(0, MAX_HINT_BYTES), rule("hint")]


def _packed_details(details: Details) -> dict[str, Any]:
    """Return the details as they are written: sorted by name, so that equal details give equal bytes.

    Raises `RecordError` for more than `MAX_DETAILS`, and for malformed names.
    """
    require(len(details) <= MAX_DETAILS, "details", f"more than {MAX_DETAILS} of them")
    for name in details:
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise RecordError(f"details: a name that is not 1 to {MAX_NAME_BYTES} bytes")
    return dict(sorted(details.items(), key=lambda item: item[0].encode()))


def _read_details(items: Mapping[str, Any]) -> dict[str, Detail]:
    return {name: tuple(item) if type(item) is list else item for name, item in items.items()}


def _are_details(items: dict[Any, Any]) -> bool:
    for name, item in items.items():
        if type(name) is not str or not 1 <= len(name.encode()) <= MAX_NAME_BYTES or not _is_detail(item):
            return False
    return all(before.encode() < after.encode() for before, after in pairwise(items))


def _is_detail(item: object) -> bool:
    if type(item) is float:
        return math.isfinite(item)
    if type(item) is int:
        return 0 <= item <= MAX_UINT
    if type(item) is list:
        return len(item) <= MAX_DETAIL_ITEMS and all(type(text) is str for text in item)
    return item is None or type(item) in (bool, str, bytes)


_DETAIL: Final = ItemKind(
    "uint / float64 / bool / tstr / bstr / [*10000 tstr] / null", "a detail", "True", rule="detail"
)
DETAILS: Final = ItemKind(
    cddl="{* tstr => detail}",
    wanted=f"a map of at most {MAX_DETAILS} details, sorted by names of at most {MAX_NAME_BYTES} bytes",
    sound=f"type({{x}}) is dict and len({{x}}) <= {MAX_DETAILS} and are_details({{x}})",
    size="item_size({x})",
    read="read_details({x})",
    write="packed_details({x})",
    names={
        "are_details": _are_details,
        "item_size": item_size,
        "read_details": _read_details,
        "packed_details": _packed_details,
    },
    rule="details",
    note=f"at most {MAX_DETAILS}, names of 1 to {MAX_NAME_BYTES} bytes, sorted by name",
    uses={"detail": _DETAIL},
)
SomeDetails = Annotated[Details, DETAILS]


@record(
    "sds.in", "a message of an SDS channel as a connector received or fetched it. Key: channel id in UTF-8."
)
class SdsInRecord(Record):
    """Value of `sds.in`; its key is the channel's.

    `wire` is the message in the channel's `profile`, unchecked. `peer_id` is the peer that sent it, or None
    if it comes from the store. `retrieval_hint` is its place in the transport or the store. `connector`, 8 to
    32 bytes, is the connector that wrote the record: it has forwarded the message to its own peers.
    """

    profile: SomeProfile
    wire: Annotated[bytes, "the message's bytes, not validated"]
    peer_id: Annotated[PeerId | None, "the peer that sent it; null: it was fetched from the store"] = None
    retrieval_hint: Hint | None = None
    connector: Annotated[
        ConnectorId | None, "the connector that received it, and has relayed it to its own peers"
    ] = None


SdsCommand = Literal["join", "leave", "send", "ephemeral", "resend", "open", "transfer"]
"""`join` and `leave` the channel; `send` a content, or an `ephemeral` one; `resend` unacknowledged messages
now.

`open`: a full participant has joined a channel without participants. Sent by an operator: the channel changes
its owner, and starts again if its profile differs. `transfer`: an operator gives a hosted id to a key.
"""

COMMANDS: tuple[SdsCommand, ...] = get_args(SdsCommand)
TOKEN_SIZE = 16


@record("sds.commands", "a command of a hosted participant. Key: channel id in UTF-8.")
class SdsCommandRecord(Record):
    """Value of `sds.commands`; its key is the channel's.

    `token` (16 bytes) is drawn at random by the requester and repeated in its retries: the job executes a
    command once, and derives a message's id from it; the resulting events name it. `content` belongs to
    `send` and `ephemeral`. For `send`, `message_id` is the id that the caller chose; for `resend` it is the
    message to send again, or None for all. For `join`, `settings` are those settings of the channel that
    differ from the profile's, by their names in `culm_models.sds.settings`; the first `join` of the channel's
    owner decides. `peer_id` is the key that made the request at a connector; None stands for an operator, who
    may do anything. For `open` and `transfer` by an operator, `content` is the new owner's key, or None for
    the operator.
    """

    kind: Annotated[SdsCommand, rule("command")]
    profile: SomeProfile
    participant_id: SomeId
    token: Annotated[bytes, sized(TOKEN_SIZE), "random; a repeated command has the same token"]
    content: Annotated[
        bytes | None, 'of "send" and "ephemeral"; of an operator\'s "open" and "transfer": the owner'
    ] = None
    message_id: Annotated[
        SomeId | None, 'of "send": chosen by the caller; of "resend": the message to send again'
    ] = None
    settings: Annotated[SomeDetails, 'of "join": the settings that differ from those of the profile'] = field(
        default_factory=dict
    )
    peer_id: Annotated[PeerId | None, "the key that sent the command to a connector; null: an operator"] = (
        None
    )


SdsOutKind = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""Reason for sending a message: first time, retry, sync (without content), repair, or ephemeral."""


@record("sds.out", "a message that a hosted participant broadcasts. Key: channel id in UTF-8.")
class SdsOutRecord(Record):
    """Value of `sds.out`; its key is the channel's. `participant_id` is the sender.

    The author of the message in a `repair` may be another participant.
    """

    profile: SomeProfile
    kind: Annotated[SdsOutKind, rule("out-kind")]
    participant_id: Annotated[SomeId, "the participant that broadcasts it"]
    message_id: SomeId
    wire: Annotated[bytes, "the message's bytes; the same whenever it is sent again"]


SdsEventKind = Literal[
    "joined",
    "left",
    "sent",
    "received",
    "delivered",
    "missing",
    "lost",
    "possibly_acknowledged",
    "acknowledged",
    "gave_up",
    "sync_sent",
    "sync_received",
    "repair_requested",
    "repair_answered",
    "rejected",
]
"""`joined` and `left` are events of the job: a participant is, or is no longer, hosted. The others are the
events of `culm_models.sds.events`, except those about a clock other than the records' times."""


@record("sds.events", "what happened in a channel. Key: channel id in UTF-8.")
class SdsEventRecord(Record):
    """Value of `sds.events`; its key is the channel's.

    Numbers count from 1 within each channel, without holes, and the job gives an event the same number and
    bytes if a batch runs again: a reader drops events whose number is not above the last one it has
    (`culm_topics.sds.events`).

    `participant_id` is the hosted participant that the event concerns, or None if it concerns the whole
    channel (as a delivery does). `message_id` is empty if no message can be determined. `time_ms` is the
    channel's clock: the time at which the input's record was stored, or the timer was due. `details` are the
    further fields of the event under their names in `culm_models.sds.events`, for `missing` only the ids;
    fields that are None are left out. In addition, an event that results from a command has its `token`.
    `content` is that of a sent or delivered message.
    """

    number: Annotated[int, between(1), "of the channel, without holes; a repeated event has the same"]
    kind: Annotated[SdsEventKind, rule("event-kind")]
    participant_id: Annotated[
        SomeId | None, "the hosted participant whom it concerns; null: the whole channel"
    ]
    message_id: Annotated[SenderId, "empty if unknown"]
    time_ms: Annotated[int, "by the channel's clock"]
    details: Annotated[SomeDetails, "the event's further fields, by name"] = field(default_factory=dict)
    content: Annotated[bytes | None, "of a sent or delivered message"] = None


# `sds.acks` is compacted: the last record of a key counts. A participant that leaves gets tombstones for its
# own row and its messages'; the newest 1,000 finished messages per participant stay. The job writes a row
# when a batch changes it, so a row may be older than its channel's summary, but never newer.
AckState = Literal["unacknowledged", "possibly_acknowledged", "acknowledged", "gave_up"]
MAX_EVIDENCE = 64
"""Limit of senders in one row; a message is acknowledged long before."""


@record("sds.acks", "Key: u8 0, u16 length of the channel id, channel id.", rule="sds-channel")
class SdsChannelRecord(Record):
    """A channel's summary, shown by `culm sds status`. All counts are as of `time_ms`.

    `lamport_timestamp` is in the profile's unit. `log` counts the ordered messages, `waiting` those with
    unmet dependencies, `missing` the ids they wait for, `lost` the ids given up since the channel began,
    `outgoing` the messages of all hosted participants that are not acknowledged. `event_number` is the last
    event's. `next_due_ms` is when the channel's timer is due, or None if it is idle.
    """

    profile: SomeProfile
    time_ms: Annotated[int, "the channel's clock"]
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    log: Annotated[int, "ordered messages"]
    waiting: Annotated[int, "messages with unmet dependencies"]
    missing: Annotated[int, "ids that these messages wait for"]
    lost: Annotated[int, "ids that were given up since the channel began"]
    outgoing: Annotated[int, "messages that are not acknowledged"]
    participants: Annotated[int, "hosted participants"]
    event_number: Annotated[int, "of the last event"]
    next_due_ms: Annotated[int | None, "time of the next action; null: idle"] = None


@record("sds.acks", "Key: u8 1, u16 length, channel id, u16 length, participant id.", rule="sds-participant")
class SdsParticipantRecord(Record):
    """A hosted participant of a channel: when it joined, and the sizes of its outgoing buffer by state."""

    joined_ms: int
    unacknowledged: int = 0
    possibly_acknowledged: int = 0


@record(
    "sds.acks", "Key: u8 2, u16 length, channel id, u16 length, participant id, message id.", rule="sds-ack"
)
class SdsAckRecord(Record):
    """The acknowledgements of a hosted participant's message.

    `evidence` names the distinct senders whose bloom filter or causal history holds it, sorted by their
    bytes. `attempts` counts the times it was sent again. `next_due_ms` is when the next attempt is due, or
    None if the state is final.
    """

    state: Annotated[AckState, rule("ack-state")]
    evidence: Annotated[
        tuple[SenderId, ...], counted(MAX_EVIDENCE), "distinct senders that have the message"
    ] = ()
    attempts: Annotated[int, "number of times that it was sent again"] = 0
    next_due_ms: Annotated[int | None, "null: the state is final"] = None


MAX_FETCH_ENTRIES = 1_000
"""Limit of messages in one record; larger requests need several records."""

_Entry = Annotated[
    HistoryEntry,
    row(HistoryEntry, message_id=SomeId, retrieval_hint=Hint | None, sender_id=SenderId | None),
    rule("fetch-entry"),
]


@record("sds.fetch", "missing messages of a channel. Key: channel id in UTF-8.")
class SdsFetchRecord(Record):
    """Value of `sds.fetch`; its key is the channel's.

    `entries` name the messages, each with its known hint and sender. `attempt` counts from 1: the first
    attempts ask the store, later ones also peers.
    """

    profile: SomeProfile
    entries: Annotated[tuple[_Entry, ...], counted(MAX_FETCH_ENTRIES, 1)]
    attempt: Annotated[int, "from 1"]


@record("sds.messages", "the store, every content message of every channel. Key: channel id in UTF-8.")
class SdsMessageRecord(Record):
    """Value of `sds.messages`; its key is the channel's.

    It is a function of the message alone: every writer writes the same bytes, and readers take the first
    record of an id.

    `message_id`, `sender_id` (may be empty) and `lamport_timestamp` (in the profile's unit) are those of the
    message in `wire`. `retrieval_hint` is its hint in another transport's store.
    """

    profile: SomeProfile
    message_id: SomeId
    sender_id: SenderId
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    wire: Annotated[bytes, "the message's bytes"]
    retrieval_hint: Annotated[Hint | None, "identifies the message in another transport's store"] = None


CHECK_SIZE = 4
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
MAX_SIZE = 2**32 - 1


def check_of(wire: bytes) -> bytes:
    """Return the first 4 bytes of a message's SHA-256, to check that a record is the expected one."""
    return sha256(wire).digest()[:CHECK_SIZE]


@record("sds.index", "the place of a message. Key: u16 length of the channel id, channel id, message id.")
class SdsIndexRecord(Record):
    """Value of `sds.index`; its key is the channel and the message (`index_key`).

    `size` is the number of the message's bytes, `check` their `check_of`, `retrieval_hint` the hint of
    another transport's store, as in `sds.messages`.
    """

    partition: Annotated[int, between(0, MAX_PARTITION), "of `sds.messages`"]
    offset: Annotated[int, between(0, MAX_OFFSET)]
    lamport_timestamp: int
    sender_id: SenderId
    size: Annotated[int, between(0, MAX_SIZE), "bytes of the message"]
    check: Annotated[bytes, sized(CHECK_SIZE), "the first bytes of its SHA-256"]
    retrieval_hint: Annotated[Hint | None, "identifies the message in another transport's store"] = None


OwnedRole = Literal["channel", "hosted", "bound"]
"""A channel itself; an id that the job hosts, or has hosted; a full participant's sender id, if the channel
binds sender ids to keys."""


@record(
    "sds.owners",
    "the owner of a channel or a participant id. Key: u16 length of the channel id, channel id, "
    "participant id; the row of the channel itself has no participant id.",
)
class SdsOwnerRecord(Record):
    """Value of `sds.owners`; its key is the channel's id, and the participant's (`owner_key`).

    Compacted: the last record of a key counts, and there are no tombstones. The job decides by the order of
    its input, and connectors enforce the result for their peers.

    `peer_id` is the owner's key, or None for the operator. `profile` is the channel's. `time_ms` is the start
    of the ownership.
    """

    role: Annotated[OwnedRole, rule("role")]
    profile: Annotated[SomeProfile, "the channel's"]
    peer_id: Annotated[PeerId | None, "the key that owns it; null: the operator"]
    time_ms: Annotated[int, "time at which it became the owner"]
