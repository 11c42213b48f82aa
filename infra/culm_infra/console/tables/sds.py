"""Tables of SDS: channels, and the acknowledgements of the messages of hosted participants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from culm_infra.console.tables import (
    ConsoleTable,
    Detail,
    DetailField,
    DetailSection,
    NotFound,
    TableContext,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.follower import FollowedForm, combined
from culm_infra.console.tables.packed import Match, above
from culm_infra.console.tables.paging import TableSources, columns, fields_of, key_bytes, page_of
from culm_infra.console.tables.scan import RunningScan, newest
from culm_topics.errors import RecordError
from culm_topics.readers.batch import TopicMessage
from culm_topics.sds.ack_status import ChannelStatus, ParticipantStatus, apply_ack
from culm_topics.sds.keys import AckKey, AckKind, channel_key, shard_of, split_ack_key, split_channel_key
from culm_topics.sds.records import SdsAckRecord, SdsEventRecord

_ID_AT: Final = 3
"""Position of the channel id in a key of `sds.acks`."""
_SHOWN_MESSAGES: Final = 200
_SHOWN_EVENTS: Final = 20
_CHANNELS: Final = bytes((AckKind.CHANNEL,))
_MESSAGES: Final = bytes((AckKind.MESSAGE,))
_NOTHING: Final = "no channels yet: `culm job run sds` writes them when a participant joins one"


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the tables."""
    sources = TableSources.of(context)
    channels = ChannelsTable(sources)
    return channels, MessagesTable(channels, sources)


def _check(key: bytes, value: bytes) -> None:
    apply_ack({}, key, value)


ACKS: Final = FollowedForm("sds.acks", _check)


