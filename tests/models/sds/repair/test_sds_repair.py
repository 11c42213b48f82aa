"""SDS-R: requests and answers, their suppression by others', their bounds; and all of it in any order."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from culm_models.sds.errors import SnapshotError
from culm_models.sds.repair.hashes import in_response_group, request_offset_ms, response_offset_ms
from culm_models.sds.repair.repair import RepairAnswer, RepairBook, RepairRule
from culm_models.sds.wire.messages import HistoryEntry

RULE = RepairRule(t_min_ms=1_000, t_max_ms=5_000, most_waiting=4, gap_ms=500)


def book(*hosts: str, rule: RepairRule = RULE) -> RepairBook:
    repairs = RepairBook(rule)
    repairs.host(hosts or ("alice",))
    return repairs


def entry(message_id: str, sender_id: str | None = "zoe") -> HistoryEntry:
    return HistoryEntry(message_id, b"hint", sender_id)


def written_by(sender_id: str) -> Callable[[str], str | None]:
    return lambda message_id: sender_id


def nobody(message_id: str) -> str | None:
    return None


def request_ms(participant_id: str, message_id: str) -> int:
    return request_offset_ms("sha256", participant_id, message_id, 1_000, 5_000)


def response_ms(participant_id: str, sender_id: str, message_id: str) -> int:
    return response_offset_ms("sha256", participant_id, sender_id, message_id, 5_000)


def test_a_missing_message_is_asked_for_after_t_req() -> None:
    repairs = book()
    assert repairs.want(entry("m1"), 100)
    due_ms = 100 + request_ms("alice", "m1")
    assert repairs.next_due_ms() == due_ms
    assert repairs.requests(due_ms - 1) == ()
    assert repairs.requests(due_ms) == (entry("m1"),)


def test_the_first_time_counts_however_often_a_message_is_missed() -> None:
    repairs = book()
    repairs.want(entry("m1"), 0)
    assert not repairs.want(entry("m1"), 900)
    assert repairs.next_due_ms() == request_ms("alice", "m1")


def test_of_several_hosted_participants_the_earliest_asks() -> None:
    repairs = book("alice", "bob", "carol")
    repairs.want(entry("m1"), 0)
    assert repairs.next_due_ms() == min(request_ms(name, "m1") for name in ("alice", "bob", "carol"))


def test_nobody_asks_where_nobody_is_hosted() -> None:
    repairs = RepairBook(RULE)
    assert not repairs.want(entry("m1"), 0)
    assert repairs.requested_by("bob", [entry("m2")], written_by("zoe"), 0) == []
    assert repairs.next_due_ms() is None


def test_a_message_asks_for_at_most_so_many_and_the_earliest_due() -> None:
    repairs = book()
    ids = sorted(("m1", "m2", "m3", "m4"), key=lambda message_id: request_ms("alice", message_id))
    for message_id in reversed(ids):
        repairs.want(entry(message_id), 0)
    assert [request.message_id for request in repairs.requests(5_000, 3)] == ids[:3]
    assert [request.message_id for request in repairs.requests(5_000, 3)] == ids[3:]


def test_messages_for_the_sake_of_requests_keep_a_gap() -> None:
    repairs = book()
    for message_id in ("m1", "m2"):
        repairs.want(entry(message_id), 0)
    repairs.requests(10_000, 1)
    due_ms = repairs.requests_due_ms()
    assert due_ms is not None
    assert 10_500 <= due_ms <= 11_000


def test_the_gap_doubles_while_asking_is_in_vain_and_shrinks_when_it_is_not() -> None:
    repairs = book(rule=replace(RULE, most_waiting=100, attempts=100))
    for number in range(40):
        repairs.want(entry(f"m{number}"), 0)
    gaps, now_ms = [], 10_000
    for _ in range(14):
        repairs.requests(now_ms, 1)
        due_ms = repairs.requests_due_ms()
        assert due_ms is not None
        gaps.append(due_ms - now_ms)
        now_ms = due_ms
    for number, gap_ms in enumerate(gaps):
        nominal_ms = min(RULE.gap_ms * 2 ** (number + 1), RULE.longest_gap_ms)
        assert nominal_ms // 2 <= gap_ms <= nominal_ms
    asked = [f"m{number}" for number in range(40) if f"m{number}" in repairs]
    for message_id in asked:
        repairs.got(message_id)
    repairs.want(entry("again"), now_ms)
    due_ms = repairs.requests_due_ms()
    assert due_ms is not None
    assert due_ms - now_ms <= RULE.t_max_ms


def test_a_request_that_brought_nothing_is_repeated_ever_later_and_then_no_more() -> None:
    repairs = book()
    repairs.want(entry("m1"), 0)
    offset_ms = request_ms("alice", "m1")
    now_ms = request_ms("alice", "m1")
    for tries in range(1, RULE.attempts):
        # In messages that are sent anyway, so that no gap counts.
        assert repairs.requests(now_ms - 1) == ()
        assert repairs.requests(now_ms) == (entry("m1"),)
        nominal_ms = min(RULE.t_max_ms * 2**tries, RULE.longest_ms)
        now_ms += nominal_ms // 2 + nominal_ms * offset_ms // (2 * RULE.t_max_ms)
    assert repairs.requests(now_ms) == (entry("m1"),)
    assert repairs.next_due_ms() is None


def test_of_the_due_requests_those_of_who_named_few_invented_ids_go_first() -> None:
    repairs = book(rule=replace(RULE, most_waiting=100))
    for number in range(50):
        repairs.want(entry(f"invented {number}"), 0, "eve")
    repairs.want(entry("honest"), 0, "bob")
    assert entry("honest") in repairs.requests(5_000, 3)


def test_in_a_full_book_the_newest_of_whoever_named_the_most_gives_way() -> None:
    repairs = book()
    for number in range(4):
        repairs.want(entry(f"invented {number}"), 0, "eve")
    assert repairs.want(entry("honest"), 100_000, "bob")
    assert "invented 3" not in repairs
    assert "invented 2" in repairs


def test_what_is_answered_again_and_again_is_answered_ever_later() -> None:
    repairs, answered = book("zoe"), []
    for now_ms in range(0, 100_000, 100):
        repairs.requested_by("bob", [entry("m1")], written_by("zoe"), now_ms)
        answered += [now_ms for _ in repairs.answers(now_ms)]
    assert answered == [0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000]


def test_the_bytes_of_answers_are_bounded_after_a_first_minute_s_worth() -> None:
    rule = replace(RULE, most_waiting=1_000, answer_bytes_per_min=60_000)
    repairs, sent = book("zoe", rule=rule), 0
    for batch in range(0, 800, 10):
        asked = [entry(f"m{batch + number}") for number in range(10)]
        repairs.requested_by("bob", asked, written_by("zoe"), 0)
    for now_ms in range(0, 120_001, 500):
        for _ in repairs.answers(now_ms):
            repairs.spent(1_000, now_ms)
            sent += 1_000
        if not now_ms:
            assert sent == 61_000
    assert sent == 181_000


@pytest.mark.parametrize("name", ["got", "forget"])
def test_what_came_or_is_lost_is_not_asked_for(name: str) -> None:
    repairs = book()
    repairs.want(entry("m1"), 0)
    getattr(repairs, name)("m1")
    assert repairs.next_due_ms() is None
    assert repairs.requests(10**9) == ()


def test_a_request_of_another_puts_off_our_own() -> None:
    repairs = book()
    repairs.want(entry("m1"), 0)
    repairs.requested_by("bob", [entry("m1")], nobody, 500)
    assert repairs.requests(500 + 5_000) == ()
    assert repairs.requests(500 + 10_000) == (entry("m1"),)


def test_others_cannot_keep_us_from_asking_for_ever() -> None:
    repairs = book()
    repairs.want(entry("m1"), 0)
    for now_ms in range(0, 1_000, 10):
        repairs.requested_by("bob", [entry("m1")], nobody, now_ms)
    due_ms = repairs.next_due_ms() or 0
    assert due_ms <= 1_000 + 8 * RULE.t_max_ms
    assert repairs.requests(due_ms) == (entry("m1"),)


def test_a_message_at_hand_is_answered_after_t_resp() -> None:
    repairs = book()
    assert repairs.requested_by("bob", [entry("m1")], written_by("zoe"), 100) == ["m1"]
    due_ms = 100 + response_ms("alice", "zoe", "m1")
    assert repairs.next_due_ms() == due_ms
    assert tuple(repairs.answers(due_ms - 1)) == ()
    assert tuple(repairs.answers(due_ms)) == (RepairAnswer("alice", "m1"),)
    assert tuple(repairs.answers(due_ms)) == ()


def test_a_message_that_is_not_at_hand_is_not_answered() -> None:
    repairs = book()
    assert repairs.requested_by("bob", [entry("m1")], nobody, 0) == []
    assert repairs.next_due_ms() is None


def test_the_hosted_writer_answers_at_once() -> None:
    repairs = book("alice", "zoe")
    repairs.requested_by("bob", [entry("m1")], written_by("zoe"), 100)
    assert tuple(repairs.answers(100)) == (RepairAnswer("zoe", "m1"),)


def test_who_wrote_it_is_not_taken_from_the_request() -> None:
    repairs = book("alice")
    repairs.requested_by("bob", [entry("m1", "alice")], written_by("zoe"), 0)
    assert repairs.next_due_ms() == response_ms("alice", "zoe", "m1")


def test_only_the_response_group_answers() -> None:
    rule = RepairRule(t_min_ms=1_000, t_max_ms=5_000, groups=7)
    for number in range(50):
        message_id = f"m{number}"
        planned = book(rule=rule).requested_by("bob", [entry(message_id)], written_by("zoe"), 0)
        assert bool(planned) == in_response_group("sha256", "alice", "zoe", message_id, 7)


def test_an_answer_of_another_spares_our_own() -> None:
    repairs = book()
    repairs.requested_by("bob", [entry("m1")], written_by("zoe"), 0)
    repairs.got("m1")
    assert tuple(repairs.answers(10**9)) == ()


def test_what_was_answered_is_not_answered_again_at_once() -> None:
    repairs = book("zoe")
    repairs.requested_by("bob", [entry("m1")], written_by("zoe"), 0)
    tuple(repairs.answers(0))
    assert repairs.requested_by("carol", [entry("m1")], written_by("zoe"), 999) == []
    assert repairs.requested_by("carol", [entry("m1")], written_by("zoe"), 1_000) == ["m1"]


def test_a_hosted_participant_is_not_answered() -> None:
    repairs = book("alice", "bob")
    assert repairs.requested_by("bob", [entry("m1")], written_by("zoe"), 0) == []


def test_one_message_makes_us_answer_a_bounded_number() -> None:
    repairs = book(rule=RepairRule())
    many = [entry(f"m{number}") for number in range(1_000)]
    assert len(repairs.requested_by("bob", many, written_by("zoe"), 0)) == 16


def test_a_full_book_leaves_out_what_is_due_last() -> None:
    ids = [f"m{number}" for number in range(12)]
    by_time = sorted(ids, key=lambda message_id: request_ms("alice", message_id))
    repairs = book()
    for message_id in ids:
        repairs.want(entry(message_id), 0)
    assert [request.message_id for request in repairs.requests(5_000, 100)] == by_time[:4]


@pytest.mark.parametrize("data", [b"", b"\x82\x01\x00", b"\x86\x01\x00\xf6\x81\x01\x80\x80"])
def test_bytes_that_are_no_book_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        RepairBook.unpack(data, RULE)


ids = st.integers(0, 8).map(lambda number: f"m{number}")


class ARepairBook(RuleBasedStateMachine):
    """Messages are missed, asked for, answered and received in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.book = book()
        self.now_ms = 0
        self.wanted: set[str] = set()
        self.to_answer: set[str] = set()
        self.answered: dict[str, int] = {}

    @rule(wait_ms=st.integers(0, 4_000))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms

    @rule(message_id=ids)
    def want(self, message_id: str) -> None:
        if message_id in self.to_answer:
            return
        full = len(self.wanted) == RULE.most_waiting
        planned = self.book.want(entry(message_id), self.now_ms)
        assert not (planned and message_id in self.wanted)
        if not full:
            assert planned == (message_id not in self.wanted)
        if planned and full:
            # Another one gave way; which one shows in what is asked for.
            everything = RepairBook.unpack(self.book.pack(), RULE).requests(10**12, 100)
            kept = {message.message_id for message in everything}
            assert kept < self.wanted | {message_id}
            self.wanted = kept
        elif planned:
            self.wanted.add(message_id)

    @rule(message_id=ids)
    def got(self, message_id: str) -> None:
        self.book.got(message_id)
        self.wanted.discard(message_id)
        self.to_answer.discard(message_id)

    @rule(message_id=ids, at_hand=st.booleans())
    def requested(self, message_id: str, at_hand: bool) -> None:
        writer_of = written_by("zoe") if at_hand and message_id not in self.wanted else nobody
        for planned in self.book.requested_by("bob", [entry(message_id)], writer_of, self.now_ms):
            assert planned not in self.to_answer
            assert self.now_ms >= self.answered.get(planned, -RULE.t_min_ms) + RULE.t_min_ms
            if len(self.to_answer) == RULE.most_waiting:
                everything = tuple(RepairBook.unpack(self.book.pack(), RULE).answers(10**12, 100))
                self.to_answer = {answer.message_id for answer in everything}
            self.to_answer.add(planned)
        self.note_given_up()

    def note_given_up(self) -> None:
        """After the last attempt a message is asked for no more."""
        self.wanted = {message_id for message_id in self.wanted if message_id in self.book}

    @precondition(lambda self: self.wanted or self.to_answer)
    @rule(limit=st.integers(1, 3))
    def tick_when_due(self, limit: int) -> None:
        due_ms = self.book.next_due_ms()
        assert due_ms is not None
        if due_ms > self.now_ms:
            assert tuple(self.book.answers(due_ms - 1)) == ()
            self.now_ms = due_ms
        requests = self.book.requests(self.now_ms, limit)
        answers = tuple(self.book.answers(self.now_ms, limit))
        assert requests or answers
        assert {request.message_id for request in requests} <= self.wanted
        self.note_given_up()
        assert {answer.message_id for answer in answers} <= self.to_answer
        for answer in answers:
            self.to_answer.remove(answer.message_id)
            self.answered[answer.message_id] = self.now_ms

    @rule()
    def restart(self) -> None:
        packed = self.book.pack()
        again = RepairBook.unpack(packed, RULE)
        again.host(("alice",))
        assert again.pack() == packed
        assert again.next_due_ms() == self.book.next_due_ms()
        self.book = again

    @invariant()
    def is_due_while_anything_is_planned(self) -> None:
        assert (self.book.next_due_ms() is None) == (not self.wanted and not self.to_answer)


TestARepairBook = ARepairBook.TestCase
