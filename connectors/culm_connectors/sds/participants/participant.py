"""A full participant without a network: the machine, and its state in a folder.

Every step takes its input into the folder; `commit` writes what has gathered. What a step gives back may be
acted upon only after that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culm_connectors.sds.errors import StateError
from culm_connectors.sds.participants.state import ParticipantSnapshot, StateFolder, log_entries
from culm_models.errors import CulmError
from culm_models.sds.channel import Channel
from culm_models.sds.channel_state import Status
from culm_models.sds.events import ChannelOutput, Delivered, Received, SdsEvent, Sent
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile

_SEND, _RECEIVE, _TICK, _HEAD, _AGAIN, _STAND, _CLOCK, _REACHED, _WITHDRAW = range(9)


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """One message that was delivered to the application, once. `number` counts from 1.

    `own`: sent by this participant. `position`: where it stands in the log (insert, do not append). `gap`:
    ids that it follows on and that were given up as lost. `time_ms`: when it was reported, by the wall clock.
    """

    number: int
    own: bool
    message_id: str
    sender_id: str
    content: bytes
    lamport_timestamp: int
    position: int
    gap: tuple[str, ...]
    time_ms: int


@dataclass(frozen=True, slots=True)
class ParticipantStep:
    """Result of one input: the machine's output, and those of its events that are recorded in the log."""

    output: ChannelOutput
    logged: tuple[LoggedMessage, ...] = ()


def read_log(path: Path, after: int = 0) -> Iterator[LoggedMessage]:
    """Yield the messages of a folder's log after the number `after`; the folder may be in use."""
    for number, entry in enumerate(log_entries(path, after), after + 1):
        own, message_id, sender_id, content, lamport, position, gap, time_ms = entry
        yield LoggedMessage(
            number, own, message_id, sender_id, content, lamport, position, tuple(gap), time_ms
        )


