"""SDS-R: asking other participants for missing messages, and answering them (reference, 1.3 and 3.1).

Who misses a message asks after T_req, who has it answers after T_resp, both spread by hashes; whoever sees
another's request or answer first puts off or drops its own. Both buffers are bounded: when one is full, what
is due last is left out, be it the newcomer.

Requests travel in messages that are sent anyway. When none is, a sync is sent for their sake, after a gap
that doubles with each that brought nothing, whoever sent it. So however many ids are asked for, and however
many participants lack them, a channel carries a bounded number of such syncs.

A request that brought nothing is repeated a few times, after a wait that doubles from T_max to minutes. The
latter half of each wait is spread over the participants. Another's request counts as one of ours, but in a
row no more often than there are others, so that nobody is kept from asking. Of many requests that are due,
those go first whose namer has had the fewest asked for in vain: invented ids do not hold up honest ones.

What was answered is not answered again within a wait that doubles from T_min, and answers are bounded in
bytes a minute.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Self

from culm_models.sds.delivery.missing import Namers
from culm_models.sds.repair.hashes import in_response_group, request_offset_ms, response_offset_ms
from culm_models.sds.state.journal import pack, unpacked
from culm_models.sds.timing import TimerQueue
from culm_models.sds.wire.messages import HistoryEntry, RepairHash

_FORMAT: Final = 1
_ITEMS: Final = 5
# Items that format 1 has had since later: the pauses, who named each id, and how often each was answered.
_APPENDED: Final = 3
# Of many hosted participants so many take part: one would do, more only spread better.
_MOST_SPEAKERS: Final = 16
# Requests of one received message that are looked at; the implementations send three.
_MOST_REQUESTS: Final = 16
_LEAST_PUT_OFF: Final = 3
_MOST_DOUBLINGS: Final = 20
_MS_PER_MIN: Final = 60_000


@dataclass(frozen=True, slots=True)
class RepairRule:
    """`t_min_ms`, `t_max_ms`: the bounds of T_req; T_resp is below `t_max_ms`. `groups`: response groups.

    `gap_ms`: the time between two syncs that are sent for the sake of requests alone; it doubles up to
    `longest_gap_ms` while they bring nothing. `attempts`: how often a message is asked for at most, after
    waits that double up to `longest_ms`. `answer_bytes_per_min`: what is answered, in bytes a minute.
    """

    hash_rule: RepairHash = "sha256"
    t_min_ms: int = 30_000
    t_max_ms: int = 120_000
    groups: int = 1
    most_waiting: int = 1_000
    gap_ms: int = 5_000
    longest_gap_ms: int = 1_800_000
    longest_ms: int = 600_000
    attempts: int = 8
    answer_bytes_per_min: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """`participant_id`, one of ours, is to rebroadcast the message now, as it was."""

    participant_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class _Request:
    """A missing message, how often it was asked for by anyone, and by others in a row."""

    entry: HistoryEntry
    offset_ms: int
    tries: int = 0
    put_off: int = 0


class RepairBook:
    """Planned requests and answers of one channel, for all participants that this side hosts."""

    def __init__(self, rule: RepairRule) -> None:
        self._rule = rule
        self._hosts: frozenset[str] = frozenset()
        self._speakers: tuple[str, ...] = ()
        self._number = 0
        self._wanted: dict[str, _Request] = {}
        self._namers = Namers()
        self._request_times = TimerQueue()
        # When the channel last asked, by whomever, how often that brought nothing, and others in a row.
        self._asked_ms: int | None = None
        self._vain = self._put_off = 0
        self._answers: dict[str, str] = {}
        self._answer_times = TimerQueue()
        # When each was answered, and how often before; the oldest first.
        self._answered: dict[str, tuple[int, int]] = {}
        # When all answers so far would be sent at the rate that is allowed; at most a minute ahead.
        self._answers_from_ms = 0

    def host(self, participants: Sequence[str]) -> None:
        """Whom this side hosts from now on; at most the first 16 speak. None: nothing new is planned."""
        self._hosts = frozenset(participants)
        self._speakers = tuple(islice(participants, _MOST_SPEAKERS))

    def want(self, entry: HistoryEntry, now_ms: int, namer_id: str = "") -> bool:
        """A message is missing that `namer_id` named: plan a request.

        False when one is planned or there is no room: then the newest of whoever named the most gives way,
        or what is due last.
        """
        message_id = entry.message_id
        if message_id in self._wanted:
            self._namers.share(message_id, namer_id)
            return False
        if not self._speakers:
            return False
        rule = self._rule
        offset_ms = min(
            request_offset_ms(rule.hash_rule, speaker, message_id, rule.t_min_ms, rule.t_max_ms)
            for speaker in self._speakers
        )
        if len(self._wanted) >= rule.most_waiting and not self._evict_request(now_ms + offset_ms, namer_id):
            return False
        self._wanted[message_id] = _Request(entry, offset_ms)
        self._namers.add(message_id, namer_id)
        self._plan(self._request_times, message_id, now_ms + offset_ms)
        return True

    def __contains__(self, message_id: object) -> bool:
        """Whether requests for a message are planned."""
        return message_id in self._wanted

    def got(self, message_id: str) -> bool:
        """A copy of the message was received: no request, and no answer, for another has answered.

        Whether it was that: an answer to what we were going to answer.
        """
        request = self._wanted.get(message_id)
        if request is not None and request.tries:
            self._vain = max(self._vain - 1, 0)
        self.forget(message_id)
        if self._answers.pop(message_id, None) is None:
            return False
        self._answer_times.drop(message_id)
        return True

    def forget(self, message_id: str) -> None:
        """The message is given up: no further requests."""
        if self._wanted.pop(message_id, None) is not None:
            self._request_times.drop(message_id)
            self._namers.drop(message_id)

    def requested_by(
        self,
        sender_id: str,
        entries: Iterable[HistoryEntry],
        writer_of: Callable[[str], str | None],
        now_ms: int,
        senders: int = 0,
    ) -> list[str]:
        """`sender_id` asks, who is not hosted here. Own requests are put off.

        `writer_of`: the sender of a message whose bytes are at hand, else None; those messages are planned to
        be answered. `senders`: how many the channel has. Returns the ids that are planned newly.
        """
        planned: list[str] = []
        if sender_id in self._hosts:
            return planned
        most_put_off = max(_LEAST_PUT_OFF, senders)
        for entry in islice(entries, _MOST_REQUESTS):
            message_id = entry.message_id
            request = self._wanted.get(message_id)
            if request is not None and request.put_off < most_put_off:
                self._ask_later(replace(request, put_off=request.put_off + 1), now_ms)
            writer_id = writer_of(message_id)
            if writer_id is not None and self._plan_answer(message_id, writer_id, now_ms):
                planned.append(message_id)
        if self._wanted and self._put_off < most_put_off:
            self._put_off += 1
            self._asked(now_ms)
        return planned

    def requests(self, now_ms: int, limit: int = 3) -> tuple[HistoryEntry, ...]:
        """What the message that is sent now asks for, planned anew with back-off.

        Due requests whose namers have had the fewest asked for in vain go first, then those due first.
        """
        due: list[tuple[int, int, str]] = []
        while (first := self._request_times.first()) is not None and first[0] <= now_ms:
            due.append((*self._request_times.time(first[1]), first[1]))
            self._request_times.take(now_ms)
        if not due:
            return ()
        chosen = [message_id for _, _, message_id in due] if len(due) <= limit else self._fairest(due, limit)
        for due_ms, number, message_id in due:
            self._request_times.put(message_id, due_ms, number)
        entries = tuple(self._wanted[message_id].entry for message_id in chosen)
        for message_id in chosen:
            self._ask_later(replace(self._wanted[message_id], put_off=0), now_ms)
        if entries:
            self._put_off = 0
            self._asked(now_ms)
        return entries

    def answers(self, now_ms: int, limit: int = 64) -> Iterator[Answer]:
        """Give what is to be rebroadcast now, one by one; `spent` is to be called for each that is sent."""
        for _ in range(limit):
            due_ms = self.answers_due_ms()
            if due_ms is None or due_ms > now_ms:
                return
            message_id = self._answer_times.take(now_ms)
            assert message_id is not None, "an answer is due"
            _, times = self._answered.pop(message_id, (0, 0))
            self._answered[message_id] = now_ms, times + 1
            if len(self._answered) > self._rule.most_waiting:
                del self._answered[next(iter(self._answered))]
            yield Answer(self._answers.pop(message_id), message_id)

    def spent(self, size_bytes: int, now_ms: int) -> None:
        """An answer of this size was sent: it counts against what a minute allows."""
        cost_ms = size_bytes * _MS_PER_MIN // self._rule.answer_bytes_per_min
        self._answers_from_ms = max(self._answers_from_ms, now_ms) + cost_ms

    def requests_due_ms(self) -> int | None:
        """When a sync should be sent for the sake of requests; None when none is planned."""
        first = self._request_times.first()
        if first is None or self._asked_ms is None:
            return None if first is None else first[0]
        gap_ms = self._nominal_ms(self._rule.gap_ms, self._vain, self._rule.longest_gap_ms)
        return max(first[0], self._asked_ms + self._spread(gap_ms, self._wanted[first[1]].offset_ms))

    def answers_due_ms(self) -> int | None:
        """When the next answer is due; None when none is planned."""
        due_ms = self._answer_times.next_due_ms()
        return None if due_ms is None else max(due_ms, self._answers_from_ms - _MS_PER_MIN)

    def next_due_ms(self) -> int | None:
        """The earliest time at which a request or an answer is due; None when nothing is planned."""
        times = (self.requests_due_ms(), self.answers_due_ms())
        return min((time for time in times if time is not None), default=None)

    def pack(self) -> bytes:
        """All of it as bytes, equal for equal histories."""
        return pack(
            _FORMAT,
            self._number,
            self._asked_ms,
            [
                [
                    request.entry.message_id,
                    request.entry.retrieval_hint,
                    request.entry.sender_id,
                    request.offset_ms,
                    request.tries,
                    request.put_off,
                    *self._request_times.time(message_id),
                ]
                for message_id, request in self._wanted.items()
            ],
            [
                [message_id, speaker, *self._answer_times.time(message_id)]
                for message_id, speaker in self._answers.items()
            ],
            [[message_id, answered_ms] for message_id, (answered_ms, _) in self._answered.items()],
            [self._vain, self._put_off, self._answers_from_ms],
            self._namers.items(),
            [times for _, times in self._answered.values()],
        )

    @classmethod
    def unpack(cls, data: bytes, rule: RepairRule) -> Self:
        """What `pack` wrote, `SnapshotError` for what it did not; `host` is to be called again."""
        book = cls(rule)
        with unpacked(data, _FORMAT, _ITEMS, appended=_APPENDED) as items:
            last, asked_ms, wanted, answers, answered, pauses, namers, times = items
            book._number, book._asked_ms = last, asked_ms
            for message_id, hint, sender_id, offset_ms, tries, put_off, due_ms, number in wanted:
                entry = HistoryEntry(message_id, hint, sender_id)
                book._wanted[message_id] = _Request(entry, offset_ms, tries, put_off)
                book._request_times.put(message_id, due_ms, number)
            book._namers = Namers.restored(namers or [("", list(book._wanted))])
            for message_id, speaker, due_ms, number in answers:
                book._answers[message_id] = speaker
                book._answer_times.put(message_id, due_ms, number)
            for place, (message_id, answered_ms) in enumerate(answered):
                book._answered[message_id] = answered_ms, times[place] if times else 1
            book._vain, book._put_off, book._answers_from_ms = pauses or (0, 0, 0)
        return book

    def _fairest(self, due: list[tuple[int, int, str]], limit: int) -> list[str]:
        """So many of the due requests, which are in their order."""
        by_namer: dict[str, deque[str]] = {}
        for _, _, message_id in due:
            by_namer.setdefault(self._namers.namer_of(message_id), deque()).append(message_id)
        vain: Counter[str] = Counter()
        for message_id, request in self._wanted.items():
            vain[self._namers.namer_of(message_id)] += request.tries
        chosen: list[str] = []
        while len(chosen) < limit:
            namer_id = min(by_namer, key=vain.__getitem__)
            chosen.append(by_namer[namer_id].popleft())
            vain[namer_id] += 1
            if not by_namer[namer_id]:
                del by_namer[namer_id]
        return chosen

    def _asked(self, now_ms: int) -> None:
        self._asked_ms = now_ms
        self._vain = min(self._vain + 1, _MOST_DOUBLINGS)

    def _ask_later(self, request: _Request, now_ms: int) -> None:
        message_id = request.entry.message_id
        tries = request.tries + 1
        if tries >= self._rule.attempts:
            self.forget(message_id)
            return
        self._wanted[message_id] = replace(request, tries=tries)
        nominal_ms = self._nominal_ms(self._rule.t_max_ms, tries, self._rule.longest_ms)
        self._plan(self._request_times, message_id, now_ms + self._spread(nominal_ms, request.offset_ms))

    def _nominal_ms(self, period_ms: int, doublings: int, longest_ms: int) -> int:
        return min(period_ms << min(doublings, _MOST_DOUBLINGS), max(period_ms, longest_ms))

    def _spread(self, nominal_ms: int, offset_ms: int) -> int:
        """A wait whose latter half is spread over the participants, as T_req is."""
        return nominal_ms // 2 + nominal_ms * offset_ms // (2 * max(self._rule.t_max_ms, 1))

    def _plan_answer(self, message_id: str, writer_id: str, now_ms: int) -> bool:
        rule = self._rule
        if message_id in self._answers:
            return False
        answered = self._answered.get(message_id)
        if answered is not None:
            answered_ms, times = answered
            if now_ms < answered_ms + self._nominal_ms(rule.t_min_ms, times - 1, rule.longest_ms):
                return False
        # The writer itself is the first to answer.
        speakers = (writer_id,) if writer_id in self._hosts else self._speakers
        offsets = [
            (response_offset_ms(rule.hash_rule, speaker, writer_id, message_id, rule.t_max_ms), speaker)
            for speaker in speakers
            if in_response_group(rule.hash_rule, speaker, writer_id, message_id, rule.groups)
        ]
        if not offsets:
            return False
        offset_ms, speaker = min(offsets)
        if len(self._answers) >= rule.most_waiting:
            last = self._answer_times.last()
            if last is None or last[0] <= now_ms + offset_ms:
                return False
            self._answer_times.drop(last[1])
            del self._answers[last[1]]
        self._answers[message_id] = speaker
        self._plan(self._answer_times, message_id, now_ms + offset_ms)
        return True

    def _evict_request(self, due_ms: int, namer_id: str) -> bool:
        """Drop a request for one that is due then. Returns whether there was one to drop."""
        victim = self._namers.surplus(namer_id)
        if victim is None:
            last = self._request_times.last()
            if last is None or last[0] <= due_ms:
                return False
            victim = last[1]
        self.forget(victim)
        return True

    def _plan(self, times: TimerQueue, message_id: str, due_ms: int) -> None:
        self._number += 1
        times.put(message_id, due_ms, self._number)
