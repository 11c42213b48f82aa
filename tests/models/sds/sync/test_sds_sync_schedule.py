"""When a sync is due: floor, spread, silence, early answers; and a group whose rate of syncs stays flat."""

from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from culm_models.sds.errors import SnapshotError
from culm_models.sds.sync.names import MAX_NAMED, MAX_REPEATED
from culm_models.sds.sync.schedule import GroupSize, SyncRule, SyncSchedule
from culm_models.sds.timing import draw
from tests.models.sds.acks.filters_for_tests import ExactFilter

DRAW = partial(draw, b"seed")
RULE = SyncRule(floor_ms=1_000, spread_ms=1_000)


def schedule(*, rule: SyncRule = RULE, seed: bytes = b"seed") -> SyncSchedule:
    return SyncSchedule(rule, partial(draw, seed))


def due_of(schedule: SyncSchedule) -> int:
    due_ms = schedule.next_due_ms()
    assert due_ms is not None
    return due_ms


def test_a_channel_without_news_is_never_synced() -> None:
    quiet = schedule()
    assert quiet.next_due_ms() is None
    assert not quiet.due(10**12)


def test_a_sync_waits_for_the_floor_and_at_most_the_spread() -> None:
    dues = []
    for seed in range(200):
        after_learning = schedule(seed=bytes([seed]))
        after_learning.seen("bob", 5_000, learned=True)
        dues.append(due_of(after_learning))
    assert 6_000 <= min(dues) < 6_100
    assert 6_900 < max(dues) <= 7_000


def test_each_message_of_the_channel_begins_the_wait_anew() -> None:
    busy = schedule()
    for now_ms in range(0, 10_000, 500):
        busy.seen("bob", now_ms, learned=True)
        assert due_of(busy) >= now_ms + 1_000
    busy.sent(10_000, sync=False)
    assert due_of(busy) >= 11_000


def test_the_spread_grows_with_the_number_of_senders() -> None:
    latest = []
    for senders in (16, 64):
        dues = []
        for seed in range(100):
            grown = schedule(seed=bytes([seed]))
            for number in range(senders):
                grown.seen(f"sender-{number}", 0, learned=True)
            dues.append(due_of(grown))
        latest.append(max(dues))
    assert latest[0] <= 2_000
    assert 4_500 < latest[1] <= 5_000


def test_it_is_silent_after_three_own_syncs_without_news() -> None:
    lonely = schedule()
    lonely.sent(0, sync=False)
    times = []
    while (due_ms := lonely.next_due_ms()) is not None:
        times.append(due_ms)
        lonely.sent(due_ms, sync=True)
    assert len(times) == RULE.fruitless
    lonely.seen("bob", times[-1] + 1, learned=True)
    assert lonely.next_due_ms() is not None


def test_it_is_silent_after_hearing_many_syncs_that_taught_nothing() -> None:
    listener = schedule()
    listener.seen("bob", 0, learned=True)
    for number in range(RULE.fruitless_received):
        assert listener.next_due_ms() is not None
        listener.seen("bob", number, learned=False)
    assert listener.next_due_ms() is None


def test_content_that_nobody_has_acknowledged_halves_the_wait() -> None:
    owing = schedule()
    owing.seen("bob", 0, learned=True)
    whole = due_of(owing)
    owing.owe("m1", "bob", (1, 2), 0)
    assert due_of(owing) == whole // 2


def test_further_content_does_not_put_off_the_half_wait() -> None:
    listener = schedule()
    for number in range(30):
        now_ms = number * 100
        if listener.due(now_ms):
            break
        listener.seen("bob", now_ms, learned=True)
        listener.owe(f"m{number}", "bob", (number, number), now_ms)
    assert listener.due(now_ms), "a sender that never pauses is heard nevertheless"
    assert now_ms <= 1_100


@pytest.mark.parametrize(
    ("history", "shown"), [(["m1", "m2"], []), ([], [(1, 1), (2, 2)]), (["m1"], [(2, 2)])]
)
def test_what_another_acknowledges_is_owed_no_longer(
    history: list[str], shown: list[tuple[int, int]]
) -> None:
    listener = schedule()
    listener.seen("bob", 0, learned=True)
    listener.owe("m1", "bob", (1, 1), 0)
    listener.owe("m2", "bob", (2, 2), 0)
    listener.seen("carol", 100, learned=True, history_ids=history, filter=ExactFilter(shown))
    assert due_of(listener) >= 1_100


def test_a_filter_that_is_no_evidence_settles_nothing() -> None:
    listener = schedule()
    listener.seen("bob", 0, learned=True)
    listener.owe("m1", "bob", (1, 1), 0)
    listener.seen("carol", 100, learned=True, filter=ExactFilter([(1, 1)], is_evidence=False))
    assert due_of(listener) < 1_100


def test_what_this_side_sends_acknowledges_all_it_has() -> None:
    listener = schedule()
    listener.seen("bob", 0, learned=True)
    listener.owe("m1", "bob", (1, 1), 0)
    listener.sent(100, sync=False)
    assert due_of(listener) >= 1_100