class Participant:
    """One participant of one channel. `now_ms` of every step: the time of its timers, which never goes back.

    In a new folder it begins, with its timers at the wall clock; otherwise it continues from the state of the
    previous process, with the current settings. `set_clock` reports that the wall clock has moved against the
    timers. Raises `StateError`: the folder belongs to another participant, or is damaged.
    """

    def __init__(
        self,
        folder: StateFolder,
        channel_id: str,
        profile: Profile,
        participant_id: str,
        *,
        settings: SdsSettings | None,
        now_ms: int,
        seed: bytes,
    ) -> None:
        self.channel_id, self.profile, self.participant_id = channel_id, profile, participant_id
        self.cursor: bytes | None = None
        """Cursor up to which the edge's store has been read."""
        self.logged_before = 0
        """Number of messages logged by former processes."""
        self._folder = folder
        self._logged = 0
        self._foreign_before = 0
        snapshot = folder.snapshot
        if snapshot is None:
            self._settings = settings or SdsSettings.for_participants(profile)
            self._made_ms = self._now_ms = self._clock_ms = now_ms
            self._seed = seed
            self._channel = self._fresh()
            self._channel.join(participant_id, now_ms)
            self.snapshot()
            return
        owner = (snapshot.channel_id, snapshot.profile, snapshot.participant_id)
        if owner != (channel_id, profile, participant_id):
            raise StateError(
                f"{folder.path} holds the state of {snapshot.participant_id!r} in channel "
                f"{snapshot.channel_id!r} ({snapshot.profile})"
            )
        self._restore(snapshot)
        if settings is not None and settings != self._settings:
            self._settings = settings
            self.snapshot()
            assert folder.snapshot is not None, "just written"
            self._load(folder.snapshot)
        self._foreign_before = self._channel.foreign_own

    # The past.

    def _fresh(self) -> Channel:
        return Channel(self.channel_id, self.profile, self._settings, now_ms=self._made_ms, seed=self._seed)

    def _restore(self, snapshot: ParticipantSnapshot) -> None:
        known = {field.name for field in dataclasses.fields(SdsSettings)}
        try:
            kept = {name: value for name, value in snapshot.settings.items() if name in known}
            self._settings = dataclasses.replace(SdsSettings.for_participants(self.profile), **kept)
            self._load(snapshot)
            self.logged_before = sum(1 for _ in log_entries(self._folder.path))
            for kind, now_ms, *arguments in self._folder.inputs():
                self._pass_until(now_ms)
                self._do(kind, now_ms, arguments)
        except (CulmError, LookupError, TypeError, ValueError) as error:
            raise StateError(
                f"{self._folder.path} cannot be restored: {error}", hint="move it away to start again"
            ) from error
        # Messages that the previous process had not reported when it ended are reported now.
        self._folder.commit()

    def _load(self, snapshot: ParticipantSnapshot) -> None:
        self._made_ms, self._now_ms, self._seed = snapshot.made_ms, snapshot.now_ms, snapshot.seed
        self.cursor, self._logged = snapshot.cursor, snapshot.logged
        self._channel = self._fresh()
        self._channel.apply_journal(snapshot.journal)
        self._channel.restore_head(snapshot.head)
        self._clock_ms = self._now_ms if snapshot.clock_ms is None else snapshot.clock_ms
        self._channel.set_clock(self._now_ms, self._clock_ms)

    def history(self, after: int = 0) -> Iterator[LoggedMessage]:
        """Yield the messages logged after the number `after`, by this process and former ones."""
        yield from read_log(self._folder.path, after)

    # Steps.

    def send(self, content: bytes, now_ms: int, nonce: bytes, *, ephemeral: bool = False) -> ParticipantStep:
        """Send a message. Raises `SdsError`, without any change of state."""
        if ephemeral:
            return ParticipantStep(
                self._channel.send(
                    self.participant_id, content, self._time(now_ms), ephemeral=True, nonce=nonce
                )
            )
        return self._take(_SEND, now_ms, content, nonce)

    def receive(
        self, wire: bytes, now_ms: int, hint: bytes | None = None, *, from_store: bool = False
    ) -> ParticipantStep:
        """Process a received message."""
        now_ms = self._time(now_ms)
        step = self._do(_RECEIVE, now_ms, (wire, hint, from_store))
        if not _is_ephemeral(step.output):
            self._folder.add_input(_RECEIVE, now_ms, wire, hint, from_store)
        return step

    def tick(self, now_ms: int) -> ParticipantStep:
        """Do what is due."""
        return self._take(_TICK, now_ms)

    def compare_head(self, newest: Sequence[tuple[int, str]], now_ms: int) -> ParticipantStep:
        """Compare with the newest messages of the channel."""
        return self._take(_HEAD, now_ms, [list(head) for head in newest])

    def say_again(self, message_ids: Iterable[str], now_ms: int) -> ParticipantStep:
        """Send unacknowledged messages again, now."""
        return self._take(_AGAIN, now_ms, list(message_ids))

    def stand_at(self, cursor: bytes, now_ms: int) -> ParticipantStep:
        """Note the cursor up to which the edge's store has been read."""
        return self._take(_STAND, now_ms, cursor)

    def set_clock(self, now_ms: int, clock_ms: int) -> ParticipantStep:
        """Set the wall clock that belongs to a time of the timers."""
        return self._take(_CLOCK, now_ms, clock_ms)

    def reached(self, now_ms: int) -> ParticipantStep:
        """Fetch all missing messages again, since others can be reached again, before any is given up."""
        return self._take(_REACHED, now_ms)

    def withdraw_ahead(self, now_ms: int) -> ParticipantStep:
        """Undo what was sent with a clock that was ahead; see `Channel.withdraw_ahead`."""
        return self._take(_WITHDRAW, now_ms)

    @property
    def now_ms(self) -> int:
        """The time of the timers in milliseconds."""
        return self._now_ms

    def clock_at(self, now_ms: int) -> int:
        """Return the wall clock in milliseconds at a time of the timers, by the last `set_clock`."""
        return self._clock_ms + now_ms - self._now_ms

    @property
    def has_uncommitted(self) -> bool:
        """Whether `commit` has something to write."""
        return self._folder.has_pending

    def commit(self) -> None:
        """Write the inputs that were taken, and from time to time a snapshot."""
        self._folder.commit()
        if self._folder.wants_snapshot:
            self.snapshot()

    def snapshot(self) -> None:
        """Write the whole state again."""
        self._folder.commit()
        self._folder.write_snapshot(
            ParticipantSnapshot(
                self.channel_id,
                self.profile,
                self.participant_id,
                self._seed,
                _plain(self._settings),
                self._made_ms,
                self._now_ms,
                self._channel.journal_whole(),
                self._channel.head(),
                self._logged,
                self.cursor,
                self._clock_ms,
            )
        )
        self._channel.journal_kept(self._channel.journal_mark)

    def next_due_ms(self) -> int | None:
        """Return the time at which `tick` has something to do next; None if nothing is due."""
        return self._channel.next_due_ms()

    def wire(self, message_id: str) -> bytes | None:
        """Return a recent message byte for byte as it was on the wire; None if its bytes are not kept."""
        return self._channel.wire(message_id)

    @property
    def is_elsewhere(self) -> bool:
        """Whether a message under this participant's id has come that this process did not send."""
        return self._channel.foreign_own > self._foreign_before

    def status(self) -> Status:
        """Return what the machine knows and waits for."""
        return self._channel.status()

    def _time(self, now_ms: int) -> int:
        self._pass_until(max(now_ms, self._now_ms))
        return self._now_ms

    def _pass_until(self, now_ms: int) -> None:
        self._clock_ms += now_ms - self._now_ms
        self._now_ms = now_ms

    def _take(self, kind: int, now_ms: int, *arguments: Any) -> ParticipantStep:
        now_ms = self._time(now_ms)
        step = self._do(kind, now_ms, arguments)
        self._folder.add_input(kind, now_ms, *arguments)
        return step

    def _do(self, kind: int, now_ms: int, arguments: Sequence[Any]) -> ParticipantStep:
        output = _STEPS[kind](self, now_ms, *arguments)
        logged = tuple(entry for event in output.events if (entry := self._log(event)) is not None)
        return ParticipantStep(output, logged)

    def _log(self, event: SdsEvent) -> LoggedMessage | None:
        if not isinstance(event, Sent | Delivered) or event.position is None:
            return None
        self._logged += 1
        own = isinstance(event, Sent)
        sender_id = self.participant_id if isinstance(event, Sent) else event.sender_id
        gap = event.gap if isinstance(event, Delivered) else ()
        assert event.lamport_timestamp is not None, "what is in the log has one"
        if self._logged > self.logged_before:
            self._folder.add_log_entry(
                own,
                event.message_id,
                sender_id,
                event.content,
                event.lamport_timestamp,
                event.position,
                list(gap),
                self._clock_ms,
            )
        return LoggedMessage(
            self._logged,
            own,
            event.message_id,
            sender_id,
            event.content,
            event.lamport_timestamp,
            event.position,
            gap,
            self._clock_ms,
        )

    def _sent(self, now_ms: int, content: bytes, nonce: bytes) -> ChannelOutput:
        return self._channel.send(self.participant_id, content, now_ms, nonce=nonce)

    def _received(self, now_ms: int, wire: bytes, hint: bytes | None, from_store: bool) -> ChannelOutput:
        source = "store" if from_store else None
        return self._channel.receive(wire, now_ms, retrieval_hint=hint, source=source)

    def _again(self, now_ms: int, message_ids: Sequence[str]) -> ChannelOutput:
        for message_id in message_ids:
            self._channel.send_again(message_id, now_ms)
        return self._channel.tick(now_ms, only="outgoing")

    def _stand(self, now_ms: int, cursor: bytes) -> ChannelOutput:
        self.cursor = cursor
        return ChannelOutput()

    def _compare(self, now_ms: int, newest: Sequence[Sequence[Any]]) -> ChannelOutput:
        return self._channel.compare_head([(lamport, message_id) for lamport, message_id in newest], now_ms)

    def _tick(self, now_ms: int) -> ChannelOutput:
        return self._channel.tick(now_ms)

    def _set_clock(self, now_ms: int, clock_ms: int) -> ChannelOutput:
        self._clock_ms = clock_ms
        return self._channel.set_clock(now_ms, clock_ms)

    def _reached(self, now_ms: int) -> ChannelOutput:
        return self._channel.fetch_again(now_ms)

    def _withdraw(self, now_ms: int) -> ChannelOutput:
        return self._channel.withdraw_ahead(now_ms)


_STEPS: Mapping[int, Callable[..., ChannelOutput]] = {
    _SEND: Participant._sent,
    _RECEIVE: Participant._received,
    _TICK: Participant._tick,
    _HEAD: Participant._compare,
    _AGAIN: Participant._again,
    _STAND: Participant._stand,
    _CLOCK: Participant._set_clock,
    _REACHED: Participant._reached,
    _WITHDRAW: Participant._withdraw,
}


def _is_ephemeral(output: ChannelOutput) -> bool:
    """Whether the message is ephemeral: it changes nothing in the machine and is not stored."""
    first = output.events[0] if output.events else None
    return isinstance(first, Received) and first.message_kind == "ephemeral"


def _plain(settings: SdsSettings) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
