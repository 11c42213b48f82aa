"""Due times of sync messages (sds.md, Periodic Sync Message), at a rate independent of the group's size.

A sync waits for a floor of quiet in the channel plus a uniform spread that grows with the number of distinct
senders. So of n participants about one sends per floor, whatever n is. Syncs stop after three sent ones
without effect, or after many received ones, and begin again when something is learned.

Two events make a sync earlier, and further messages do not delay it. Content that nobody has acknowledged yet
is answered within half the wait. Content that was sent again is answered within a part of the floor that
grows with the group, because its sender has not received an answer. No participant sends two of these syncs
within a floor.

With `ack_ms`, a sync answers content within about that time. One participant answers at once: the recent
sender that is nearest to the message. All others wait longer, by a draw that makes few of them early in a
group of any size, and the first of them answers if nobody has by then. A participant that receives another
message with the news does not answer. Each message with content causes at most one such sync of a side, and
there are never two within `ack_ms`.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Self

from culm_models.sds.acks.acknowledgement import Filter, HashPair
from culm_models.sds.state.journal import pack, unpacked
from culm_models.sds.sync.names import MAX_NAMED, SyncNames
from culm_models.sds.timing import Draw, early_share, share

_COUNTED: Final = 1_024
_RECENT: Final = 32
_HASH_BYTES: Final = 8
_RANGE: Final = 1 << (8 * _HASH_BYTES)


class GroupSize:
    """Counts distinct senders, up to `max_senders`, in bounded memory.

    It keeps the smallest 1,024 hashes of all senders. Up to that number the count is exact; beyond it the
    count follows from their density, within a few percent.
    """

    __slots__ = ("_hashes", "_last", "_max_senders", "_seen")

    def __init__(self, max_senders: int, hashes: Iterable[int] = ()) -> None:
        self._max_senders = max_senders
        # The last sender, whose repetition changes nothing.
        self._last: str | None = None
        self._hashes = sorted(hashes)
        self._seen = set(self._hashes)

    def add(self, sender_id: str) -> None:
        """Count a sender."""
        if sender_id == self._last:
            return
        self._last = sender_id
        number = _hash(sender_id)
        if number in self._seen or (len(self._hashes) == _COUNTED and number > self._hashes[-1]):
            return
        if len(self._hashes) == _COUNTED:
            self._seen.remove(self._hashes.pop())
        self._hashes.insert(bisect_left(self._hashes, number), number)
        self._seen.add(number)

    def count(self) -> int:
        """Return the number of senders, exact up to 1,024."""
        if len(self._hashes) < _COUNTED:
            return min(len(self._hashes), self._max_senders)
        return min(max(_COUNTED, (_COUNTED - 1) * _RANGE // self._hashes[-1]), self._max_senders)

    def hashes(self) -> list[int]:
        """Return the state, with which a new counter can continue."""
        return list(self._hashes)


class RecentSenders:
    """The last 32 distinct senders, including this side's own.

    All participants that receive the same messages know the same senders. So they agree, without
    communication, on who answers a message: the sender whose hash is nearest to that of the message.
    """

    __slots__ = ("_last", "_senders")

    def __init__(self, senders: Iterable[tuple[int, bool]] = ()) -> None:
        # By hash, with whether this side hosts the sender; the one silent for longest comes first.
        self._senders = dict(senders)
        self._last: str | None = None

    def add(self, sender_id: str, *, own: bool) -> None:
        """Note that a sender has sent a message."""
        if sender_id == self._last:
            return
        self._last = sender_id
        number = _hash(sender_id)
        self._senders.pop(number, None)
        self._senders[number] = own
        if len(self._senders) > _RECENT:
            del self._senders[next(iter(self._senders))]

    def nearest_is_own(self, message_id: str, writer_id: str) -> bool | None:
        """Whether this side hosts the sender, other than the writer, that is nearest to the message.

        Returns None if no other sender is known.
        """
        writer, target = _hash(writer_id), _hash(message_id)
        others = [number for number in self._senders if number != writer]
        return self._senders[min(others, key=target.__xor__)] if others else None

    def items(self) -> list[tuple[int, bool]]:
        """Return the state, from which a new object can be made."""
        return list(self._senders.items())


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big")


_FORMAT: Final = 1
_ITEMS: Final = 12
# Items that were added to format 1 later: when content is answered, and the recent senders.
_APPENDED: Final = 2
# Limit of received content remembered as unacknowledged; older content counts as acknowledged.
_MAX_OWED: Final = 16
# With fewer senders the spread does not grow.
_SMALL_GROUP: Final = 16
# Repeated content is answered within the floor divided by this, times the size of the group divided by this.
_EARLY: Final = 4
# The participant that must answer content does so after `ack_ms` divided by this.
_AT_ONCE: Final = 5
# Least group size for the draw that spreads answers: few are early, more are late.
_LEAST_SPREAD: Final = 64


@dataclass(frozen=True, slots=True)
class SyncRule:
    """The rules of syncs. Without effect, `fruitless` sent or `fruitless_received` others start silence.

    `ack_ms`: approximate time within which a sync answers content; 0: no earlier than the next due sync.
    """

    floor_ms: int = 30_000
    spread_ms: int = 30_000
    fruitless: int = 3
    fruitless_received: int = 16
    most_senders: int = 10_000
    ack_ms: int = 0


class SyncSchedule:
    """The schedule of a channel, for all participants that this side hosts."""

    def __init__(self, rule: SyncRule, draw: Draw) -> None:
        self._rule = rule
        self._draw = draw
        self._group = GroupSize(rule.most_senders)
        self._recent = RecentSenders()
        # Time of the channel's last message, number of senders then, and number of times the wait restarted.
        self._received_ms: int | None = None
        self._received_size = 0
        self._waits = 0
        self._silent = True
        self._own_sync_ms: int | None = None
        self._fruitless = 0
        self._fruitless_received = 0
        # With the writer, whose own messages acknowledge nothing of it.
        self._owed: dict[str, tuple[str, HashPair]] = {}
        self._owed_due_ms: int | None = None
        self._early_due_ms: int | None = None
        self._ack_due_ms: int | None = None
        self._names = SyncNames()

    def seen(
        self,
        sender_id: str,
        now_ms: int,
        *,
        learned: bool,
        history_ids: Iterable[str] = (),
        filter: Filter | None = None,
    ) -> None:
        """Note a message of another participant (new content or a sync; not ephemeral, not own).

        `learned`: it had content, an acknowledgement or the id of a missing message, or its filter is missing
        ids that we have, so that its sender can learn from us.
        """
        self._group.add(sender_id)
        if self._rule.ack_ms:
            self._recent.add(sender_id, own=False)
        if learned:
            self._note_learned()
        else:
            self._fruitless_received += 1
            self._silent = self._silent or self._fruitless_received >= self._rule.fruitless_received
        self._settle(sender_id, history_ids, filter)
        self._begin(now_ms)

    def owe(
        self, message_id: str, writer_id: str, pair: HashPair, now_ms: int, *, soon: bool = False
    ) -> None:
        """Note new, unacknowledged content of another participant; call it after `seen`.

        `soon`: answer it within about `ack_ms`.
        """
        self._names.content_came()
        if self._owed_due_ms is None:
            self._owed_due_ms = now_ms + self._wait_ms() // 2
        self._owed[message_id] = (writer_id, pair)
        if len(self._owed) > _MAX_OWED:
            del self._owed[next(iter(self._owed))]
        if soon:
            self._plan_ack(message_id, writer_id, now_ms)
        self._names.received(message_id, writer_id)

    def repeated(self, message_id: str, writer_id: str, now_ms: int) -> None:
        """Note repeated content: its sender has not received our messages. The next sync is early.

        It is not sent within `ack_ms`: all who hold the content receive every copy, and in a large group with
        losses several would answer each of them.
        """
        if not self._names.repeated(message_id, writer_id):
            return
        if self._early_due_ms is None:
            limit_ms = self._rule.floor_ms * max(_EARLY, self._group.count()) // (_EARLY * _EARLY)
            self._early_due_ms = now_ms + share(limit_ms, self._draw("sync.early", message_id, self._waits))

    def add_missing(self, message_ids: Iterable[str]) -> bool:
        """Note ids that a sync's sender is missing. Returns whether any was not named often enough by us."""
        return self._names.add_missing(message_ids)

    def names(self) -> tuple[str, ...]:
        """Return the ids that the next sync names before its regular causal history (see `SyncNames`)."""
        if self._ack_due_ms is None:
            return self._names.names()
        return tuple(dict.fromkeys((*self._owed, *self._names.names())))[:MAX_NAMED]

    def urgent_names(self) -> tuple[str, ...]:
        """Return the ids of these that a content message also names if it is sent earlier."""
        return self._names.urgent()

    def sent(
        self, now_ms: int, *, sync: bool, named: Iterable[str] = (), sender_id: str | None = None
    ) -> None:
        """Note that a hosted participant sent content or a sync; its causal history named `named`."""
        if self._rule.ack_ms and sender_id is not None:
            self._recent.add(sender_id, own=True)
        # Its filter contains all ids that we have.
        self._owed.clear()
        self._owed_due_ms = self._ack_due_ms = None
        self._names.mark_named(named)
        if sync:
            self._own_sync_ms = now_ms
            self._fruitless += 1
            self._silent = self._silent or self._fruitless >= self._rule.fruitless
            self._early_due_ms = now_ms if self._names.any_repeated else None
        else:
            self._names.content_came()
            self._note_learned()
        if not self._names.any_repeated:
            self._early_due_ms = None
        self._begin(now_ms)

    def rest(self) -> None:
        """Be silent until something is learned, because there is nothing to sync (an empty log)."""
        self._silent = True
        self._owed.clear()
        self._names.clear()
        self._owed_due_ms = self._early_due_ms = self._ack_due_ms = None

    def due(self, now_ms: int) -> bool:
        """Whether to send a sync now."""
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    def next_due_ms(self) -> int | None:
        """Return the time at which the next sync is due; None while the schedule is silent."""
        times = [time for time in (self._owed_due_ms, self._early_due_ms) if time is not None]
        if not self._silent and self._received_ms is not None:
            times.append(self._received_ms + self._wait_ms())
        due_ms = min(times, default=None)
        if due_ms is not None and self._own_sync_ms is not None:
            due_ms = max(due_ms, self._own_sync_ms + self._rule.floor_ms)
        ack_ms = self._ack_due_ms
        if ack_ms is None:
            return due_ms
        if self._own_sync_ms is not None:
            ack_ms = max(ack_ms, self._own_sync_ms + self._rule.ack_ms)
        return ack_ms if due_ms is None else min(due_ms, ack_ms)

    def senders(self) -> int:
        """Return the number of distinct senders: exact up to 1,024, then an estimate within a few percent."""
        return self._group.count()

    def pack(self) -> bytes:
        """Serialize the schedule, with equal bytes for equal histories."""
        return pack(
            _FORMAT,
            self._group.hashes(),
            self._received_ms,
            self._received_size,
            self._waits,
            self._silent,
            self._own_sync_ms,
            self._fruitless,
            self._fruitless_received,
            [[message_id, writer_id, *pair] for message_id, (writer_id, pair) in self._owed.items()],
            self._owed_due_ms,
            self._early_due_ms,
            self._names.items(),
            self._ack_due_ms,
            self._recent.items(),
        )

    @classmethod
    def unpack(cls, data: bytes, rule: SyncRule, draw: Draw) -> Self:
        """Restore from the bytes of `pack`. Raises `SnapshotError` for other bytes."""
        schedule = cls(rule, draw)
        with unpacked(data, _FORMAT, _ITEMS, appended=_APPENDED) as items:
            hashes, schedule._received_ms, schedule._received_size = items[:3]
            schedule._waits, schedule._silent = items[3:5]
            schedule._own_sync_ms, schedule._fruitless, schedule._fruitless_received = items[5:8]
            owed, schedule._owed_due_ms, schedule._early_due_ms, names = items[8:12]
            schedule._ack_due_ms, recent = items[12:]
            schedule._recent = RecentSenders((number, own) for number, own in recent or ())
            schedule._group = GroupSize(rule.most_senders, hashes)
            schedule._owed = {
                message_id: (writer_id, (first, second)) for message_id, writer_id, first, second in owed
            }
            schedule._names = SyncNames.restored(names)
        return schedule

    def _note_learned(self) -> None:
        self._silent = False
        self._fruitless = self._fruitless_received = 0

    def _settle(self, sender_id: str, history_ids: Iterable[str], filter: Filter | None) -> None:
        """Drop content that another participant acknowledges: we need not acknowledge it early."""
        history_ids = tuple(history_ids)
        self._names.named_by(sender_id, history_ids)
        # Writers' statements about their own messages do not count, so with two participants this list is
        # empty.
        others = [(key, pair) for key, (writer_id, pair) in self._owed.items() if writer_id != sender_id]
        if others:
            shows = filter.contains if filter is not None and filter.is_evidence else None
            for message_id, pair in others:
                if message_id in history_ids or (shows and shows(pair)):
                    del self._owed[message_id]
        if not self._owed:
            self._owed_due_ms = self._ack_due_ms = None
        if not self._names.any_repeated:
            self._early_due_ms = None

    def _plan_ack(self, message_id: str, writer_id: str, now_ms: int) -> None:
        ack_ms = self._rule.ack_ms
        if not ack_ms or self._ack_due_ms is not None:
            return
        is_ours = self._recent.nearest_is_own(message_id, writer_id)
        wait_ms = ack_ms // _AT_ONCE
        if not is_ours:
            # If no sender is known that could answer at once, there is nobody to wait for.
            wait_ms = wait_ms if is_ours is None else ack_ms
            drawn = self._draw("sync.ack", message_id, self._waits)
            wait_ms += ack_ms - early_share(ack_ms, max(_LEAST_SPREAD, 2 * self._group.count()), drawn)
        self._ack_due_ms = now_ms + wait_ms

    def _begin(self, now_ms: int) -> None:
        self._received_ms = now_ms
        self._received_size = self._group.count()
        self._waits += 1

    def _wait_ms(self) -> int:
        """Return the wait since the channel's last message; it is derived from the stored state."""
        limit_ms = self._rule.spread_ms * max(_SMALL_GROUP, self._received_size) // _SMALL_GROUP
        return self._rule.floor_ms + share(limit_ms + 1, self._draw("sync", "", self._waits))
