"""SDS-R: asking other participants for missing messages, and answering them (reference, 1.3 and 3.1).

Who misses a message asks after T_req, who has it answers after T_resp, both spread by hashes; whoever sees
another's request or answer first puts off or drops its own. Both buffers are bounded: when one is full, what
is due last is left out, be it the newcomer.

A request that brought nothing is repeated: T_max, within which answers come, and T_req doubled up to T_max
lie between. Another's request counts as one of ours, but for at most three in a row, so that nobody is kept
from asking. What was answered is not answered again within T_min.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Self

from culm_models.sds.draws import wait_ms
from culm_models.sds.repair.hashes import in_response_group, request_offset_ms, response_offset_ms
from culm_models.sds.state.packed import pack, unpacked
from culm_models.sds.timer_queue import TimerQueue
from culm_models.sds.wire.messages import HistoryEntry
from culm_models.sds.wire.profiles import RepairHash

_FORMAT: Final = 1
_ITEMS: Final = 5
# Of many hosted participants so many take part: one would do, more only spread better.
_MOST_SPEAKERS: Final = 16
# Requests of one received message that are looked at; the implementations send three.
_MOST_REQUESTS: Final = 16
_MOST_PUT_OFF: Final = 3


@dataclass(frozen=True, slots=True)
class RepairRule:
    """`t_min_ms`, `t_max_ms`: the bounds of T_req; T_resp is below `t_max_ms`. `groups`: response groups.

    `gap_ms`: the least time between two messages that are sent for the sake of requests alone.
    """

    hash_rule: RepairHash = "sha256"
    t_min_ms: int = 30_000
    t_max_ms: int = 120_000
    groups: int = 1
    most_waiting: int = 1_000
    gap_ms: int = 5_000


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
        self._request_times = TimerQueue()
        self._asked_ms: int | None = None
        self._answers: dict[str, str] = {}
        self._answer_times = TimerQueue()
        # When each was answered, the oldest first.
        self._answered: dict[str, int] = {}

    def host(self, participants: Sequence[str]) -> None:
        """Whom this side hosts from now on; at most the first 16 speak. None: nothing new is planned."""
        self._hosts = frozenset(participants)
        self._speakers = tuple(islice(participants, _MOST_SPEAKERS))

    def want(self, entry: HistoryEntry, now_ms: int) -> bool:
        """A message is missing: plan a request. False when one is planned or there is no room."""
        message_id = entry.message_id
        if message_id in self._wanted or not self._speakers:
            return False
        rule = self._rule
        offset_ms = min(
            request_offset_ms(rule.hash_rule, speaker, message_id, rule.t_min_ms, rule.t_max_ms)
            for speaker in self._speakers
        )
        if not self._make_room(self._request_times, now_ms + offset_ms, self._wanted):
            return False
        self._wanted[message_id] = _Request(entry, offset_ms)
        self._plan(self._request_times, message_id, now_ms + offset_ms)
        return True

    def got(self, message_id: str) -> bool:
        """A copy of the message was received: no request, and no answer, for another has answered.

        Whether it was that: an answer to what we were going to answer.
        """
        self.forget(message_id)
        if self._answers.pop(message_id, None) is None:
            return False
        self._answer_times.drop(message_id)
        return True

    def forget(self, message_id: str) -> None:
        """The message is given up as lost: no further requests."""
        if self._wanted.pop(message_id, None) is not None:
            self._request_times.drop(message_id)

    def requested_by(
        self,
        sender_id: str,
        entries: Iterable[HistoryEntry],
        writer_of: Callable[[str], str | None],
        now_ms: int,
    ) -> list[str]:
        """`sender_id` asks, who is not hosted here. Own requests for the same are put off.

        `writer_of`: the sender of a message whose bytes are at hand, else None; those messages are planned to
        be answered. Returns the ids that are planned newly.
        """
        planned: list[str] = []
        if sender_id in self._hosts:
            return planned
        for entry in islice(entries, _MOST_REQUESTS):
            message_id = entry.message_id
            request = self._wanted.get(message_id)
            if request is not None and request.put_off < _MOST_PUT_OFF:
                self._ask_later(replace(request, put_off=request.put_off + 1), now_ms)
            writer_id = writer_of(message_id)
            if writer_id is not None and self._plan_answer(message_id, writer_id, now_ms):
                planned.append(message_id)
        return planned

    def requests(self, now_ms: int, most: int = 3) -> tuple[HistoryEntry, ...]:
        """What the message that is sent now asks for, earliest due first; planned anew with back-off."""
        entries: list[HistoryEntry] = []
        while len(entries) < most and (message_id := self._request_times.take(now_ms)) is not None:
            request = self._wanted[message_id]
            entries.append(request.entry)
            self._ask_later(replace(request, put_off=0), now_ms)
        if entries:
            self._asked_ms = now_ms
        return tuple(entries)

    def answers(self, now_ms: int, most: int = 64) -> tuple[Answer, ...]:
        """What is to be rebroadcast now; it is dropped from the book."""
        answers: list[Answer] = []
        while len(answers) < most and (message_id := self._answer_times.take(now_ms)) is not None:
            answers.append(Answer(self._answers.pop(message_id), message_id))
            self._answered.pop(message_id, None)
            self._answered[message_id] = now_ms
            if len(self._answered) > self._rule.most_waiting:
                del self._answered[next(iter(self._answered))]
        return tuple(answers)

    def requests_due_ms(self) -> int | None:
        """When a sync should be sent for the sake of requests; None when none is planned."""
        due_ms = self._request_times.next_due_ms()
        if due_ms is None or self._asked_ms is None:
            return due_ms
        return max(due_ms, self._asked_ms + self._rule.gap_ms)

    def answers_due_ms(self) -> int | None:
        """When the next answer is due; None when none is planned."""
        return self._answer_times.next_due_ms()

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
            list(self._answered.items()),
        )

    @classmethod
    def unpack(cls, data: bytes, rule: RepairRule) -> Self:
        """What `pack` wrote, `SnapshotError` for what it did not; `host` is to be called again."""
        book = cls(rule)
        with unpacked(data, _FORMAT, _ITEMS) as (last, asked_ms, wanted, answers, answered):
            book._number, book._asked_ms = last, asked_ms
            for message_id, hint, sender_id, offset_ms, tries, put_off, due_ms, number in wanted:
                entry = HistoryEntry(message_id, hint, sender_id)
                book._wanted[message_id] = _Request(entry, offset_ms, tries, put_off)
                book._request_times.put(message_id, due_ms, number)
            for message_id, speaker, due_ms, number in answers:
                book._answers[message_id] = speaker
                book._answer_times.put(message_id, due_ms, number)
            book._answered = dict(answered)
        return book

    def _ask_later(self, request: _Request, now_ms: int) -> None:
        message_id = request.entry.message_id
        tries = request.tries + 1
        self._wanted[message_id] = replace(request, tries=tries)
        later_ms = self._rule.t_max_ms + wait_ms(request.offset_ms, tries, self._rule.t_max_ms, 0)
        self._plan(self._request_times, message_id, now_ms + later_ms)

    def _plan_answer(self, message_id: str, writer_id: str, now_ms: int) -> bool:
        rule = self._rule
        answered_ms = self._answered.get(message_id)
        if message_id in self._answers or (answered_ms is not None and now_ms < answered_ms + rule.t_min_ms):
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
        if not self._make_room(self._answer_times, now_ms + offset_ms, self._answers):
            return False
        self._answers[message_id] = speaker
        self._plan(self._answer_times, message_id, now_ms + offset_ms)
        return True

    def _make_room(self, times: TimerQueue, due_ms: int, held: dict[str, _Request] | dict[str, str]) -> bool:
        """Whether something due then is taken; what is due last gives way to it when all is full."""
        if len(times) < self._rule.most_waiting:
            return True
        last = times.last()
        if last is None or last[0] <= due_ms:
            return False
        times.drop(last[1])
        del held[last[1]]
        return True

    def _plan(self, times: TimerQueue, message_id: str, due_ms: int) -> None:
        self._number += 1
        times.put(message_id, due_ms, self._number)
