"""Values of the `sds.*` topics.

First what several of them have: ids, hints and details. Then what connectors bring (`sds.in`,
`sds.commands`), what the job answers (`sds.out`, `sds.events`, `sds.acks`, `sds.fetch`), the store and where
a message lies in it (`sds.messages`, `sds.index`), and whose a channel or an id is (`sds.owners`).
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
    Kind,
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
"""The longest retrieval hint that a record takes."""
MAX_DETAILS = 64
"""Entries of one map of settings or details."""
MAX_DETAIL_ITEMS = 10_000
"""Items of one list among the details."""
MAX_NAME_BYTES = 64

Detail = None | bool | int | float | str | bytes | tuple[str, ...]
"""One detail: a number (a float is finite and written with 64 bits), a text, bytes, several ids, nothing."""
Details = Mapping[str, Detail]
"""By name, in the names' order of bytes; the order of insertion does not matter to what is written."""

SomeProfile = Annotated[Profile, rule("profile")]
SomeId = Annotated[str, sized_between(1, MAX_ID_BYTES), rule("id")]
SenderId = Annotated[str, sized_between(0, MAX_ID_BYTES), rule("sender-id")]
"""An id that may be empty."""
Hint = Annotated[bytes, sized_between(0, MAX_HINT_BYTES), rule("hint")]


def _packed_details(details: Details) -> dict[str, Any]:
    """The details as they are written: sorted by name, so that equal details give equal bytes.

    Raises `RecordError` for more than `MAX_DETAILS`, and for names that are no names.
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
        return len(item) <= MAX_DETAIL_ITEMS and all(type(one) is str for one in item)
    return item is None or type(item) in (bool, str, bytes)


_DETAIL: Final = Kind(
    "uint / float64 / bool / tstr / bstr / [*10000 tstr] / null", "a detail", "True", rule="detail"
)
DETAILS: Final = Kind(
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

    `wire` is the message in the channel's `profile`, unchecked. `peer_id` is the peer that brought it; none
    when it comes from the store. `retrieval_hint` is where the transport or the store has it. `connector`, 8
    to 32 bytes, is the connector that wrote the record: it has passed the message on to its own peers.
    """

    profile: SomeProfile
    wire: Annotated[bytes, "the message's bytes, unchecked"]
    peer_id: Annotated[PeerId | None, "the peer that brought it; null: it comes from the store"] = None
    retrieval_hint: Hint | None = None
    connector: Annotated[
        ConnectorId | None, "the connector that took it, and has passed it on to its own peers"
    ] = None


SdsCommand = Literal["join", "leave", "send", "ephemeral", "resend", "open", "transfer"]
"""`join` and `leave` the channel; `send` a content, or an `ephemeral` one; `resend` now what is unheard.

`open`: a full participant has joined a channel that nobody was in; of an operator: the channel changes hands,
and begins anew where its profile is another one. `transfer`: an operator gives a hosted id to a key.
"""

COMMANDS: tuple[SdsCommand, ...] = get_args(SdsCommand)
TOKEN_SIZE = 16


@record("sds.commands", "what a hosted participant asks for. Key: channel id in UTF-8.")
class SdsCommandRecord(Record):
    """Value of `sds.commands`; its key is the channel's.

    `token` (16 bytes) is drawn by whoever asks and is the same when it asks again: the job does a command
    once, and a message's id follows from it; the events that answer name it. `content` belongs to `send` and
    `ephemeral`. `message_id` is of `send` the id that the caller chose, of `resend` the one message that is
    meant, or none for all. `settings` are of `join` those of the channel that differ from the profile's own,
    by their names in `culm_models.sds.settings`; the first `join` of who owns the channel decides. `peer_id`
    is the key that asked a connector for it; none: an operator, who may do anything. Of `open` and `transfer`
    by an operator `content` is the key that is to own it, or none for the operator.
    """

    kind: Annotated[SdsCommand, rule("command")]
    profile: SomeProfile
    participant_id: SomeId
    token: Annotated[bytes, sized(TOKEN_SIZE), "drawn by whoever asks, the same when it asks again"]
    content: Annotated[
        bytes | None, 'of "send" and "ephemeral"; of an operator\'s "open" and "transfer": who owns it'
    ] = None
    message_id: Annotated[
        SomeId | None, 'of "send" chosen by the caller, of "resend" the one that is meant'
    ] = None
    settings: Annotated[SomeDetails, 'of "join": what differs from the profile\'s own settings'] = field(
        default_factory=dict
    )
    peer_id: Annotated[PeerId | None, "the key that asked a connector; null: an operator"] = None


