"""The output of a channel as records: events, messages to broadcast and to fetch, refused data.

After a batch `sds.acks` receives the messages whose state changed, the participants and a summary. The newest
finished messages of each participant keep their rows. Older ones get tombstones, for which their ids are kept
in chunks, oldest first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple, cast

import cbor2

from culm_models.sds.channel import Channel
from culm_models.sds.events import (
    Acknowledged,
    ChannelOutput,
    Delivered,
    FetchRequest,
    GaveUp,
    Outbound,
    PossiblyAcknowledged,
    Received,
    SdsEvent,
    Sent,
)
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.records import rejection
from culm_topics.sds.keys import AckKey
from culm_topics.sds.records import (
    MAX_FETCH_ENTRIES,
    SdsAckRecord,
    SdsEventKind,
    SdsEventRecord,
    SdsFetchRecord,
    SdsOutRecord,
    SdsParticipantRecord,
)

_PLAIN = frozenset({"kind", "message_id", "participant_id", "content"})
_MAX_ITEMS = 1_000


class Topic(StrEnum):
    """The topic of a record."""

    OUT = "sds.out"
    MESSAGES = "sds.messages"
    EVENTS = "sds.events"
    FETCH = "sds.fetch"
    ACKS = "sds.acks"
    REJECTED = "rejected"
    OWNERS = "sds.owners"


class OutputRecord(NamedTuple):
    """One record to write; a value of None is a tombstone."""

    topic: Topic
    key: bytes
    value: bytes | None


def kept(event: SdsEvent) -> SdsEvent | None:
    """Return the part of an event that is stored permanently, or None.

    Ephemeral messages are not stored. Connectors deliver them to present peers; the event of a completed
    command for one is stored without its content.
    """
    if isinstance(event, Received) and event.message_kind == "ephemeral":
        return None
    if isinstance(event, Delivered) and event.ephemeral:
        return None
    if isinstance(event, Sent) and event.ephemeral:
        return replace(event, content=b"")
    return event


@dataclass(frozen=True, slots=True)
class HostingEvent:
    """The participant is hosted (`joined`) or not (`left`), from now on or already."""

    kind: Literal["joined", "left"]
    participant_id: str
    message_id: str = ""


def event_value(event: SdsEvent | HostingEvent, number: int, time_ms: int, details: dict[str, Any]) -> bytes:
    """Return the record of an event; `details` are added to its own fields."""
    for name in _names(type(event)):
        value = _detail(getattr(event, name))
        if value is not None:
            details[name] = value
    return SdsEventRecord(
        number,
        cast(SdsEventKind, event.kind),
        event.participant_id,
        event.message_id,
        time_ms,
        details,
        getattr(event, "content", None),
    ).encode()


_NAMES: dict[type[SdsEvent] | type[HostingEvent], tuple[str, ...]] = {}


def _names(kind: type[SdsEvent] | type[HostingEvent]) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind) if field.name not in _PLAIN)
    return names


def _detail(value: Any) -> Any:
    """Return a field as a detail: messages by their ids, long lists cut; None if it is empty."""
    if type(value) is tuple:
        texts = [item.message_id if isinstance(item, HistoryEntry) else item for item in value[:_MAX_ITEMS]]
        return tuple(texts) or None
    return value


def out_value(profile: Profile, outbound: Outbound) -> bytes:
    """Return the record of a message to broadcast."""
    return SdsOutRecord(
        profile, outbound.kind, outbound.participant_id, outbound.message_id, outbound.wire
    ).encode()


def fetch_values(profile: Profile, fetch: FetchRequest) -> Iterator[bytes]:
    """Yield the records of messages to retrieve."""
    # Profile nim permits references to messages without an id, which cannot be retrieved.
    wanted = tuple(entry for entry in fetch.entries if entry.message_id)
    for start in range(0, len(wanted), MAX_FETCH_ENTRIES):
        entries = wanted[start : start + MAX_FETCH_ENTRIES]
        yield SdsFetchRecord(profile, entries, fetch.attempt).encode()


def rejected(
    code: str, reason: str, *, wire: bytes | None, peer_id: bytes | None, source: tuple[str, int, int]
) -> OutputRecord:
    """Return the record of refused data."""
    value = rejection(code, reason, entry=wire, brought_by=peer_id, source=source)
    return OutputRecord(Topic.REJECTED, b"", value.encode())


_CHUNK = 64
"""Number of finished messages in a chunk."""
_MAX_EVIDENCE = 64


@dataclass(slots=True)
class _Hosted:
    """A hosted participant: when it joined, its finished messages, and the number of their removed chunks."""

    joined_ms: int
    finished: int = 0
    gone: int = 0


class ChangedAcks:
    """The changes in one channel during one batch."""

    def __init__(self, state: JobState, channel_id: str, settings: ChannelsSettings) -> None:
        self._state = state
        self._channel_id = channel_id
        self._channel = channel_id.encode()
        self._settings = settings
        # In the order of the first change; None: not finished, so the channel itself has its state.
        self._messages: dict[tuple[str, str], SdsAckRecord | None] = {}
        self._participants: dict[str, None] = {}
        self._joined: dict[str, int] = {}
        self._left: dict[str, None] = {}

    def note(self, output: ChannelOutput) -> None:
        """Record the results of a step of the channel."""
        for event in output.events:
            self._note_event(event)
        for outbound in output.send:
            self._note_outbound(outbound)

    def joined(self, participant_id: str, now_ms: int) -> None:
        """Record that a participant is hosted from now on."""
        self._joined[participant_id] = now_ms
        self._participants[participant_id] = None

    def left(self, participant_id: str) -> Iterator[OutputRecord]:
        """Yield tombstones for the row of a participant that left, and for those of its messages."""
        self._joined.pop(participant_id, None)
        self._participants.pop(participant_id, None)
        changed = [key for key in self._messages if key[0] == participant_id]
        for key in changed:
            del self._messages[key]
        name = name_of(self._channel, participant_id)
        hosted = self._load(participant_id)
        ids = {message_id: None for _, message_id in changed}
        if hosted is not None:
            for number in range(hosted.gone, -(-hosted.finished // _CHUNK)):
                ids |= dict.fromkeys(self._chunk(participant_id, number))
                self._state.save(StateKind.FINISHED, name_of(self._channel, participant_id, number), None)
        self._state.save(StateKind.HOSTED, name, None)
        for message_id in ids:
            yield self._row(participant_id, message_id, None)
        yield self._row(participant_id, None, None)

    def records(self, channel: Channel) -> Iterator[OutputRecord]:
        """Yield the rows of changes in their present state, without the channel's summary."""
        finished: dict[str, list[str]] = {}
        for (participant_id, message_id), final in self._messages.items():
            if final is not None:
                finished.setdefault(participant_id, []).append(message_id)
                yield self._row(participant_id, message_id, final.encode())
                continue
            waits = channel.outgoing_message(message_id)
            if waits is not None:
                evidence = tuple(sorted(waits.evidence, key=str.encode)[:_MAX_EVIDENCE])
                row = SdsAckRecord(waits.state, evidence, waits.attempts, waits.next_due_ms)
                yield self._row(participant_id, message_id, row.encode())
        for participant_id in self._participants:
            yield from self._participant(channel, participant_id, finished.get(participant_id, []))

    def _note_event(self, event: SdsEvent) -> None:
        participant_id = event.participant_id
        if participant_id is None:
            return
        if isinstance(event, Sent):
            if event.ephemeral:
                return
            self._change(participant_id, event.message_id, None)
        elif isinstance(event, PossiblyAcknowledged):
            self._change(participant_id, event.message_id, None)
        elif isinstance(event, Acknowledged):
            evidence = tuple(sorted(event.evidence, key=str.encode)[:_MAX_EVIDENCE])
            self._change(
                participant_id, event.message_id, SdsAckRecord("acknowledged", evidence, event.attempts)
            )
        elif isinstance(event, GaveUp):
            self._change(participant_id, event.message_id, SdsAckRecord("gave_up", (), event.attempts))

    def _note_outbound(self, outbound: Outbound) -> None:
        if outbound.kind == "retry":
            self._change(outbound.participant_id, outbound.message_id, None)

    def _change(self, participant_id: str, message_id: str, final: SdsAckRecord | None) -> None:
        self._participants[participant_id] = None
        key = participant_id, message_id
        if final is not None or self._messages.get(key) is None:
            self._messages[key] = final

    def _participant(
        self, channel: Channel, participant_id: str, finished: list[str]
    ) -> Iterator[OutputRecord]:
        hosted = self._load(participant_id)
        joined_ms = self._joined.get(participant_id)
        if hosted is None:
            hosted = _Hosted(joined_ms or 0)
        if finished:
            yield from self._finish(participant_id, hosted, finished)
        if finished or joined_ms is not None:
            blob = cbor2.dumps((hosted.joined_ms, hosted.finished, hosted.gone))
            self._state.save(StateKind.HOSTED, name_of(self._channel, participant_id), blob)
        unacknowledged, possibly = channel.outgoing_counts(participant_id)
        row = SdsParticipantRecord(hosted.joined_ms, unacknowledged, possibly)
        yield self._row(participant_id, None, row.encode())

    def _finish(self, participant_id: str, hosted: _Hosted, finished: list[str]) -> Iterator[OutputRecord]:
        """Store finished messages, and remove the rows of the oldest if there are too many."""
        while finished:
            number, inside = divmod(hosted.finished, _CHUNK)
            added, finished = finished[: _CHUNK - inside], finished[_CHUNK - inside :]
            chunk = (self._chunk(participant_id, number) if inside else []) + added
            self._state.save(
                StateKind.FINISHED, name_of(self._channel, participant_id, number), cbor2.dumps(chunk)
            )
            hosted.finished += len(added)
        while hosted.finished - (hosted.gone + 1) * _CHUNK >= self._settings.finished:
            for message_id in self._chunk(participant_id, hosted.gone):
                yield self._row(participant_id, message_id, None)
            self._state.save(StateKind.FINISHED, name_of(self._channel, participant_id, hosted.gone), None)
            hosted.gone += 1

    def _load(self, participant_id: str) -> _Hosted | None:
        blob = self._state.load(StateKind.HOSTED, name_of(self._channel, participant_id))
        return None if blob is None else _Hosted(*cbor2.loads(blob))

    def _chunk(self, participant_id: str, number: int) -> list[str]:
        blob = self._state.load(StateKind.FINISHED, name_of(self._channel, participant_id, number))
        return [] if blob is None else list(cbor2.loads(blob))

    def _row(self, participant_id: str, message_id: str | None, value: bytes | None) -> OutputRecord:
        return OutputRecord(Topic.ACKS, AckKey(self._channel_id, participant_id, message_id).encode(), value)
