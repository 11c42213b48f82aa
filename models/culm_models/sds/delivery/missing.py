"""Missing messages that others named: when to fetch them and when they are lost.

(sds.md, Periodic Incoming Buffer Sweep.) A missing id is fetched from the store with back-off until it
arrives or its time is over; then it is irretrievably lost, and messages that wait for it go on. The number of
ids is limited: at the limit, the newest id of the sender that named the most is replaced. If that is the
sender of the new id, the new id is refused until the next message that names it. The ids that one sender
names are fetched at a limited rate, so that the ids of others are fetched meanwhile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

from culm_models.sds.state.journal import pack, unpacked
from culm_models.sds.timing import Draw, TimerQueue, wait_ms
from culm_models.sds.wire.messages import HistoryEntry


class Namers:
    """The sender that each id is counted for."""

    __slots__ = ("_ids", "_namers", "_sizes")

    def __init__(self) -> None:
        self._namers: dict[str, str] = {}
        self._ids: dict[str, dict[str, None]] = {}
        # Namers by number of ids: the one with the most comes first.
        self._sizes = TimerQueue()

    def add(self, message_id: str, namer_id: str) -> None:
        """Count a new id for this namer."""
        self._namers[message_id] = namer_id
        self._ids.setdefault(namer_id, {})[message_id] = None
        self._resize(namer_id)

    def drop(self, message_id: str) -> None:
        """Stop counting an id; it may be unknown."""
        namer_id = self._namers.pop(message_id, None)
        if namer_id is not None:
            del self._ids[namer_id][message_id]
            self._resize(namer_id)

    def share(self, message_id: str, namer_id: str) -> None:
        """Count an id, which may be unknown, for another namer if that one has fewer ids."""
        present_id = self._namers.get(message_id)
        if present_id is not None and self.count(namer_id) + 1 < self.count(present_id):
            self.drop(message_id)
            self.add(message_id, namer_id)

    def namer_of(self, message_id: str) -> str:
        """Return the sender that a known id is counted for."""
        return self._namers[message_id]

    def count(self, namer_id: str) -> int:
        """Return the number of ids counted for a sender."""
        return len(self._ids.get(namer_id, ()))

    def surplus(self, namer_id: str) -> str | None:
        """Return the newest id of the sender with the most ids, to be replaced by another id of `namer_id`.

        Returns None if that sender has no more ids than `namer_id` would have.
        """
        largest = self._sizes.first()
        if largest is None or self.count(largest[1]) <= self.count(namer_id) + 1:
            return None
        return next(reversed(self._ids[largest[1]]))

    def items(self) -> list[tuple[str, list[str]]]:
        """Return the ids of each sender, for `restored`."""
        return [(namer_id, list(ids)) for namer_id, ids in self._ids.items()]

    @classmethod
    def restored(cls, items: Iterable[tuple[str, Iterable[str]]]) -> Self:
        """Restore the result of `items`."""
        namers = cls()
        for namer_id, message_ids in items:
            for message_id in message_ids:
                namers.add(message_id, namer_id)
        return namers

    def _resize(self, namer_id: str) -> None:
        size = len(self._ids[namer_id])
        if size:
            self._sizes.put(namer_id, -size, 0)
        else:
            self._sizes.drop(namer_id)
            del self._ids[namer_id]


_FORMAT: Final = 1
_ITEMS: Final = 2
_APPENDED: Final = 1
"""The number of items that were added to format 1 later: who named each id."""
_FETCHED_PER_S: Final = 256
_MS_PER_S: Final = 1_000
_ROUND_MS: Final = 10_000
"""Time within which a round of fetches is answered, by the store or by peers that an edge asks."""


@dataclass(frozen=True, slots=True)
class FetchRule:
    """The rules of fetches. `first_ms`: wait before the first fetch of a message that may only be late.

    `lost_ms`: time after which a message is lost; None: never.
    """

    first_ms: int = 0
    retry_ms: int = 10_000
    most_ms: int = 600_000
    lost_ms: int | None = 3_600_000
    most_waiting: int = 100_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A missing message: its start, number of fetches, and the times of the next fetch and of its loss."""

    entry: HistoryEntry
    since_ms: int
    attempts: int
    next_due_ms: int
    lost_at_ms: int | None


@dataclass(frozen=True, slots=True)
class MissingDue:
    """The due messages. `fetch`: fetch now (attempts already counted). `lost`: given up and removed."""

    fetch: tuple[Wanted, ...] = ()
    lost: tuple[Wanted, ...] = ()