SdsOutKind = Literal["new", "retry", "sync", "repair", "ephemeral"]
"""Why a message goes out: for the first time, again, without content, for somebody who lacks it, or once."""


@record("sds.out", "what a hosted participant broadcasts. Key: channel id in UTF-8.")
class SdsOutRecord(Record):
    """Value of `sds.out`; its key is the channel's. `participant_id` is who broadcasts it.

    Of `repair` the message may have been written by somebody else.
    """

    profile: SomeProfile
    kind: Annotated[SdsOutKind, rule("out-kind")]
    participant_id: Annotated[SomeId, "who broadcasts it"]
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
"""`joined` and `left` are the job's own: a participant is, or is no longer, hosted. The others are those of
`culm_models.sds.events`, without what concerns a clock apart from the records' times."""


@record("sds.events", "what happened in a channel. Key: channel id in UTF-8.")
class SdsEventRecord(Record):
    """Value of `sds.events`; its key is the channel's.

    The number is the channel's own, from 1 without holes, and the job gives an event the same number and
    bytes when a batch runs again: a reader drops what is not above the last number it has
    (`culm_topics.sds.events`).

    `participant_id` is the hosted participant whom it concerns, none where it concerns the whole channel (a
    delivery does). `message_id` is empty where no message can be told. `time_ms` is the channel's clock: when
    the input's record was taken, or the timer was due. `details` are the further fields of the event under
    their names in `culm_models.sds.events`, of `missing` the ids alone; what is None is left out. Besides,
    what a command brought about has its `token`. `content` is that of a sent or delivered message.
    """

    number: Annotated[int, between(1), "of the channel, without holes; a repeated event has the same"]
    kind: Annotated[SdsEventKind, rule("event-kind")]
    participant_id: Annotated[
        SomeId | None, "the hosted participant whom it concerns; null: the whole channel"
    ]
    message_id: Annotated[SenderId, "empty when none can be told"]
    time_ms: Annotated[int, "by the channel's clock"]
    details: Annotated[SomeDetails, "the event's further fields, by name"] = field(default_factory=dict)
    content: Annotated[bytes | None, "of a sent or delivered message"] = None


# `sds.acks` is compacted: the last record of a key counts. A participant that leaves gets tombstones for its
# own row and its messages'; of finished messages the newest 1,000 a participant stay. The job writes a row
# when a batch changes it, so a row may be older than its channel's summary, but never newer.
AckState = Literal["unacknowledged", "possibly_acknowledged", "acknowledged", "gave_up"]
MAX_EVIDENCE = 64
"""Senders that one row names; a message is acknowledged long before."""


@record("sds.acks", "Key: u8 0, u16 length of the channel id, channel id.", rule="sds-channel")
class SdsChannelRecord(Record):
    """A channel's summary: what `culm sds status` shows. Everything counts as of `time_ms`.

    `lamport_timestamp` is in the profile's unit. `log` counts the ordered messages, `waiting` those with
    unmet dependencies, `missing` the ids they wait for, `lost` the ids given up since the channel began,
    `outgoing` the messages of all hosted participants that are not acknowledged. `event_number` is the last
    event's. `next_due_ms` is when the channel's timer has something to do, none when it is idle.
    """

    profile: SomeProfile
    time_ms: Annotated[int, "the channel's clock"]
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    log: Annotated[int, "ordered messages"]
    waiting: Annotated[int, "messages with unmet dependencies"]
    missing: Annotated[int, "ids they wait for"]
    lost: Annotated[int, "ids given up since the channel began"]
    outgoing: Annotated[int, "messages that are not acknowledged"]
    participants: Annotated[int, "that are hosted"]
    event_number: Annotated[int, "of the last event"]
    next_due_ms: Annotated[int | None, "when something is to be done; null: idle"] = None


@record("sds.acks", "Key: u8 1, u16 length, channel id, u16 length, participant id.", rule="sds-participant")
class SdsParticipantRecord(Record):
    """A hosted participant of a channel: since when, and its outgoing buffer by state."""

    joined_ms: int
    unacknowledged: int = 0
    possibly_acknowledged: int = 0


