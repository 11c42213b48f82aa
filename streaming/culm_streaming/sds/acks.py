"""What `sds.acks` is told of a channel after a batch: messages whose state changed, participants, a summary.

Of finished messages the newest of each participant keep their rows; older ones get tombstones, for which
their ids are kept in chunks, oldest first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cbor2

from culm_models.sds.channel import Channel
from culm_models.sds.events import (
    Acknowledged,
    ChannelOutput,
    Event,
    GaveUp,
    Outbound,
    PossiblyAcknowledged,
    Sent,
)
from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import Kind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.records import AckKey, SdsAckRecord, SdsParticipantRecord

_CHUNK = 64
"""Finished messages of one chunk."""
_MOST_EVIDENCE = 64


@dataclass(slots=True)
class _Hosted:
    """A hosted participant: since when, how many messages have finished, how many chunks of them are gone."""

    joined_ms: int
    finished: int = 0
    gone: int = 0


class ChangedAcks:
    """What changed in one channel during one batch."""

    def __init__(self, state: JobState, channel_id: str, settings: ChannelsSettings) -> None:
        self._state = state
        self._channel_id = channel_id
        self._channel = channel_id.encode()
        self._settings = settings
        # In the order of the first change; None: it waits, as the channel itself can say.
        self._messages: dict[tuple[str, str], SdsAckRecord | None] = {}
        self._participants: dict[str, None] = {}
        self._joined: dict[str, int] = {}
        self._left: dict[str, None] = {}

    def note(self, output: ChannelOutput) -> None:
        """Take in what a step of the channel did."""
        for event in output.events:
            self._note_event(event)
        for outbound in output.send:
            self._note_outbound(outbound)

    def joined(self, participant_id: str, now_ms: int) -> None:
        """A participant is hosted from now on."""
        self._joined[participant_id] = now_ms
        self._participants[participant_id] = None

    def left(self, participant_id: str) -> Iterator[OutputRecord]:
        """A participant is hosted no longer: tombstones for its row and those of its messages."""
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
                self._state.save(Kind.FINISHED, name_of(self._channel, participant_id, number), None)
        self._state.save(Kind.HOSTED, name, None)
        for message_id in ids:
            yield self._row(participant_id, message_id, None)
        yield self._row(participant_id, None, None)

    def records(self, channel: Channel) -> Iterator[OutputRecord]:
        """The rows of what changed, as it is now; without the channel's summary."""
        finished: dict[str, list[str]] = {}
        for (participant_id, message_id), final in self._messages.items():
            if final is not None:
                finished.setdefault(participant_id, []).append(message_id)
                yield self._row(participant_id, message_id, final.encode())
                continue
            waits = channel.outgoing_message(message_id)
            if waits is not None:
                evidence = tuple(sorted(waits.evidence, key=str.encode)[:_MOST_EVIDENCE])
                row = SdsAckRecord(waits.state, evidence, waits.attempts, waits.next_due_ms)
                yield self._row(participant_id, message_id, row.encode())
        for participant_id in self._participants:
            yield from self._participant(channel, participant_id, finished.get(participant_id, []))

    def _note_event(self, event: Event) -> None:
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
            evidence = tuple(sorted(event.evidence, key=str.encode)[:_MOST_EVIDENCE])
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
            self._state.save(Kind.HOSTED, name_of(self._channel, participant_id), blob)
        unacknowledged, possibly = channel.outgoing_counts(participant_id)
        row = SdsParticipantRecord(hosted.joined_ms, unacknowledged, possibly)
        yield self._row(participant_id, None, row.encode())

    def _finish(self, participant_id: str, hosted: _Hosted, finished: list[str]) -> Iterator[OutputRecord]:
        """Remember what has finished; rows of the oldest go when they are too many."""
        while finished:
            number, inside = divmod(hosted.finished, _CHUNK)
            added, finished = finished[: _CHUNK - inside], finished[_CHUNK - inside :]
            chunk = (self._chunk(participant_id, number) if inside else []) + added
            self._state.save(
                Kind.FINISHED, name_of(self._channel, participant_id, number), cbor2.dumps(chunk)
            )
            hosted.finished += len(added)
        while hosted.finished - (hosted.gone + 1) * _CHUNK >= self._settings.finished:
            for message_id in self._chunk(participant_id, hosted.gone):
                yield self._row(participant_id, message_id, None)
            self._state.save(Kind.FINISHED, name_of(self._channel, participant_id, hosted.gone), None)
            hosted.gone += 1

    def _load(self, participant_id: str) -> _Hosted | None:
        blob = self._state.load(Kind.HOSTED, name_of(self._channel, participant_id))
        return None if blob is None else _Hosted(*cbor2.loads(blob))

    def _chunk(self, participant_id: str, number: int) -> list[str]:
        blob = self._state.load(Kind.FINISHED, name_of(self._channel, participant_id, number))
        return [] if blob is None else list(cbor2.loads(blob))

    def _row(self, participant_id: str, message_id: str | None, value: bytes | None) -> OutputRecord:
        return OutputRecord(Topic.ACKS, AckKey(self._channel_id, participant_id, message_id).encode(), value)
