"""A channel loaded from state for one batch: inputs in, records out, and saved to state at the end."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import cbor2

from culm_models.errors import CulmError
from culm_models.sds.channel import Channel
from culm_models.sds.errors import DisputedIdError, JournalForgottenError, WaitingFullError
from culm_models.sds.events import ChannelOutput, Lost, Received, Rejected, SdsEvent
from culm_models.sds.wire.messages import Profile
from culm_streaming.errors import StateMissingError
from culm_streaming.sds.channel_settings import BIND_SENDERS, charge_filter, settings_of
from culm_streaming.sds.output_records import (
    ChangedAcks,
    HostingEvent,
    OutputRecord,
    Topic,
    event_value,
    fetch_values,
    kept,
    out_value,
    rejected,
)
from culm_streaming.sds.owners import IdOwners
from culm_streaming.sds.record import (
    NO_TOKEN,
    Cache,
    ChannelRecord,
    Copy,
    append_segment,
    is_to_compact,
    replace_journal,
    save_record,
    segments,
)
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind, name_of
from culm_streaming.stateful.job_state import JobState
from culm_topics.sds.keys import AckKey
from culm_topics.sds.records import Details, SdsChannelRecord, SdsMessageRecord

_SEED_PERSON = b"culm.sds.seed"
_MAX_HELD = 1_000


@dataclass(frozen=True, slots=True)
class Input:
    """Source of an output: a record's place, bytes, and origin; a command's token and kind."""

    source: tuple[str, int, int]
    wire: bytes | None = None
    peer_id: bytes | None = None
    hint: bytes | None = None
    token: bytes | None = None
    command: str | None = None


class OpenChannel:
    """One channel during one batch. `records` are its output so far."""

    def __init__(
        self,
        state: JobState,
        channel_id: str,
        record: ChannelRecord,
        channel: Channel,
        settings: ChannelsSettings,
    ) -> None:
        self.channel_id = channel_id
        self.key = channel_id.encode()
        self.record = record
        self.channel = channel
        self.records: list[OutputRecord] = []
        self.is_kept = record.token != NO_TOKEN
        """Whether to write it: a new channel is written only after valid input."""
        self._state = state
        self._settings = settings
        self.owners = IdOwners(state, channel_id, record, settings)
        self._acks = ChangedAcks(state, channel_id, settings)
        self._tokens: dict[bytes, None] | None = None
        self._is_anew = False

    @property
    def due_ms(self) -> int | None:
        """The time of the channel's next action, or None."""
        return self.channel.next_due_ms()

    def now_ms(self, time_ms: int) -> int:
        """Return the channel's clock at this time: it never goes back."""
        self.record.last_ms = max(self.record.last_ms, time_ms)
        return self.record.last_ms

    def is_done(self, token: bytes) -> bool:
        """Whether this command was done already; it counts as done from now on."""
        if self._tokens is None:
            blob = self._state.load(StateKind.TOKENS, name_of(self.key))
            self._tokens = dict.fromkeys([] if blob is None else cbor2.loads(blob))
        if token in self._tokens:
            return True
        self._tokens[token] = None
        if len(self._tokens) > self._settings.tokens:
            del self._tokens[next(iter(self._tokens))]
        return False

    @property
    def binds_senders(self) -> bool:
        """Whether a sender id belongs to the key that first used it."""
        return self.record.settings.get(BIND_SENDERS) is True

    def begin_anew(self, profile: Profile, now_ms: int) -> None:
        """Let the channel begin again in another profile: its log is empty, its event numbers continue."""
        for participant_id in self.channel.participants:
            self.report(HostingEvent("left", participant_id), now_ms, None)
            self.left(participant_id)
        for message_id in self.record.held:
            self._state.save(StateKind.HELD, name_of(self.key, message_id), None)
        self.record.held.clear()
        self.record.profile, self.record.settings = profile, {}
        self.record.are_settings_final = False
        self.channel, self._is_anew = _new_channel(self.channel_id, profile, {}, now_ms), True

    def decide_settings(self, changed: Details, now_ms: int) -> None:
        """Apply the settings of the first join of the channel's owner.

        Raises `ChannelSettingsError` for settings out of range.
        """
        if dict(changed) == dict(self.record.settings):
            return
        wanted = settings_of(self.record.profile, changed)
        charge_filter(self._state, self.record.profile, wanted, self._settings)
        anew = _new_channel(self.channel_id, self.record.profile, changed, now_ms)
        anew.apply_journal(self.channel.journal_whole())
        anew.restore_head(self.channel.head())
        self.channel, self._is_anew = anew, True
        self.record.settings = dict(changed)

    def joined(self, participant_id: str, now_ms: int) -> None:
        """Record that a participant is hosted from now on."""
        self._acks.joined(participant_id, now_ms)

    def left(self, participant_id: str) -> None:
        """Record that a participant is not hosted any more."""
        self.records += self._acks.left(participant_id)

    def take(self, output: ChannelOutput, now_ms: int, incoming: Input | None) -> None:
        """Write the output of a step of the channel; `incoming` is its input, None for a timer."""
        profile = self.record.profile
        for event in map(kept, output.events):
            if event is None:
                continue
            if isinstance(event, Rejected):
                self._refuse(event, now_ms, incoming)
                continue
            self.is_kept = True
            if isinstance(event, Received) and event.message_kind == "content":
                self._store(event, incoming)
            elif isinstance(event, Lost):
                self.record.lost += 1
            self.report(event, now_ms, incoming)
        for outbound in output.send:
            self._put(Topic.OUT, out_value(profile, outbound))
            if outbound.kind == "new":
                self._store_own(outbound.message_id, outbound.participant_id, outbound.wire, output.events)
        for fetch in output.fetch:
            for value in fetch_values(profile, fetch):
                self._put(Topic.FETCH, value)
        self._acks.note(output)

    def report(self, event: SdsEvent | HostingEvent, now_ms: int, incoming: Input | None) -> None:
        """Write one event, under the channel's next number."""
        self.record.event_number += 1
        details: dict[str, Any] = {}
        if incoming is not None and incoming.token is not None:
            details["token"] = incoming.token
            if isinstance(event, Rejected):
                details["command"] = incoming.command
        self._put(Topic.EVENTS, event_value(event, self.record.event_number, now_ms, details))

    def refuse(self, error: CulmError, incoming: Input) -> None:
        """Write a record of `rejected` for a refused input."""
        self.records.append(
            rejected(
                error.code, str(error), wire=incoming.wire, peer_id=incoming.peer_id, source=incoming.source
            )
        )

    def save(self, cache: Cache) -> list[OutputRecord]:
        """Write the channel's state.

        Returns the records about the whole channel. Its times must be set before.
        """
        if not self.is_kept:
            return []
        record, channel = self.record, self.channel
        records = [*self._acks.records(channel), *self.owners.flush()]
        former_mark = record.journal.mark
        written, is_anew = self._save_journal()
        record.head = channel.head()
        record.advance(former_mark, written, self._settings.lineage, is_anew=is_anew)
        save_record(self._state, self.channel_id, record)
        if self._tokens is not None:
            self._state.save(StateKind.TOKENS, name_of(self.key), cbor2.dumps(list(self._tokens)))
        cache.put(self.key, Copy.of(record.token, channel))
        records.append(OutputRecord(Topic.ACKS, AckKey(self.channel_id).encode(), self._summary().encode()))
        return records

    def _save_journal(self) -> tuple[bytes, bool]:
        """Write the journal. Returns (bytes written, whether the whole journal was written)."""
        kept, channel = self.record.journal, self.channel
        mark = channel.journal_mark
        is_anew = self._is_anew or is_to_compact(kept, self._settings)
        if not is_anew:
            if mark == kept.mark:
                return b"", False
            try:
                written = channel.journal_since(kept.mark)
            except JournalForgottenError:
                is_anew = True
        if is_anew:
            written = channel.journal_whole()
            replace_journal(self._state, self.key, kept, mark, written, self._settings)
        else:
            append_segment(self._state, self.key, kept, mark, written, self._settings)
        channel.journal_kept(mark)
        return written, is_anew

    def _summary(self) -> SdsChannelRecord:
        record, summary = self.record, self.channel.summary()
        return SdsChannelRecord(
            profile=record.profile,
            time_ms=record.last_ms,
            lamport_timestamp=summary.lamport_timestamp,
            log=summary.log,
            waiting=summary.waiting,
            missing=summary.missing,
            lost=record.lost,
            outgoing=summary.outgoing,
            participants=summary.participants,
            event_number=record.event_number,
            next_due_ms=record.due_ms,
        )

    def _refuse(self, event: Rejected, now_ms: int, incoming: Input | None) -> None:
        """Write refused input from peers only to `rejected`: it must not fill stored topics."""
        if event.code == DisputedIdError.code:
            # Once for each message of the log, so no more often than messages are stored.
            self.report(event, now_ms, incoming)
        if incoming is None or event.code == WaitingFullError.code:
            self.report(event, now_ms, incoming)
            return
        self.records.append(
            rejected(
                event.code, event.reason, wire=incoming.wire, peer_id=incoming.peer_id, source=incoming.source
            )
        )
        if incoming.wire is not None and self.channel.is_quarantined(event.message_id):
            self._hold(event.message_id, incoming)

    def _hold(self, message_id: str, incoming: Input) -> None:
        """Keep the bytes of a message in quarantine, for the store, until it is accepted."""
        self.is_kept = True
        held_ids = self.record.held
        if message_id in held_ids:
            return
        held_ids.append(message_id)
        self._state.save(
            StateKind.HELD, name_of(self.key, message_id), cbor2.dumps((incoming.wire, incoming.hint))
        )
        if len(held_ids) > _MAX_HELD:
            self._state.save(StateKind.HELD, name_of(self.key, held_ids.pop(0)), None)

    def _store(self, event: Received, incoming: Input | None) -> None:
        """Store a message with content, with its bytes, when it has been received for the first time."""
        wire, hint = (None, None) if incoming is None else (incoming.wire, incoming.hint)
        if event.message_id in self.record.held:
            name = name_of(self.key, event.message_id)
            blob = self._state.load(StateKind.HELD, name)
            if blob is None:
                raise StateMissingError("a message that a channel's record names as held is missing")
            wire, hint = cbor2.loads(blob)
            self._state.save(StateKind.HELD, name, None)
            self.record.held.remove(event.message_id)
        if wire is not None:
            self._put_message(event.message_id, event.sender_id, event.lamport_timestamp or 0, wire, hint)

    def _store_own(self, message_id: str, sender_id: str, wire: bytes, events: tuple[SdsEvent, ...]) -> None:
        lamport = next(
            event.lamport_timestamp  # type: ignore[attr-defined]
            for event in events
            if event.kind == "sent" and event.message_id == message_id
        )
        self._put_message(message_id, sender_id, lamport, wire, None)

    def _put_message(
        self, message_id: str, sender_id: str, lamport: int, wire: bytes, hint: bytes | None
    ) -> None:
        record = SdsMessageRecord(self.record.profile, message_id, sender_id, lamport, wire, hint)
        self._put(Topic.MESSAGES, record.encode())

    def _put(self, topic: Topic, value: bytes) -> None:
        self.records.append(OutputRecord(topic, self.key, value))


