"""One channel: the hosted participants and their common state (specification "Protocol Steps").

Log, known ids, filter, Lamport timestamp and waiting messages are shared. Each hosted participant has its own
unacknowledged messages, and receives the messages of its siblings like those of everyone else. A full
participant is a channel with one hosted participant. Time, seed and nonces are arguments: the same inputs
give the same bytes and events. Received messages never raise: a refused message becomes a `rejected` event.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, Literal, TypeAlias

from culm_models.sds import receive as receiving
from culm_models.sds import send as sending
from culm_models.sds.channel_state import (
    ChannelState,
    OutgoingStatus,
    Status,
    Summary,
    outgoing_message,
    status_of,
    summary_of,
    weight_of,
)
from culm_models.sds.errors import ParticipantError
from culm_models.sds.events import ChannelOutput, Collected
from culm_models.sds.settings import SdsSettings
from culm_models.sds.state import snapshot
from culm_models.sds.wire.fields import id_bytes
from culm_models.sds.wire.messages import HistoryEntry, Profile

Part: TypeAlias = Literal["incoming", "outgoing", "sync", "repair"]
"""A part of the periodic work: fetches and losses, re-sends, syncs, repair requests and answers."""

PARTS: Final[tuple[Part, ...]] = ("incoming", "outgoing", "sync", "repair")


class Channel:
    """The state machine of one channel."""

    __slots__ = ("_parts",)

    def __init__(
        self, channel_id: str, profile: Profile, settings: SdsSettings, *, now_ms: int, seed: bytes
    ) -> None:
        id_bytes(channel_id)
        self._parts = ChannelState.made(channel_id, profile, settings, now_ms, seed)

    @property
    def channel_id(self) -> str:
        """The id of this channel."""
        return self._parts.channel_id

    @property
    def profile(self) -> Profile:
        """The wire profile of its messages."""
        return self._parts.facts.name

    @property
    def participants(self) -> tuple[str, ...]:
        """The hosted participants, in the order in which they joined."""
        return tuple(self._parts.participants)

    def join(self, participant_id: str, now_ms: int) -> ChannelOutput:
        """Host a participant from now on. Raises `ParticipantError` if it is hosted or at the limit."""
        parts = self._parts
        if not id_bytes(participant_id) or participant_id in parts.participants:
            raise ParticipantError(f"{participant_id[:100]!r} is no id, or is hosted already")
        if len(parts.participants) >= parts.settings.max_participants:
            raise ParticipantError(f"{len(parts.participants)} participants are hosted already")
        parts.participants[participant_id] = None
        parts.delivery.repair.host(self.participants)
        return ChannelOutput()

    def leave(self, participant_id: str, now_ms: int) -> ChannelOutput:
        """Stop hosting a participant: its unacknowledged messages are given up (`gave_up`)."""
        parts = self._parts
        if participant_id not in parts.participants:
            raise ParticipantError(f"{participant_id[:100]!r} is not hosted in this channel")
        del parts.participants[participant_id]
        parts.delivery.repair.host(self.participants)
        collected = Collected()
        sending.give_up(parts.outgoing.leave(participant_id), collected)
        return collected.output()

    def send(
        self,
        participant_id: str,
        content: bytes,
        now_ms: int,
        *,
        ephemeral: bool = False,
        message_id: str | None = None,
        retrieval_hint: bytes | None = None,
        nonce: bytes | None = None,
    ) -> ChannelOutput:
        """Send a message of a hosted participant. Raises `SdsError` if it is refused; then nothing changes.

        `message_id`: chosen by the caller, else a hash over channel, participant, `nonce` and content;
        without a nonce one is drawn, so equal contents get different ids. A repeated nonce with equal content
        raises `KnownMessageError`. `retrieval_hint`: causal histories include it, so that others can fetch
        the message.
        """
        collected = Collected()
        if ephemeral:
            sending.send_ephemeral(
                self._parts, participant_id, content, collected, message_id=message_id, nonce=nonce
            )
        else:
            sending.send_content(
                self._parts,
                participant_id,
                content,
                now_ms,
                collected,
                message_id=message_id,
                retrieval_hint=retrieval_hint,
                nonce=nonce,
            )
        return collected.output()

    def receive(
        self,
        wire: bytes,
        now_ms: int,
        *,
        retrieval_hint: bytes | None = None,
        source: str | None = None,
        admit: receiving.Admit | None = None,
    ) -> ChannelOutput:
        """Take a received message; never raises, whatever the bytes are.

        `source="store"`: the message was retrieved. Then an unknown message of a hosted participant, as after
        a loss of state, is also put into the log, and nothing in it counts as current evidence.

        `admit`: called with the sender's id and whether the message is new, before the message has any
        effect. An error that it returns refuses a new message; a repeated message then changes nothing.
        """
        collected = Collected()
        receiving.receive(self._parts, wire, now_ms, retrieval_hint, source, collected, admit)
        return collected.output()

    def tick(self, now_ms: int, only: Part | None = None) -> ChannelOutput:
        """Do what is due at this time; with `only`, the due work of one part."""
        parts, collected = self._parts, Collected()
        if only in (None, "incoming"):
            receiving.release(parts, now_ms, collected)
            parts.delivery.sweep(now_ms, collected)
        if only in (None, "repair"):
            asking_ms = parts.delivery.repair.requests_due_ms()
            if parts.sends_syncs and asking_ms is not None and asking_ms <= now_ms:
                sending.send_sync(parts, now_ms, collected)
            sending.answer(parts, now_ms, collected)
        if only in (None, "outgoing"):
            sending.resend(parts, now_ms, collected)
        if only in (None, "sync") and parts.sends_syncs and parts.schedule.due(now_ms):
            sending.send_sync(parts, now_ms, collected)
        return collected.output()

    def next_due_ms(self) -> int | None:
        """Return the time at which `tick` is due next; None if it waits for another event."""
        parts = self._parts
        repair = parts.delivery.repair
        released_ms = parts.quarantine.next_due_ms()
        times = [
            parts.delivery.next_due_ms(),
            None if released_ms is None else released_ms - parts.clock_offset_ms,
            parts.outgoing.next_due_ms(),
            repair.answers_due_ms(),
        ]
        if parts.sends_syncs:
            times += [parts.schedule.next_due_ms(), repair.requests_due_ms()]
        return min((time for time in times if time is not None), default=None)

    def send_again(self, message_id: str, now_ms: int) -> bool:
        """Make an unacknowledged message due now, at a person's request. Returns whether there is one."""
        return self._parts.outgoing.hasten(message_id, now_ms)

    def compare_head(self, head: Iterable[tuple[int, str]], now_ms: int) -> ChannelOutput:
        """Compare with a store's newest messages, as (Lamport, id); unknown ones become missing."""
        collected, delivery = Collected(), self._parts.delivery
        limit = self._parts.settings.max_history_entries
        named = [HistoryEntry(message_id) for _, message_id in islice(head, limit) if message_id]
        unmet = delivery.unmet(named, "")
        if unmet:
            delivery.want("", "", unmet, now_ms, collected)
        return collected.output()

    def set_clock(self, now_ms: int, clock_ms: int) -> ChannelOutput:
        """Set the wall clock to `clock_ms` at the timers' time `now_ms`; it goes on from there.

        Without this call both are equal. A driver whose timers count elapsed time must call it after every
        jump between the two and after each restart; the offset is not part of the state.
        """
        collected = Collected()
        self._parts.clock_offset_ms = clock_ms - now_ms
        sending.check_clock(self._parts, now_ms, collected)
        return collected.output()

    def withdraw_ahead(self, now_ms: int) -> ChannelOutput:
        """Undo messages that were sent with a clock ahead: others never accepted them (`ClockAheadError`).

        All messages further ahead of the clock than allowed, of any sender, leave the log as if they had
        never arrived. The clock must be right: if it is behind, valid messages are removed.
        """
        collected = Collected()
        sending.withdraw_ahead(self._parts, now_ms, collected)
        return collected.output()

    def fetch_again(self, now_ms: int, *, overdue_ms: int | None = None) -> ChannelOutput:
        """Fetch everything that is missing now, as after a reconnect: before, nobody could answer.

        Nothing is lost before the answers can arrive. With `overdue_ms`, fetch only messages whose loss is
        overdue for that long because `tick` was not called.
        """
        collected = Collected()
        self._parts.delivery.fetch_again(now_ms, overdue_ms, collected)
        return collected.output()

    def learn_hint(self, message_id: str, retrieval_hint: bytes) -> bool:
        """Record how to fetch a message of the log if that is unknown. Returns whether anything changed."""
        return self._parts.delivery.learn_hint(message_id, retrieval_hint)

    @property
    def journal_mark(self) -> int:
        """The number of records that the journal ever had; an equal number means an equal log and filter."""
        return self._parts.delivery.journal.mark

    def journal_since(self, mark: int) -> bytes:
        """Return the records after a mark, for appending. Raises `JournalForgottenError` if it is too old."""
        return snapshot.journal_since(self._parts, mark)

    def journal_whole(self) -> bytes:
        """Return the journal in its shortest form, to replace all stored records."""
        return snapshot.journal_whole(self._parts)

    def journal_kept(self, mark: int) -> None:
        """Release the journal's records before a mark, which are stored elsewhere."""
        self._parts.delivery.journal.forget_before(mark)

    def apply_journal(self, data: bytes) -> None:
        """Apply the results of `journal_whole` and `journal_since`, in that order, to a fresh channel.

        Raises `SnapshotError` for bytes that do not belong to this channel, which must then not be used any
        more.
        """
        snapshot.apply_journal(self._parts, data)

    def head(self) -> bytes:
        """Return the rest of the state for a restart, in one small piece; it fits the journal's mark."""
        return snapshot.head(self._parts)

    def restore_head(self, data: bytes) -> None:
        """Apply the result of `head`, after the journal. Raises `SnapshotError` as in `apply_journal`."""
        snapshot.restore_head(self._parts, data)

    def status(self) -> Status:
        """Return the state of the channel in full, for people and tests."""
        return status_of(self._parts, self.next_due_ms())

    def summary(self) -> Summary:
        """Return counts of the channel's contents, at a cost that does not depend on their size."""
        return summary_of(self._parts)

    def weight(self) -> int:
        """Return the approximate memory use of the channel, in log entries."""
        return weight_of(self._parts)

    @property
    def filter_bytes(self) -> int:
        """The largest size of the bits of the channel's filter, in bytes; counted in `weight`."""
        return self._parts.delivery.filter.byte_count

    def outgoing_message(self, message_id: str) -> OutgoingStatus | None:
        """Return the state of an unacknowledged message; None if there is none."""
        return outgoing_message(self._parts, message_id)

    def outgoing_counts(self, participant_id: str) -> tuple[int, int]:
        """Return a participant's number of messages as (unacknowledged, possibly acknowledged)."""
        return self._parts.outgoing.counts(participant_id)

    def wire(self, message_id: str) -> bytes | None:
        """Return a message byte for byte as it was on the wire; None if its bytes are not kept."""
        return sending.kept_wire(self._parts, message_id)

    def has_spoken(self, sender_id: str) -> bool:
        """Whether messages of this sender are in the log."""
        return self._parts.delivery.log.has_sender(sender_id)

    @property
    def foreign_own(self) -> int:
        """The number of messages received under a hosted id that were not sent here, since construction.

        If there are any, the id is in use elsewhere, or a state was lost.
        """
        return self._parts.foreign_own

    def is_quarantined(self, message_id: str) -> bool:
        """Whether a message is quarantined because its Lamport timestamp is too far ahead."""
        return message_id in self._parts.quarantine
