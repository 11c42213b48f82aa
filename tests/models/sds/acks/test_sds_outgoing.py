"""The outgoing buffer: re-sends, back-off, giving up; and its whole life against a simple model."""

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from culm_models.sds.acks.acknowledgement import HashPair
from culm_models.sds.acks.outgoing import Due, OutgoingBuffer, OutgoingFullError, ResendRule, Stripped
from culm_models.sds.errors import SnapshotError
from culm_models.sds.events import Acknowledged
from culm_models.sds.timing import draw
from tests.models.sds.acks.filters_for_tests import ExactFilter

DRAW = partial(draw, b"seed")
RULE = ResendRule(
    unacknowledged_ms=1_000,
    possibly_acknowledged_ms=4_000,
    most_ms=16_000,
    attempts=4,
    possible_acks_threshold=3,
    most_waiting=5,
)


def pair(message_id: str) -> HashPair:
    number = int(message_id[1:])
    return number, 2 * number


def stripped(message_id: str) -> Stripped:
    return Stripped(b"<" + message_id.encode(), int(message_id[1:]), b">")


def sent(*message_ids: str, now_ms: int = 0, rule: ResendRule = RULE) -> OutgoingBuffer:
    outgoing = OutgoingBuffer(rule, DRAW)
    for message_id in message_ids:
        outgoing.add("alice", message_id, pair(message_id), stripped(message_id), now_ms)
    return outgoing


def resent(due: Due) -> list[str]:
    return [pending.message_id for pending in due.resend]


def test_an_unacknowledged_message_is_sent_again_after_its_period() -> None:
    outgoing = sent("m1")
    assert outgoing.due(999) == Due()
    assert resent(outgoing.due(1_000)) == ["m1"]


def test_what_is_sent_again_is_what_was_sent_first() -> None:
    (pending,) = sent("m1").due(1_000).resend
    assert pending.stripped == stripped("m1")