class FetchSchedule:
    """The missing messages of one channel, with the times at which each is fetched and counts as lost."""

    def __init__(self, rule: FetchRule, draw: Draw) -> None:
        self._rule = rule
        self._draw = draw
        self._wanted: dict[str, Wanted] = {}
        self._namers = Namers()
        self._times = TimerQueue()
        self._number = 0

    def want(self, entry: HistoryEntry, now_ms: int, namer_id: str = "") -> bool:
        """Add a missing message that `namer_id` named. Returns whether it is new and there is capacity.

        A known message gets a hint or a sender that it does not have.
        """
        message_id = entry.message_id
        known = self._wanted.get(message_id)
        if known is not None:
            self._learn(known, entry)
            self._namers.share(message_id, namer_id)
            return False
        rule = self._rule
        if len(self._wanted) >= rule.most_waiting:
            surplus = self._namers.surplus(namer_id)
            if surplus is None:
                return False
            self.got(surplus)
        later_ms = rule.first_ms + self._namers.count(namer_id) // _FETCHED_PER_S * _MS_PER_S
        self._namers.add(message_id, namer_id)
        lost_at_ms = None if rule.lost_ms is None else now_ms + rule.lost_ms
        self._plan(Wanted(entry, now_ms, 0, now_ms + later_ms, lost_at_ms))
        return True

    def got(self, message_id: str) -> bool:
        """Remove a message that arrived. Returns whether it was missing."""
        self._times.drop(message_id)
        self._namers.drop(message_id)
        return self._wanted.pop(message_id, None) is not None

    def due(self, now_ms: int, limit: int = 256, *, gives_up: bool = True) -> MissingDue:
        """Return up to `limit` messages due by `now_ms`, earliest first; without `gives_up` only fetches."""
        fetch: list[Wanted] = []
        lost: list[Wanted] = []
        while len(fetch) + len(lost) < limit and (message_id := self._times.take(now_ms)) is not None:
            wanted = self._wanted[message_id]
            if wanted.lost_at_ms is not None and wanted.lost_at_ms <= now_ms:
                lost.append(wanted)
                continue
            fetch.append(self._fetched(wanted, now_ms))
        for wanted in lost:
            if gives_up:
                self.got(wanted.entry.message_id)
            else:
                self._plan(wanted)
        return MissingDue(tuple(fetch), tuple(lost) if gives_up else ())

    def fetch_again(self, now_ms: int, overdue_ms: int | None = None) -> tuple[Wanted, ...]:
        """Fetch the missing messages now, and do not lose them before an answer can arrive.

        With `overdue_ms`, fetch only messages whose loss is overdue for that long.
        """
        fetched: list[Wanted] = []
        for wanted in tuple(self._wanted.values()):
            lost_at_ms = wanted.lost_at_ms
            if overdue_ms is None or (lost_at_ms is not None and lost_at_ms + overdue_ms <= now_ms):
                again = self._fetched(wanted, now_ms)
                if lost_at_ms is not None:
                    answered_ms = max(again.next_due_ms, now_ms + _ROUND_MS)
                    again = replace(again, lost_at_ms=max(lost_at_ms, answered_ms))
                    self._plan(again)
                fetched.append(again)
        return tuple(fetched)

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which `due` returns a message; None if nothing is missing."""
        return self._times.next_due_ms()

    def get(self, message_id: str) -> Wanted | None:
        """Return the current state of a message; None if it is not missing."""
        return self._wanted.get(message_id)

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._wanted

    def __iter__(self) -> Iterator[Wanted]:
        """Iterate over all missing messages, in the order in which they were missed."""
        return iter(self._wanted.values())

    def pack(self) -> bytes:
        """Serialize the missing messages, with equal bytes for equal histories."""
        return pack(
            _FORMAT,
            self._number,
            [
                [
                    wanted.entry.message_id,
                    wanted.entry.retrieval_hint,
                    wanted.entry.sender_id,
                    wanted.since_ms,
                    wanted.attempts,
                    wanted.next_due_ms,
                    wanted.lost_at_ms,
                    self._times.time(message_id)[1],
                ]
                for message_id, wanted in self._wanted.items()
            ],
            self._namers.items(),
        )

    @classmethod
    def unpack(cls, data: bytes, rule: FetchRule, draw: Draw) -> Self:
        """Restore from the bytes of `pack`. Raises `SnapshotError` for other bytes."""
        missing = cls(rule, draw)
        with unpacked(data, _FORMAT, _ITEMS, appended=_APPENDED) as (last, items, namers):
            for message_id, hint, sender_id, since_ms, attempts, next_due_ms, lost_at_ms, number in items:
                entry = HistoryEntry(message_id, hint, sender_id)
                missing._number = number - 1
                missing._plan(Wanted(entry, since_ms, attempts, next_due_ms, lost_at_ms))
            missing._number = last
            missing._namers = Namers.restored(namers or [("", list(missing._wanted))])
        return missing

    def _fetched(self, wanted: Wanted, now_ms: int) -> Wanted:
        entry, tries = wanted.entry, wanted.attempts
        drawn = self._draw("fetch", entry.message_id, tries) if tries else 0
        next_ms = now_ms + wait_ms(self._rule.retry_ms, tries, self._rule.most_ms, drawn)
        fetched = Wanted(entry, wanted.since_ms, tries + 1, next_ms, wanted.lost_at_ms)
        self._plan(fetched)
        return fetched

    def _learn(self, known: Wanted, entry: HistoryEntry) -> None:
        old = known.entry
        if (old.retrieval_hint is None and entry.retrieval_hint is not None) or (
            old.sender_id is None and entry.sender_id is not None
        ):
            learnt = HistoryEntry(
                old.message_id, old.retrieval_hint or entry.retrieval_hint, old.sender_id or entry.sender_id
            )
            self._wanted[old.message_id] = Wanted(
                learnt, known.since_ms, known.attempts, known.next_due_ms, known.lost_at_ms
            )

    def _plan(self, wanted: Wanted) -> None:
        message_id = wanted.entry.message_id
        self._wanted[message_id] = wanted
        due_ms = wanted.next_due_ms
        if wanted.lost_at_ms is not None:
            due_ms = min(due_ms, wanted.lost_at_ms)
        self._number += 1
        self._times.put(message_id, due_ms, self._number)