class ChannelsTable:
    """Channels as the job `sds` last wrote them, the shortest ids first."""

    spec = TableSpec(
        "sds-channels",
        "sds",
        "Channels",
        "Every channel with its ordered, waiting, missing and lost messages, and those not acknowledged.",
        columns(
            "channel id Channel",
            "profile text Profile",
            "log count Ordered",
            "waiting count Waiting",
            "missing count Missing",
            "lost count Lost",
            "outgoing count Not acknowledged",
            "participants count Participants",
            "ahead_ms count Clock ahead (ms)",
            "time_ms time Clock",
            "state state State",
        ),
        "part of a channel id",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topic = sources.follow(ACKS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return channels after the cursor."""
        match = _match(search)
        return page_of(self._topic, _CHANNELS, _summary_row, cursor, limit, match=match, if_empty=_NOTHING)

    def detail(self, key: str) -> Detail:
        """Return a channel: its participants, messages without acknowledgement, and newest events."""
        extent = self._topic.extent()
        try:
            channel_id = split_channel_key(key_bytes(key))
        except RecordError as error:
            raise NotFound(f"there is no channel {key[:80]!r}: {error}") from error
        with self._sources.scans.open() as scan:
            status, note = self._status(channel_id, scan)
            events = newest(
                scan,
                self._sources.kafka,
                "sds.events",
                lambda count: shard_of(channel_id, count),
                channel_key(channel_id),
                _SHOWN_EVENTS,
            )
        fields = fields_of(self.spec, _channel_row(channel_id, status).cells)
        summary = status.summary
        if summary is not None:
            fields += [
                DetailField("Lamport timestamp", summary.lamport_timestamp, "count"),
                DetailField("Events", summary.event_number, "count"),
                DetailField("Next due", summary.next_due_ms, "time"),
            ]
        waiting = [
            [participant, *_message_cells(message_id, message)]
            for participant, hosted in sorted(status.participants.items())
            for message_id, message in hosted.messages.items()
            if message.next_due_ms is not None
        ]
        state = combined([extent], note)
        return Detail(
            f"channel {channel_id}",
            fields,
            (
                DetailSection(
                    "Hosted participants",
                    _PARTICIPANT_COLUMNS,
                    [_participant_cells(*participant) for participant in sorted(status.participants.items())],
                    state.note,
                ),
                DetailSection(
                    "Messages that are not acknowledged",
                    columns("participant id Participant", *_MESSAGE_COLUMNS),
                    waiting[:_SHOWN_MESSAGES],
                    f"the first {_SHOWN_MESSAGES} of {len(waiting):,}"
                    if len(waiting) > _SHOWN_MESSAGES
                    else None,
                ),
                DetailSection(
                    "Newest events",
                    _EVENT_COLUMNS,
                    [_event_cells(message) for message in events.messages],
                    events.note,
                ),
            ),
            scan.result(),
        )

    def _status(self, channel_id: str, scan: RunningScan) -> tuple[ChannelStatus, str | None]:
        """Read the rows of one channel. Raises `NotFound`."""
        channels: dict[str, ChannelStatus] = {}
        suffix = AckKey(channel_id).encode()[1:]
        note = None
        for kind in AckKind:
            low = bytes((kind,)) + suffix
            for key, value in self._topic.records.select(low, above(low)):
                if not scan.goes_on:
                    note = "not all messages of this channel were read in this time"
                    break
                scan.records += 1
                apply_ack(channels, key, value)
        if channel_id not in channels:
            raise NotFound(f"no channel {channel_id[:80]!r} is in sds.acks")
        return channels[channel_id], note


class MessagesTable:
    """The acknowledgement state of each message of hosted participants; a row leads to its channel."""

    spec = TableSpec(
        "sds-acknowledgements",
        "sds",
        "Acknowledgements",
        "Every message of a hosted participant with its acknowledgement state; of finished messages the "
        "newest 1,000 of each participant.",
        columns(
            "channel id Channel",
            "participant id Participant",
            "message id Message",
            "state state State",
            "evidence list Received by",
            "attempts count Sent again",
            "next_due_ms time Next due",
        ),
        "part of a channel, participant or message id",
    )

    def __init__(self, channels: ChannelsTable, sources: TableSources) -> None:
        self._channels = channels
        self._topic = sources.follow(ACKS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return messages after the cursor."""
        return page_of(self._topic, _MESSAGES, _message_row, cursor, limit, match=_match(search))

    def detail(self, key: str) -> Detail:
        """Return the channel of a message."""
        return self._channels.detail(key)


_SEVERITY: Final = {"unacknowledged": 1, "possibly_acknowledged": 0, "acknowledged": 0, "gave_up": 2}
_PARTICIPANT_COLUMNS: Final = columns(
    "participant id Participant",
    "joined time Joined",
    "unacknowledged count Not acknowledged",
    "possibly count Possibly acknowledged",
    "acknowledged count Acknowledged",
    "gave_up count Given up",
)
_MESSAGE_COLUMNS: Final = (
    "message id Message",
    "state state State",
    "evidence list Received by",
    "attempts count Sent again",
    "next_due_ms time Next due",
)
_EVENT_COLUMNS: Final = columns(
    "number count Number",
    "time time Clock",
    "kind state Event",
    "participant id Participant",
    "message id Message",
)


def _match(search: str) -> Match | None:
    return Match(search.encode(), _ID_AT, anywhere=True) if search else None


def _summary_row(key: bytes, value: bytes) -> TableRow:
    channels: dict[str, ChannelStatus] = {}
    apply_ack(channels, key, value)
    ((channel_id, status),) = channels.items()
    return _channel_row(channel_id, status)


def _channel_row(channel_id: str, status: ChannelStatus) -> TableRow:
    summary = status.summary
    names = ("profile", "log", "waiting", "missing", "lost", "outgoing", "participants", "time_ms")
    cells: dict[str, Any] = {
        "channel": channel_id,
        **{name: None if summary is None else getattr(summary, name) for name in names},
        "ahead_ms": status.ahead_ms,
    }
    state, severity = "complete", 0
    if cells["lost"]:
        state, severity = "messages lost", 2
    elif cells["missing"]:
        state, severity = "messages missing", 1
    elif cells["outgoing"]:
        state = "not acknowledged"
    return TableRow(channel_key(channel_id).hex(), cells | {"state": state}, severity)


def _message_row(raw: bytes, value: bytes) -> TableRow:
    key, record = split_ack_key(raw), SdsAckRecord.decode(value)
    assert key.message_id is not None, "keys of this kind have one"
    names = ("message", "state", "evidence", "attempts", "next_due_ms")
    cells = {"channel": key.channel_id, "participant": key.participant_id} | dict(
        zip(names, _message_cells(key.message_id, record), strict=True)
    )
    return TableRow(channel_key(key.channel_id).hex(), cells, _SEVERITY[record.state])


def _participant_cells(participant_id: str, status: ParticipantStatus) -> list[Any]:
    counts, row = status.counts(), status.row
    return [
        participant_id,
        None if row is None else row.joined_ms,
        counts["unacknowledged"] if row is None else row.unacknowledged,
        counts["possibly_acknowledged"] if row is None else row.possibly_acknowledged,
        counts["acknowledged"],
        counts["gave_up"],
    ]


def _message_cells(message_id: str, record: SdsAckRecord) -> list[Any]:
    state = record.state.replace("_", " ")
    return [message_id, state, list(record.evidence), record.attempts, record.next_due_ms]


def _event_cells(message: TopicMessage) -> list[Any]:
    try:
        event = SdsEventRecord.decode(message.value)
    except RecordError as error:
        return [None, message.timestamp_ms, f"malformed: {error}", None, None]
    return [
        event.number,
        event.time_ms,
        event.kind.replace("_", " "),
        event.participant_id,
        event.message_id or None,
    ]
