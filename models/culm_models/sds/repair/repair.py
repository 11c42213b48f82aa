"""SDS-R: requests for missing messages from other participants, and answers (reference, 1.3 and 3.1).

A participant that is missing a message requests it after T_req, and a participant that has it answers after
T_resp. Both times are spread by hashes. A participant that first sees another's request or answer delays its
own request or drops its own answer. The planned requests and answers are limited: at a limit, the one that is
due last is left out, even if it is the new one.

Requests travel in messages that are sent anyway. If no message is sent, a sync is sent for them, after a gap
that doubles with each request without success, whoever sent it. So a channel carries a limited number of such
syncs, however many ids are requested and however many participants are missing them.

A request without success is repeated a few times, after a wait that doubles from T_max to minutes. The second
half of each wait is spread over the participants. Another's request counts as one's own, but in a row no
more often than there are other senders, so that every participant can request. Of many due requests, those go
first whose namer has had the fewest unsuccessful requests: invented ids do not delay honest ones.

An answered message is not answered again within a wait that doubles from T_min, and answers are limited in
bytes per minute.
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
# Items that were added to format 1 later: the pauses, who named each id, and how often each was answered.
_APPENDED: Final = 3
# Of many hosted participants only so many take part: one would suffice, more only spread better.
_MAX_SPEAKERS: Final = 16
# Requests of one received message that are processed; the implementations send three.
_MAX_REQUESTS: Final = 16
_LEAST_PUT_OFF: Final = 3
_MAX_DOUBLINGS: Final = 20
_MS_PER_MIN: Final = 60_000


@dataclass(frozen=True, slots=True)
class RepairRule:
    """The rules of repair.

    `t_min_ms`, `t_max_ms`: the bounds of T_req; T_resp is below `t_max_ms`. `groups`: response groups.
    `gap_ms`: the time between two syncs that are sent only for requests; it doubles up to `longest_gap_ms`
    while they have no success. `attempts`: largest number of requests for a message, after waits that double
    up to `longest_ms`. `answer_bytes_per_min`: limit of answers, in bytes per minute.
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
class RepairAnswer:
    """A message that the hosted `participant_id` must broadcast again now, byte for byte."""

    participant_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class _Request:
    """A missing message, with the number of requests by anyone, and by others in a row."""

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
        # Time of the channel's last request by anyone, number without success, and number of others' in a
        # row.
        self._asked_ms: int | None = None
        self._vain = self._put_off = 0
        self._answers: dict[str, str] = {}
        self._answer_times = TimerQueue()
        # Time and number of answers for each message; the oldest first.
        self._answered: dict[str, tuple[int, int]] = {}
        # Time at which all answers so far would be sent at the allowed rate; at most a minute ahead.
        self._answers_from_ms = 0

    def host(self, participants: Sequence[str]) -> None:
        """Set the hosted participants; the first 16 send. Without any, nothing new is planned."""
        self._hosts = frozenset(participants)
        self._speakers = tuple(islice(participants, _MAX_SPEAKERS))

    def want(self, entry: HistoryEntry, now_ms: int, namer_id: str = "") -> bool:
        """Plan a request for a missing message that `namer_id` named.

        Returns False if one is planned already or there is no capacity. For capacity, the newest id of the
        sender that named the most is dropped, or the request that is due last.
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
        """Drop the request and the answer for a message that was received.

        Returns whether an answer was planned, so that the received copy was another's answer.
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
        """Drop the requests for a message that was given up."""
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
        """Process requests of `sender_id`, unless it is hosted here. Requests of this side are delayed.

        `writer_of`: returns the sender of a message whose bytes are available, else None; answers are planned
        for those messages. `senders`: the number of senders of the channel. Returns the ids of newly planned
        answers.
        """
        planned: list[str] = []
        if sender_id in self._hosts:
            return planned
        most_put_off = max(_LEAST_PUT_OFF, senders)
        for entry in islice(entries, _MAX_REQUESTS):
            message_id = entry.message_id
            request = self._wanted.get(message_id)
            if request is not None and request.put_off < most_put_off:
                self._defer(replace(request, put_off=request.put_off + 1), now_ms)
            writer_id = writer_of(message_id)
            if writer_id is not None and self._plan_answer(message_id, writer_id, now_ms):
                planned.append(message_id)
        if self._wanted and self._put_off < most_put_off:
            self._put_off += 1
            self._asked(now_ms)
        return planned

    def requests(self, now_ms: int, limit: int = 3) -> tuple[HistoryEntry, ...]:
        """Return the requests for the message that is sent now, and plan them again with back-off.

        Due requests whose namers have had the fewest unsuccessful requests go first, then by due time.
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
            self._defer(replace(self._wanted[message_id], put_off=0), now_ms)
        if entries:
            self._put_off = 0
            self._asked(now_ms)
        return entries

    def answers(self, now_ms: int, limit: int = 64) -> Iterator[RepairAnswer]:
        """Yield messages to broadcast again now; the caller must call `spent` for each one that it sends."""
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
            yield RepairAnswer(self._answers.pop(message_id), message_id)

    def spent(self, size_bytes: int, now_ms: int) -> None:
        """Count a sent answer of this size against the limit per minute."""
        cost_ms = size_bytes * _MS_PER_MIN // self._rule.answer_bytes_per_min
        self._answers_from_ms = max(self._answers_from_ms, now_ms) + cost_ms

    def requests_due_ms(self) -> int | None:
        """Return the time at which a sync should be sent for requests; None if no request is planned."""
        first = self._request_times.first()
        if first is None or self._asked_ms is None:
            return None if first is None else first[0]
        gap_ms = self._nominal_ms(self._rule.gap_ms, self._vain, self._rule.longest_gap_ms)
        return max(first[0], self._asked_ms + self._spread(gap_ms, self._wanted[first[1]].offset_ms))

    def answers_due_ms(self) -> int | None:
        """Return the time at which the next answer is due; None if none is planned."""
        due_ms = self._answer_times.next_due_ms()
        return None if due_ms is None else max(due_ms, self._answers_from_ms - _MS_PER_MIN)

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which a request or an answer is due; None if nothing is planned."""
        times = (self.requests_due_ms(), self.answers_due_ms())
        return min((time for time in times if time is not None), default=None)

    def pack(self) -> bytes:
        """Serialize the table, with equal bytes for equal histories."""
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
        """Restore from the bytes of `pack`; `host` must follow. Raises `SnapshotError` for other bytes."""
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
            for index, (message_id, answered_ms) in enumerate(answered):
                book._answered[message_id] = answered_ms, times[index] if times else 1
            book._vain, book._put_off, book._answers_from_ms = pauses or (0, 0, 0)
        return book

    def _fairest(self, due: list[tuple[int, int, str]], limit: int) -> list[str]:
        """Choose `limit` of the due requests, which are in order."""
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
        self._vain = min(self._vain + 1, _MAX_DOUBLINGS)

    def _defer(self, request: _Request, now_ms: int) -> None:
        message_id = request.entry.message_id
        tries = request.tries + 1
        if tries >= self._rule.attempts:
            self.forget(message_id)
            return
        self._wanted[message_id] = replace(request, tries=tries)
        nominal_ms = self._nominal_ms(self._rule.t_max_ms, tries, self._rule.longest_ms)
        self._plan(self._request_times, message_id, now_ms + self._spread(nominal_ms, request.offset_ms))

    def _nominal_ms(self, period_ms: int, doublings: int, longest_ms: int) -> int:
        return min(period_ms << min(doublings, _MAX_DOUBLINGS), max(period_ms, longest_ms))

    def _spread(self, nominal_ms: int, offset_ms: int) -> int:
        """Return a wait whose second half is spread over the participants, as T_req is."""
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
        # The writer itself answers first.
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
        """Drop a request in favour of another that is due at `due_ms`. Returns whether one was dropped."""
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