def open_channel(
    state: JobState, channel_id: str, record: ChannelRecord, settings: ChannelsSettings, cache: Cache
) -> OpenChannel:
    """Load a channel that is in state, with its record."""
    return OpenChannel(state, channel_id, record, _restored(state, channel_id, record, cache), settings)


def new_channel(
    state: JobState, channel_id: str, profile: Profile, settings: ChannelsSettings, now_ms: int
) -> OpenChannel:
    """Create a channel."""
    channel = _new_channel(channel_id, profile, {}, now_ms)
    return OpenChannel(state, channel_id, ChannelRecord(profile), channel, settings)


def _restored(state: JobState, channel_id: str, record: ChannelRecord, cache: Cache) -> Channel:
    key = channel_id.encode()
    copy = cache.take(key)
    if copy is not None:
        if copy.token == record.token:
            return copy.channel
        if (copy.token, copy.mark) in record.lineage:
            _bring(copy.channel, state, key, record, copy.mark)
            return copy.channel
    channel = _new_channel(channel_id, record.profile, record.settings, record.last_ms)
    _bring(channel, state, key, record, -1)
    return channel


def _bring(channel: Channel, state: JobState, key: bytes, record: ChannelRecord, since: int) -> None:
    for data in segments(state, key, record.journal, since):
        channel.apply_journal(data)
    channel.restore_head(record.head)


def _new_channel(channel_id: str, profile: Profile, changed: Details, now_ms: int) -> Channel:
    seed = blake2b(channel_id.encode(), digest_size=16, person=_SEED_PERSON).digest()
    return Channel(channel_id, profile, settings_of(profile, changed), now_ms=now_ms, seed=seed)
