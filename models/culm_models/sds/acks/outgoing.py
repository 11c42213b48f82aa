"""The buffer of unacknowledged outgoing messages and their re-sends (sds.md, Periodic Outgoing Buffer Sweep).

A channel has one buffer for all participants that this side hosts: a received message is reviewed once for
all of them. A re-send is byte for byte the first transmission. Of the wire bytes only the parts before and
after the filter are kept, with the mark of the filter's value: the value is large and shared.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from culm_models.sds.acks.acknowledgement import AckEvent, Acknowledgements, Filter, HashPair
from culm_models.sds.errors import SdsError
from culm_models.sds.events import Acknowledged, OutgoingState
from culm_models.sds.state.journal import PENDING, Record, pack, unpacked
from culm_models.sds.timing import Draw, TimerQueue, wait_ms

_FORMAT: Final = 1
_ITEMS: Final = 3


class OutgoingFullError(SdsError, code="sds.outgoing.full"):
    """The participant has as many unacknowledged messages as the limit allows."""


@dataclass(frozen=True, slots=True)
class ResendRule:
    """The rules of re-sends. `attempts`: re-sends before giving up. `most_waiting`: limit per participant."""

    unacknowledged_ms: int = 30_000
    possibly_acknowledged_ms: int = 120_000
    most_ms: int = 600_000
    attempts: int = 10
    possible_acks_threshold: int = 2
    most_waiting: int = 10_000


@dataclass(frozen=True, slots=True)
class Stripped:
    """Wire bytes without the filter: wire = before + filter field (value at `filter_mark`) + after."""

    before: bytes
    filter_mark: int
    after: bytes

    def record(self, message_id: str) -> Record:
        """Return the journal's record of this message as sent and unacknowledged."""
        return PENDING, message_id, self.filter_mark, self.before, self.after


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that waits for acknowledgement. `attempts`: the number of re-sends."""

    participant_id: str
    message_id: str
    stripped: Stripped
    state: OutgoingState
    evidence: tuple[str, ...]
    attempts: int
    next_due_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """The due messages. `resend`: send again now (attempts already counted). `gave_up`: removed messages."""

    resend: tuple[Pending, ...] = ()
    gave_up: tuple[Pending, ...] = ()


class _Slot:
    __slots__ = ("attempts", "due_ms", "message_id", "number", "pair", "participant_id", "shown", "stripped")

    def __init__(
        self, number: int, participant_id: str, message_id: str, pair: HashPair, stripped: Stripped
    ) -> None:
        self.number = number
        self.participant_id = participant_id
        self.message_id = message_id
        self.pair = pair
        self.stripped = stripped
        self.shown = False
        self.attempts = 0
        self.due_ms = 0


class OutgoingBuffer:
    """The messages of one channel that wait for acknowledgement."""

    def __init__(self, rule: ResendRule, draw: Draw) -> None:
        self._rule = rule
        self._draw = draw
        self._acknowledgements = Acknowledgements(threshold=rule.possible_acks_threshold)
        # An OrderedDict, since entries leave at the front: iterating over a dict would cross their holes.
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._waiting: Counter[str] = Counter()
        self._shown: Counter[str] = Counter()
        self._number = 0
        # For messages without evidence, and for messages with evidence.
        self._timers = (TimerQueue(), TimerQueue())

    def check_capacity(self, participant_id: str) -> None:
        """Raise `OutgoingFullError` if no further message of this participant is accepted."""
        if self._waiting[participant_id] >= self._rule.most_waiting:
            raise OutgoingFullError(
                f"{self._rule.most_waiting} messages of {participant_id!r} wait for acknowledgement"
            )

    def add(
        self, participant_id: str, message_id: str, pair: HashPair, stripped: Stripped, now_ms: int
    ) -> None:
        """Add a message that was sent just now. An id that waits already is a programming error."""
        slot = _Slot(self._number, participant_id, message_id, pair, stripped)
        self._number += 1
        slot.due_ms = now_ms + self._wait_ms(slot)
        self._put(slot)
        self._enter(slot)

    def review(
        self, sender_id: str, history_ids: Iterable[str], filter: Filter | None, now_ms: int
    ) -> list[AckEvent]:
        """Review the waiting messages with a received message, as `Acknowledgements.review` does."""
        events = self._acknowledgements.review(sender_id, history_ids, filter)
        for index, event in enumerate(events):
            slot = self._slots[event.message_id]
            if isinstance(event, Acknowledged):
                if slot.attempts:
                    events[index] = replace(event, attempts=slot.attempts)
                self._drop(slot)
            elif not slot.shown:
                self._timers[slot.shown].drop(slot.message_id)
                slot.shown = True
                self._shown[slot.participant_id] += 1
                # Never earlier than it was due without evidence.
                slot.due_ms = max(slot.due_ms, now_ms + self._wait_ms(slot))
                self._enter(slot)
        return events

    def due(self, now_ms: int, limit: int = 256) -> Due:
        """Return at most `limit` messages due by `now_ms`: those without evidence first, then by time."""
        resend: list[Pending] = []
        gave_up: list[Pending] = []
        for timers in self._timers:
            while len(resend) + len(gave_up) < limit:
                message_id = timers.take(now_ms)
                if message_id is None:
                    break
                slot = self._slots[message_id]
                if slot.attempts >= self._rule.attempts:
                    gave_up.append(self._pending(slot))
                    self._acknowledgements.remove(message_id)
                    self._drop(slot)
                    continue
                slot.attempts += 1
                slot.due_ms = now_ms + self._wait_ms(slot)
                self._enter(slot)
                resend.append(self._pending(slot))
        return Due(tuple(resend), tuple(gave_up))

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which `due` returns a message; None if none waits."""
        times = [time for timers in self._timers if (time := timers.next_due_ms()) is not None]
        return min(times, default=None)

    def hasten(self, message_id: str, now_ms: int) -> bool:
        """Make a message due now (a person's "send again"). Returns False if it does not wait."""
        slot = self._slots.get(message_id)
        if slot is None:
            return False
        # The message should be sent once more, not given up.
        slot.attempts = min(slot.attempts, self._rule.attempts - 1)
        if slot.due_ms > now_ms:
            slot.due_ms = now_ms
            self._enter(slot)
        return True

    def leave(self, participant_id: str) -> list[Pending]:
        """Drop the messages of a participant that leaves; return them in the order of sending."""
        return self._take_out(slot for slot in self._slots.values() if slot.participant_id == participant_id)

    def withdraw(self, message_ids: Container[str]) -> list[Pending]:
        """Drop these messages; return those that waited, in the order of sending."""
        return self._take_out(slot for slot in self._slots.values() if slot.message_id in message_ids)

    def get(self, message_id: str) -> Pending | None:
        """Return the current state of a message; None if it does not wait."""
        slot = self._slots.get(message_id)
        return None if slot is None else self._pending(slot)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._slots

    def __iter__(self) -> Iterator[Pending]:
        """Iterate over all waiting messages, in the order of sending."""
        return map(self._pending, self._slots.values())

    def counts(self, participant_id: str) -> tuple[int, int]:
        """Return a participant's number of messages as (unacknowledged, possibly acknowledged)."""
        possibly = self._shown[participant_id]
        return self._waiting[participant_id] - possibly, possibly

    def least_mark(self) -> int | None:
        """Return the oldest filter mark that a re-send may still need; None if no message waits."""
        return next((slot.stripped.filter_mark for slot in self._slots.values()), None)

    def pack(self, *, stripped: bool = True) -> bytes:
        """Serialize the buffer, with equal bytes for equal histories; `stripped` includes the wire bytes."""
        return pack(
            _FORMAT,
            self._number,
            [
                [*_packed(slot, stripped), self._acknowledgements.filters(slot.message_id)]
                for slot in self._slots.values()
            ],
            [
                [evidence, [self._slots[message_id].number for message_id in message_ids]]
                for evidence, message_ids in self._acknowledgements.groups()
            ],
        )

    @classmethod
    def unpack(
        cls, data: bytes, rule: ResendRule, draw: Draw, *, stripped: Callable[[str], Stripped] | None = None
    ) -> Self:
        """Restore a buffer from the bytes of `pack`. Raises `SnapshotError` for other bytes.

        `stripped` returns the wire bytes by message id if they were left out.
        """
        outgoing = cls(rule, draw)
        with unpacked(data, _FORMAT, _ITEMS) as (number, slots, groups):
            outgoing._number = number
            ids: dict[int, str] = {}
            for item in slots:
                slot_number, participant_id, message_id, first, second, shown, attempts, due_ms, wire = item[
                    :9
                ]
                if wire is None and stripped is None:
                    raise ValueError("the wire bytes were left out")
                kept = Stripped(*wire) if stripped is None else stripped(message_id)
                slot = _Slot(slot_number, participant_id, message_id, (first, second), kept)
                slot.shown, slot.attempts, slot.due_ms = shown, attempts, due_ms
                ids[slot_number] = message_id
                outgoing._put(slot)
                outgoing._enter(slot)
                # Filters were added to format 1 later.
                outgoing._acknowledgements.restore_filters(message_id, item[9] if item[9:] else ())
            outgoing._acknowledgements.restore(
                (evidence, [ids[slot_number] for slot_number in places]) for evidence, places in groups
            )
        return outgoing

    def _take_out(self, slots: Iterable[_Slot]) -> list[Pending]:
        gone = list(slots)
        pending = [self._pending(slot) for slot in gone]
        for slot in gone:
            self._acknowledgements.remove(slot.message_id)
            self._drop(slot)
        return pending

    def _put(self, slot: _Slot) -> None:
        self._acknowledgements.add(slot.number, slot.participant_id, slot.message_id, slot.pair)
        self._slots[slot.message_id] = slot
        self._waiting[slot.participant_id] += 1
        self._shown[slot.participant_id] += slot.shown

    def _drop(self, slot: _Slot) -> None:
        del self._slots[slot.message_id]
        self._timers[slot.shown].drop(slot.message_id)
        self._waiting[slot.participant_id] -= 1
        self._shown[slot.participant_id] -= slot.shown
        if not self._waiting[slot.participant_id]:
            del self._waiting[slot.participant_id], self._shown[slot.participant_id]

    def _wait_ms(self, slot: _Slot) -> int:
        rule = self._rule
        period_ms = rule.possibly_acknowledged_ms if slot.shown else rule.unacknowledged_ms
        drawn = self._draw("resend", slot.message_id, slot.attempts) if slot.attempts else 0
        return wait_ms(period_ms, slot.attempts, rule.most_ms, drawn)

    def _enter(self, slot: _Slot) -> None:
        self._timers[slot.shown].put(slot.message_id, slot.due_ms, slot.number)

    def _pending(self, slot: _Slot) -> Pending:
        return Pending(
            slot.participant_id,
            slot.message_id,
            slot.stripped,
            "possibly_acknowledged" if slot.shown else "unacknowledged",
            self._acknowledgements.evidence(slot.message_id),
            slot.attempts,
            slot.due_ms,
        )


def _packed(slot: _Slot, stripped: bool) -> list[Any]:
    kept = slot.stripped
    return [
        slot.number,
        slot.participant_id,
        slot.message_id,
        *slot.pair,
        slot.shown,
        slot.attempts,
        slot.due_ms,
        [kept.before, kept.filter_mark, kept.after] if stripped else None,
    ]