@record(
    "sds.acks", "Key: u8 2, u16 length, channel id, u16 length, participant id, message id.", rule="sds-ack"
)
class SdsAckRecord(Record):
    """How far a message of a hosted participant is heard.

    `evidence` names the distinct senders whose bloom filter or causal history holds it, sorted by their
    bytes. `attempts` counts the times it was sent again. `next_due_ms` is when the next one is due, none when
    the state is final.
    """

    state: Annotated[AckState, rule("ack-state")]
    evidence: Annotated[tuple[SenderId, ...], counted(MAX_EVIDENCE), "distinct senders that hold it"] = ()
    attempts: Annotated[int, "times it was sent again"] = 0
    next_due_ms: Annotated[int | None, "null: the state is final"] = None


MAX_FETCH_ENTRIES = 1_000
"""Messages in one record; who wants more writes several."""

_Entry = Annotated[
    HistoryEntry,
    row(HistoryEntry, message_id=SomeId, retrieval_hint=Hint | None, sender_id=SenderId | None),
    rule("fetch-entry"),
]


@record("sds.fetch", "messages that a channel lacks. Key: channel id in UTF-8.")
class SdsFetchRecord(Record):
    """Value of `sds.fetch`; its key is the channel's.

    `entries` name the messages, each with the hint and the sender that were told with it. `attempt` counts
    from 1: the first ones ask the store, later ones peers too.
    """

    profile: SomeProfile
    entries: Annotated[tuple[_Entry, ...], counted(MAX_FETCH_ENTRIES, 1)]
    attempt: Annotated[int, "from 1"]


@record("sds.messages", "the store, every content message of every channel. Key: channel id in UTF-8.")
class SdsMessageRecord(Record):
    """Value of `sds.messages`; its key is the channel's.

    It is a function of the message alone: whoever writes it again writes the same bytes, and readers take the
    first record of an id.

    `message_id`, `sender_id` (may be empty) and `lamport_timestamp` (in the profile's unit) are those of the
    message in `wire`. `retrieval_hint` is what others fetch it by, of another transport's store.
    """

    profile: SomeProfile
    message_id: SomeId
    sender_id: SenderId
    lamport_timestamp: Annotated[int, "in the profile's unit"]
    wire: Annotated[bytes, "the message's bytes"]
    retrieval_hint: Annotated[Hint | None, "by which another transport's store has it"] = None


CHECK_SIZE = 4
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
MAX_SIZE = 2**32 - 1


def check_of(wire: bytes) -> bytes:
    """The first 4 bytes of the SHA-256 of a message: whether a record is still the one that was meant."""
    return sha256(wire).digest()[:CHECK_SIZE]


@record("sds.index", "where a message lies. Key: u16 length of the channel id, channel id, message id.")
class SdsIndexRecord(Record):
    """Value of `sds.index`; its key is the channel and the message (`index_key`).

    `size` is that of the message's bytes, `check` is `check_of` them, `retrieval_hint` the one of another
    transport's store, as in `sds.messages`.
    """

    partition: Annotated[int, between(0, MAX_PARTITION), "of `sds.messages`"]
    offset: Annotated[int, between(0, MAX_OFFSET)]
    lamport_timestamp: int
    sender_id: SenderId
    size: Annotated[int, between(0, MAX_SIZE), "bytes of the message"]
    check: Annotated[bytes, sized(CHECK_SIZE), "the first bytes of its SHA-256"]
    retrieval_hint: Annotated[Hint | None, "by which another transport's store has it"] = None


OwnedRole = Literal["channel", "hosted", "bound"]
"""A channel itself; an id that the job hosts, or has hosted; a full participant's sender id, where the
channel binds those to keys."""


@record(
    "sds.owners",
    "whose a channel or a participant id is. Key: u16 length of the channel id, channel id, participant id; "
    "a channel's own row has no participant id.",
)
class SdsOwnerRecord(Record):
    """Value of `sds.owners`; its key is the channel's id, and the participant's (`owner_key`).

    Compacted: the last record of a key counts, and there are no tombstones. The job decides by the order of
    its input, and connectors hold what peers say to it.

    `peer_id` is the key that owns it; none: the operator. `profile` is the channel's. `time_ms`: since when.
    """

    role: Annotated[OwnedRole, rule("role")]
    profile: Annotated[SomeProfile, "the channel's"]
    peer_id: Annotated[PeerId | None, "the key that owns it; null: the operator"]
    time_ms: Annotated[int, "since when"]