def test_waits_double_up_to_their_bound_and_never_exceed_it() -> None:
    outgoing = sent("m1", rule=ResendRule(unacknowledged_ms=1_000, most_ms=16_000, attempts=8))
    now_ms, waits = 0, []
    while (due_ms := outgoing.next_due_ms()) is not None:
        waits.append(due_ms - now_ms)
        now_ms = due_ms
        outgoing.due(now_ms)
    nominal = [1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000, 16_000, 16_000]
    assert waits[0] == 1_000
    assert all(limit * 3 // 4 <= wait <= limit for wait, limit in zip(waits, nominal, strict=True))


def test_a_message_that_nobody_acknowledges_is_given_up_after_its_attempts() -> None:
    outgoing = sent("m1")
    attempts = 0
    while not (due := outgoing.due(outgoing.next_due_ms() or 0)).gave_up:
        attempts += len(due.resend)
    assert attempts == RULE.attempts
    assert [(pending.message_id, pending.attempts) for pending in due.gave_up] == [("m1", RULE.attempts)]
    assert len(outgoing) == 0
    assert outgoing.next_due_ms() is None


def test_a_possibly_acknowledged_message_waits_longer() -> None:
    outgoing = sent("m1")
    outgoing.review("bob", [], ExactFilter([pair("m1")]), 900)
    assert outgoing.next_due_ms() == 4_900


def test_further_evidence_does_not_put_a_re_send_off() -> None:
    outgoing = sent("m1")
    outgoing.review("bob", [], ExactFilter([pair("m1")]), 900)
    outgoing.review("carol", [], ExactFilter([pair("m1")]), 4_000)
    assert outgoing.next_due_ms() == 4_900


def test_evidence_never_brings_a_re_send_forward() -> None:
    outgoing = sent("m1", rule=ResendRule(unacknowledged_ms=10_000, possibly_acknowledged_ms=1_000))
    outgoing.review("bob", [], ExactFilter([pair("m1")]), 0)
    assert outgoing.next_due_ms() == 10_000


def test_unacknowledged_messages_go_first() -> None:
    outgoing = sent("m1", "m2")
    outgoing.review("bob", [], ExactFilter([pair("m1")]), 0)
    assert resent(outgoing.due(100_000)) == ["m2", "m1"]


def test_a_call_gives_at_most_what_was_asked_for_and_the_rest_stays_due() -> None:
    outgoing = sent("m1", "m2", "m3")
    assert resent(outgoing.due(5_000, limit=2)) == ["m1", "m2"]
    assert outgoing.next_due_ms() == 1_000
    assert resent(outgoing.due(5_000, limit=2)) == ["m3"]


def test_a_participant_with_too_many_messages_sends_no_more() -> None:
    outgoing = sent("m1", "m2", "m3", "m4", "m5")
    with pytest.raises(OutgoingFullError):
        outgoing.check_capacity("alice")
    outgoing.check_capacity("bob")
    outgoing.review("bob", ["m3"], None, 0)
    outgoing.check_capacity("alice")


def test_a_hastened_message_is_due_at_once_even_after_its_last_attempt() -> None:
    outgoing = sent("m1")
    for _ in range(RULE.attempts):
        outgoing.due(outgoing.next_due_ms() or 0)
    assert outgoing.hasten("m1", 20_000)
    assert resent(outgoing.due(20_000)) == ["m1"]
    assert not outgoing.hasten("unknown", 20_000)


def test_the_messages_of_a_participant_that_leaves_go_with_it() -> None:
    outgoing = sent("m1", "m2")
    outgoing.add("bob", "m3", pair("m3"), stripped("m3"), 0)
    assert [pending.message_id for pending in outgoing.leave("alice")] == ["m1", "m2"]
    assert [pending.message_id for pending in outgoing] == ["m3"]


def test_the_least_mark_is_that_of_the_oldest_message_that_waits() -> None:
    outgoing = sent("m4", "m6")
    assert outgoing.least_mark() == 4
    outgoing.review("bob", ["m4"], None, 0)
    assert outgoing.least_mark() == 6
    outgoing.review("bob", ["m6"], None, 0)
    assert outgoing.least_mark() is None


def test_wire_bytes_may_be_kept_elsewhere() -> None:
    packed = sent("m1").pack(stripped=False)
    again = OutgoingBuffer.unpack(packed, RULE, DRAW, stripped=stripped)
    assert again.due(1_000) == sent("m1").due(1_000)
    with pytest.raises(SnapshotError):
        OutgoingBuffer.unpack(packed, RULE, DRAW)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x84\x02\x00\x80\x80", b"\x84\x01\x00\x81\x00\x80"])
def test_bytes_that_are_no_buffer_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        OutgoingBuffer.unpack(data, RULE, DRAW)


@dataclass
class Known:
    """What the model knows of a message that waits."""

    participant_id: str
    evidence: list[str] = field(default_factory=list)
    attempts: int = 0


PEOPLE = ("alice", "bob", "carol", "dave")
people = st.sampled_from(PEOPLE)
numbers = st.sets(st.integers(0, 40), max_size=12)


class AnOutgoingBuffer(RuleBasedStateMachine):
    """Messages are sent, reviewed, due, hastened and kept over restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.outgoing = OutgoingBuffer(RULE, DRAW)
        self.now_ms = 1_000_000
        self.next_number = 0
        self.waiting: dict[str, Known] = {}
        self.over: set[str] = set()

    @rule(participant_id=people)
    def send(self, participant_id: str) -> None:
        if sum(known.participant_id == participant_id for known in self.waiting.values()) >= 5:
            with pytest.raises(OutgoingFullError):
                self.outgoing.check_capacity(participant_id)
            return
        self.outgoing.check_capacity(participant_id)
        message_id = f"m{self.next_number}"
        self.next_number += 1
        self.outgoing.add(participant_id, message_id, pair(message_id), stripped(message_id), self.now_ms)
        self.waiting[message_id] = Known(participant_id)

    @rule(sender_id=people, named=numbers, shown=numbers, is_evidence=st.booleans())
    def review(self, sender_id: str, named: set[int], shown: set[int], is_evidence: bool) -> None:
        history = [f"m{number}" for number in sorted(named)]
        filter = ExactFilter((pair(f"m{number}") for number in shown), is_evidence=is_evidence)
        acknowledged: set[str] = set()
        possibly: set[str] = set()
        for message_id, known in self.waiting.items():
            if known.participant_id == sender_id:
                continue
            if message_id in history:
                acknowledged.add(message_id)
            elif is_evidence and int(message_id[1:]) in shown and sender_id not in known.evidence:
                known.evidence.append(sender_id)
                (acknowledged if len(known.evidence) == 3 else possibly).add(message_id)
        facts = self.outgoing.review(sender_id, history, filter, self.now_ms)
        assert len(facts) == len(acknowledged) + len(possibly)
        for fact in facts:
            assert fact.message_id in (acknowledged if isinstance(fact, Acknowledged) else possibly)
            by_history = isinstance(fact, Acknowledged) and fact.by == "causal_history"
            evidence = [sender_id] if by_history else self.waiting[fact.message_id].evidence
            assert fact.evidence == tuple(evidence)
            if isinstance(fact, Acknowledged):
                assert fact.attempts == self.waiting[fact.message_id].attempts
        for message_id in acknowledged:
            del self.waiting[message_id]
        self.over |= acknowledged

    @rule(wait_ms=st.integers(0, 20_000), limit=st.integers(1, 6))
    def tick(self, wait_ms: int, limit: int) -> None:
        self.now_ms += wait_ms
        self.take_due(limit)

    @precondition(lambda self: self.waiting)
    @rule(limit=st.integers(1, 6))
    def tick_when_due(self, limit: int) -> None:
        due_ms = self.outgoing.next_due_ms()
        assert due_ms is not None
        if due_ms > self.now_ms:
            assert self.outgoing.due(due_ms - 1) == Due()
            self.now_ms = due_ms
        assert self.take_due(limit), "what is due at that time is there"

    def take_due(self, limit: int) -> bool:
        due = self.outgoing.due(self.now_ms, limit)
        assert len(due.resend) + len(due.gave_up) <= limit
        for pending in due.resend:
            known = self.waiting[pending.message_id]
            known.attempts += 1
            assert pending.attempts == known.attempts <= RULE.attempts
            assert pending.stripped == stripped(pending.message_id)
            assert pending.next_due_ms > self.now_ms
        for pending in due.gave_up:
            assert pending.attempts == RULE.attempts
            del self.waiting[pending.message_id]
            self.over.add(pending.message_id)
        return bool(due.resend or due.gave_up)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def hasten(self, data: st.DataObject) -> None:
        message_id = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.outgoing.hasten(message_id, self.now_ms)
        known = self.waiting[message_id]
        known.attempts = min(known.attempts, RULE.attempts - 1)
        due_ms = self.outgoing.next_due_ms()
        assert due_ms is not None
        assert due_ms <= self.now_ms

    @rule(participant_id=people)
    def leave(self, participant_id: str) -> None:
        gone = [key for key, known in self.waiting.items() if known.participant_id == participant_id]
        assert [pending.message_id for pending in self.outgoing.leave(participant_id)] == gone
        for message_id in gone:
            del self.waiting[message_id]
            self.over.add(message_id)

    @rule()
    def restart(self) -> None:
        packed = self.outgoing.pack()
        again = OutgoingBuffer.unpack(packed, RULE, DRAW)
        assert again.pack() == packed
        assert again.next_due_ms() == self.outgoing.next_due_ms()
        self.outgoing = again

    @invariant()
    def holds_what_waits(self) -> None:
        pending = {pending.message_id: pending for pending in self.outgoing}
        assert list(pending) == list(self.waiting)
        assert not self.over & pending.keys()
        for message_id, known in self.waiting.items():
            message = pending[message_id]
            assert message.evidence == tuple(known.evidence)
            assert (message.state == "possibly_acknowledged") == bool(known.evidence)
            assert message.attempts == known.attempts
            assert self.outgoing.get(message_id) == message
        assert (self.outgoing.next_due_ms() is None) == (not self.waiting)
        for participant_id in PEOPLE:
            own = [known for known in self.waiting.values() if known.participant_id == participant_id]
            possibly = sum(bool(known.evidence) for known in own)
            assert self.outgoing.counts(participant_id) == (len(own) - possibly, possibly)


TestAnOutgoingBuffer = AnOutgoingBuffer.TestCase