def test_repeated_content_is_answered_early_even_out_of_silence() -> None:
    silent = schedule()
    silent.seen("bob", 0, learned=True)
    silent.rest()
    silent.repeated("m1", "bob", 50_000)
    assert 50_000 <= due_of(silent) < 50_250
    assert silent.names() == ("m1",)


def test_a_sync_that_names_what_was_repeated_is_the_answer() -> None:
    answering = schedule()
    answering.repeated("m1", "bob", 0)
    answering.sent(100, sync=True, named=["m0", "m1"])
    assert answering.urgent_names() == ()
    assert answering.next_due_ms() is None


def test_another_participant_may_give_the_answer() -> None:
    answering = schedule()
    answering.repeated("m1", "bob", 0)
    answering.seen("carol", 100, learned=False, history_ids=["m1"])
    assert answering.names() == ()
    assert answering.next_due_ms() is None


def test_a_bounded_number_of_repeated_messages_is_named() -> None:
    answering = schedule()
    for number in range(1_000):
        answering.repeated(f"m{number}", "bob", 0)
    assert answering.names() == tuple(f"m{number}" for number in range(MAX_REPEATED))


def test_what_its_writer_names_is_not_acknowledged() -> None:
    listener = schedule()
    listener.seen("bob", 0, learned=True)
    listener.owe("m1", "bob", (1, 1), 0)
    owed_ms = due_of(listener)
    listener.repeated("m1", "bob", 0)
    early_ms = due_of(listener)
    listener.seen("bob", 10, learned=True, history_ids=["m1"], filter=ExactFilter([(1, 1)]))
    assert due_of(listener) == min(owed_ms, early_ms)
    assert listener.names() == ("m1",)


def test_no_two_own_syncs_come_within_the_floor() -> None:
    pressed = schedule()
    pressed.repeated("m1", "bob", 0)
    pressed.sent(100, sync=True, named=["m1"])
    pressed.seen("bob", 110, learned=True)
    pressed.owe("m2", "bob", (2, 2), 110)
    pressed.repeated("m1", "bob", 120)
    assert due_of(pressed) == 1_100


ANSWERING = SyncRule(ack_ms=1_000)


def answers_ms(size: int, message_id: str) -> list[int]:
    """When each of a group, all of whom have spoken, answers a message of one more that they got at 0 ms."""
    names = [f"participant-{number}" for number in range(size)]
    times = []
    for name in names:
        listener = SyncSchedule(ANSWERING, partial(draw, name.encode()))
        for other in names:
            if other == name:
                listener.sent(-100_000, sync=False, sender_id=name)
            else:
                listener.seen(other, -100_000, learned=True)
        listener.seen("writer", 0, learned=True)
        listener.owe(message_id, "writer", (1, 1), 0, soon=True)
        times.append(due_of(listener))
    return sorted(times)


@pytest.mark.parametrize("size", [2, 3, 10, 30])
def test_one_participant_answers_content_at_once_and_all_others_would_later(size: int) -> None:
    for number in range(20):
        first, *others = answers_ms(size, f"m{number}")
        assert first == 200
        assert all(1_000 <= other <= 2_000 for other in others)


def test_where_nobody_else_has_spoken_content_is_answered_within_about_a_second() -> None:
    times = []
    for number in range(100):
        newcomer = schedule(rule=ANSWERING, seed=b"%d" % number)
        newcomer.seen("writer", 0, learned=True)
        newcomer.owe("m1", "writer", (1, 1), 0, soon=True)
        times.append(due_of(newcomer))
    assert min(times) >= 200
    assert max(times) <= 1_200
    assert sum(time < 700 for time in times) < 30, "few are early, for the group may be large"


def test_content_that_another_message_acknowledges_is_not_answered() -> None:
    listener = schedule(rule=ANSWERING)
    listener.seen("bob", 0, learned=True)
    listener.owe("m1", "bob", (1, 1), 0, soon=True)
    listener.seen("carol", 100, learned=True, history_ids=["m1"])
    assert due_of(listener) >= ANSWERING.floor_ms


def test_an_answer_names_all_that_is_owed_and_ends_it() -> None:
    listener = schedule(rule=ANSWERING)
    listener.seen("bob", 0, learned=True)
    for number in range(12):
        listener.owe(f"m{number}", "bob", (number, 1), number, soon=True)
    assert set(listener.names()) == {f"m{number}" for number in range(12)}
    now_ms = due_of(listener)
    listener.sent(now_ms, sync=True, named=listener.names(), sender_id="alice")
    assert due_of(listener) >= now_ms + ANSWERING.floor_ms


def test_two_answers_never_come_within_their_time() -> None:
    listener = schedule(rule=ANSWERING)
    for number in range(3):
        listener.seen("bob", 5_000, learned=True)
        listener.owe(f"m{number}", "bob", (number, 1), 5_000, soon=True)
        listener.sent(5_000, sync=True, named=listener.names(), sender_id="alice")
    listener.seen("bob", 5_010, learned=True)
    listener.owe("last", "bob", (1, 2), 5_010, soon=True)
    assert due_of(listener) == 6_000


