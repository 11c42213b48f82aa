"""Missing messages: when they are fetched and when they are lost, against a model."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from culm_models.sds.delivery.missing import FetchRule, FetchSchedule, MissingDue
from culm_models.sds.errors import SnapshotError
from culm_models.sds.timing import draw
from culm_models.sds.wire.messages import HistoryEntry
from tests.models.sds.channels_for_tests import NOW, Peer, made, read

DRAW = partial(draw, b"seed")
RULE = FetchRule(first_ms=100, retry_ms=1_000, most_ms=8_000, lost_ms=30_000, most_waiting=6)


def missing(*message_ids: str, rule: FetchRule = RULE) -> FetchSchedule:
    book = FetchSchedule(rule, DRAW)
    for message_id in message_ids:
        assert book.want(HistoryEntry(message_id), 0)
    return book


def test_a_missing_message_is_fetched_with_back_off_until_it_is_lost() -> None:
    book = missing("m1")
    now_ms, fetched = 0, []
    while not (due := book.due(now_ms)).lost:
        fetched += [(now_ms, wanted.attempts) for wanted in due.fetch]
        now_ms = book.next_due_ms() or 0
    assert fetched[0] == (100, 1)
    assert fetched[1] == (1_100, 2)
    assert [attempt for _, attempt in fetched] == list(range(1, len(fetched) + 1))
    assert now_ms == 30_000
    assert [wanted.entry.message_id for wanted in due.lost] == ["m1"]
    assert "m1" not in book


def test_what_came_is_not_fetched_again() -> None:
    book = missing("m1", "m2")
    assert book.got("m1")
    assert not book.got("m1")
    assert [wanted.entry.message_id for wanted in book.due(100).fetch] == ["m2"]


def test_nothing_is_ever_lost_without_a_time_for_it() -> None:
    book = missing("m1", rule=replace(RULE, lost_ms=None))
    for _ in range(100):
        assert not book.due(book.next_due_ms() or 0).lost


def test_a_later_hint_is_kept_and_an_earlier_one_stays() -> None:
    book = missing("m1")
    assert not book.want(HistoryEntry("m1", b"hint", "alice"), 5)
    assert not book.want(HistoryEntry("m1", b"other", "bob"), 6)
    assert next(iter(book)).entry == HistoryEntry("m1", b"hint", "alice")


def test_a_full_book_takes_no_more() -> None:
    book = missing(*(f"m{number}" for number in range(6)))
    assert not book.want(HistoryEntry("m6"), 0)
    assert "m6" not in book
    book.got("m0")
    assert book.want(HistoryEntry("m6"), 0)


def test_in_a_full_book_the_newest_of_whoever_named_the_most_gives_way() -> None:
    book = FetchSchedule(RULE, DRAW)
    for number in range(10):
        book.want(HistoryEntry(f"invented {number}"), 0, "eve")
    assert book.want(HistoryEntry("honest"), 0, "bob")
    assert [wanted.entry.message_id for wanted in book] == [*(f"invented {n}" for n in range(5)), "honest"]


def test_what_one_sender_names_is_fetched_at_a_bounded_rate_and_others_meanwhile() -> None:
    book = FetchSchedule(FetchRule(retry_ms=100_000), DRAW)
    for number in range(1_000):
        book.want(HistoryEntry(f"invented {number}"), 0, "eve")
    book.want(HistoryEntry("honest"), 0, "bob")
    fetched = [wanted.entry.message_id for wanted in book.due(0, 10_000).fetch]
    assert len(fetched) == 257
    assert "honest" in fetched
    assert len(book.due(1_000, 10_000).fetch) == 256


@pytest.mark.parametrize("data", [b"", b"\x82\x01\x00", b"\x83\x01\x00\x81\x80"])
def test_bytes_that_are_no_book_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        FetchSchedule.unpack(data, RULE, DRAW)


@dataclass
class Sought:
    """What the model knows of a missing message."""

    since_ms: int
    attempts: int = 0


ids = st.integers(0, 12).map(lambda number: f"m{number}")


class FetchScheduleMachine(RuleBasedStateMachine):
    """Ids are missed and found, fetched and lost, and kept over restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.book = FetchSchedule(RULE, DRAW)
        self.now_ms = 0
        self.sought: dict[str, Sought] = {}

    @rule(message_id=ids, hint=st.none() | st.just(b"hint"))
    def want(self, message_id: str, hint: bytes | None) -> None:
        is_new = message_id not in self.sought and len(self.sought) < RULE.most_waiting
        assert self.book.want(HistoryEntry(message_id, hint), self.now_ms) == is_new
        if is_new:
            self.sought[message_id] = Sought(self.now_ms)

    @rule(message_id=ids)
    def got(self, message_id: str) -> None:
        assert self.book.got(message_id) == (self.sought.pop(message_id, None) is not None)

    @rule(wait_ms=st.integers(0, 20_000), limit=st.integers(1, 4))
    def tick(self, wait_ms: int, limit: int) -> None:
        self.now_ms += wait_ms
        self.take_due(limit)

    @precondition(lambda self: self.sought)
    @rule(limit=st.integers(1, 4))
    def tick_when_due(self, limit: int) -> None:
        due_ms = self.book.next_due_ms()
        assert due_ms is not None
        if due_ms > self.now_ms:
            assert self.book.due(due_ms - 1) == MissingDue()
            self.now_ms = due_ms
        assert self.take_due(limit)

    def take_due(self, limit: int) -> bool:
        due = self.book.due(self.now_ms, limit)
        assert len(due.fetch) + len(due.lost) <= limit
        for wanted in due.fetch:
            sought = self.sought[wanted.entry.message_id]
            sought.attempts += 1
            assert wanted.attempts == sought.attempts
            assert self.now_ms < sought.since_ms + 30_000
        for wanted in due.lost:
            assert self.now_ms >= self.sought.pop(wanted.entry.message_id).since_ms + 30_000
        return bool(due.fetch or due.lost)

    @rule()
    def restart(self) -> None:
        packed = self.book.pack()
        again = FetchSchedule.unpack(packed, RULE, DRAW)
        assert again.pack() == packed
        assert again.next_due_ms() == self.book.next_due_ms()
        self.book = again

    @invariant()
    def holds_what_is_sought(self) -> None:
        assert [wanted.entry.message_id for wanted in self.book] == list(self.sought)
        assert len(self.book) == len(self.sought)


TestFetchSchedule = FetchScheduleMachine.TestCase


def test_ten_syncs_with_invented_ids_do_not_starve_an_honest_dependency() -> None:
    alice = Peer("alice", max_wanted=1_000, max_repairs=100)
    for number in range(10):
        invented = [f"invented {number} {index}" for index in range(100)]
        alice.receive(made(f"sync-{number}", *invented, content=None), NOW + number)
    output = alice.receive(made("m2", "m1", sender="bob"), NOW + 100)
    assert [entry.message_id for fetch in output.fetch for entry in fetch.entries] == ["m1"]
    asked = [
        entry.message_id
        for due_ms in (5_000, 21_000)
        for entry in read(alice.send(now_ms=NOW + due_ms)).repair_request
    ]
    assert "m1" in asked