@pytest.mark.parametrize("data", [b"", b"\x82\x01\x00", b"\xa0"])
def test_bytes_that_are_no_schedule_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        SyncSchedule.unpack(data, RULE, DRAW)


def test_senders_are_counted_exactly_and_then_within_some_percent() -> None:
    size = GroupSize(100_000)
    for number in range(1_000):
        size.add(f"sender-{number}")
        size.add(f"sender-{number // 2}")
    assert size.count() == 1_000
    for number in range(20_000):
        size.add(f"sender-{number}")
    assert 18_000 < size.count() < 22_000
    assert len(size.hashes()) == 1_024
    assert GroupSize(100_000, size.hashes()).count() == size.count()
    assert GroupSize(5_000, size.hashes()).count() == 5_000


def syncs_of_a_group(size: int, *, hours: int) -> int:
    """Syncs in a quiet group of participants that all hear each other at once, and never fall silent."""
    rule = SyncRule(fruitless=10**6, fruitless_received=10**9)
    names = [f"participant-{number}" for number in range(size)]
    # All hear the same, so that one schedule a draw of their own is enough: the same group, another seed.
    shared = [SyncSchedule(rule, partial(draw, name.encode())) for name in names]
    for schedule in shared:
        for name in names:
            schedule.seen(name, 0, learned=True)
    syncs = now_ms = 0
    while now_ms < hours * 3_600_000:
        agenda: list[tuple[int, int]] = []
        for number, schedule in enumerate(shared):
            heappush(agenda, (due_of(schedule), number))
        now_ms, speaker = heappop(agenda)
        # Who is due before the sync can have come (50 ms) speaks too.
        speakers = {speaker} | {number for due_ms, number in agenda if due_ms <= now_ms + 50}
        syncs += len(speakers)
        for number, schedule in enumerate(shared):
            if number in speakers:
                schedule.sent(now_ms, sync=True)
            else:
                schedule.seen(names[speaker], now_ms + 50, learned=False)
    return syncs


def test_the_rate_of_syncs_does_not_grow_with_the_group() -> None:
    small, large = syncs_of_a_group(5, hours=1), syncs_of_a_group(80, hours=1)
    assert 60 <= small <= 120
    assert large <= 1.25 * small


ids = st.integers(0, 30).map(lambda number: f"m{number}")
senders = st.sampled_from(["bob", "carol", "dave"])


class ASyncSchedule(RuleBasedStateMachine):
    """Anything may happen at any time; a restart in between changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = schedule()
        self.now_ms = 0
        self.own_syncs: list[int] = []

    @rule(wait_ms=st.integers(0, 3_000))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms

    @rule(sender_id=senders, learned=st.booleans(), history=st.lists(ids, max_size=5))
    def seen(self, sender_id: str, learned: bool, history: Iterable[str]) -> None:
        self.schedule.seen(sender_id, self.now_ms, learned=learned, history_ids=history)

    @rule(message_id=ids)
    def owe(self, message_id: str) -> None:
        self.schedule.seen("bob", self.now_ms, learned=True)
        self.schedule.owe(message_id, "bob", (1, 2), self.now_ms)

    @rule(message_id=ids)
    def repeated(self, message_id: str) -> None:
        self.schedule.repeated(message_id, "bob", self.now_ms)

    @rule()
    def send_content(self) -> None:
        self.schedule.sent(self.now_ms, sync=False)

    @rule()
    def sync_when_due(self) -> None:
        due_ms = self.schedule.next_due_ms()
        if due_ms is None:
            return
        if due_ms > self.now_ms:
            assert not self.schedule.due(due_ms - 1)
            self.now_ms = due_ms
        assert self.schedule.due(self.now_ms)
        self.schedule.sent(self.now_ms, sync=True, named=self.schedule.names())
        self.own_syncs.append(self.now_ms)

    @rule()
    def rest(self) -> None:
        self.schedule.rest()
        assert self.schedule.next_due_ms() is None

    @rule()
    def restart(self) -> None:
        packed = self.schedule.pack()
        again = SyncSchedule.unpack(packed, RULE, DRAW)
        assert again.pack() == packed
        assert again.next_due_ms() == self.schedule.next_due_ms()
        assert again.names() == self.schedule.names()
        assert again.senders() == self.schedule.senders()
        self.schedule = again

    @invariant()
    def own_syncs_keep_the_floor(self) -> None:
        assert all(
            later - earlier >= RULE.floor_ms
            for earlier, later in zip(self.own_syncs, self.own_syncs[1:], strict=False)
        )

    @invariant()
    def names_are_bounded(self) -> None:
        assert len(self.schedule.names()) <= MAX_NAMED


TestASyncSchedule = ASyncSchedule.TestCase
