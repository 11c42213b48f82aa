"""Events in the order of their numbers, each once, however a repeated batch has written them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.sds import event_sequence as sds_sequence
from culm_topics.sds.event_sequence import ChannelEvent, EventGap, EventSequence
from culm_topics.sds.records import SdsEventRecord


def event(number: int, channel_id: str = "general") -> ChannelEvent:
    return ChannelEvent(channel_id, SdsEventRecord(number, "received", None, f"m{number}", 0), 0, number, 0)


def sequence(**after: int) -> EventSequence:
    return EventSequence(after, learns=False, gap_wait_seconds=10.0)


def numbers(events: list[ChannelEvent]) -> list[int]:
    return [channel_event.event.number for channel_event in events]


@st.composite
def written(draw: st.DrawFn) -> tuple[int, list[int]]:
    """Runs of one batch after the other: each run writes any of the batch, the last run all of it."""
    order: list[int] = []
    first = 1
    for size in draw(st.lists(st.integers(1, 6), max_size=6)):
        batch = list(range(first, first + size))
        for run in draw(st.lists(st.sets(st.sampled_from(batch)), max_size=3)):
            order += sorted(run)
        order += batch
        first += size
    return first - 1, order


@given(written())
def test_each_event_comes_once_and_in_order_whatever_runs_a_batch_had(case: tuple[int, list[int]]) -> None:
    count, order = case
    events = sequence()
    taken = [number for number in order for number in numbers(events.take(event(number), 0.0))]
    assert taken == list(range(1, count + 1))
    assert not events.overdue(1_000.0)


@given(st.permutations(range(1, 12)))
def test_any_order_becomes_the_order_of_numbers(order: list[int]) -> None:
    events = sequence()
    assert [n for number in order for n in numbers(events.take(event(number), 0.0))] == list(range(1, 12))


def test_channels_do_not_wait_for_each_other() -> None:
    events = sequence()
    assert events.take(event(2, "one"), 0.0) == []
    assert numbers(events.take(event(1, "other"), 0.0)) == [1]
    assert numbers(events.take(event(1, "one"), 0.0)) == [1, 2]


def test_what_was_seen_before_is_not_handed_out_again() -> None:
    events = sequence(general=3)
    assert [n for number in (2, 3, 4, 4) for n in numbers(events.take(event(number), 0.0))] == [4]


def test_a_hole_is_a_gap_when_its_time_is_over() -> None:
    events = sequence()
    events.take(event(2), 5.0)
    assert not events.overdue(14.9)
    events.check(14.9)
    assert events.overdue(15.0)
    with pytest.raises(EventGap, match="event 1 is missing") as caught:
        events.check(15.0)
    assert caught.value.code == "topics.sds.gap"


def test_a_channel_with_a_gap_goes_on_when_the_missing_event_comes_and_others_do_not_wait_for_it() -> None:
    events = sequence()
    events.take(event(2), 0.0)
    with pytest.raises(EventGap):
        events.check(10.0)
    assert list(events.set_aside) == ["general"]
    assert not events.waits
    assert events.take(event(3), 10.0) == []
    assert numbers(events.take(event(1, "other"), 10.0)) == [1]
    assert numbers(events.take(event(1), 10.0)) == [1]
    assert not events.set_aside
    assert numbers(events.take(event(2), 10.0)) == [2]


def test_a_hole_that_moves_on_gets_its_time_anew() -> None:
    events = sequence()
    events.take(event(2), 0.0)
    events.take(event(5), 0.0)
    events.take(event(1), 9.0)
    assert not events.overdue(18.9)
    assert events.overdue(19.0)


def test_what_is_set_aside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sds_sequence, "MAX_EARLY_EVENTS", 3)
    events = sequence()
    for number in (2, 3, 3, 4):
        events.take(event(number), 0.0)
    with pytest.raises(EventGap):
        events.take(event(5), 0.0)


def test_a_reader_that_begins_in_the_middle_takes_the_first_number_that_comes() -> None:
    events = EventSequence({}, learns=True, gap_wait_seconds=10.0)
    events.skip(event(7))
    assert [n for number in (6, 7, 8) for n in numbers(events.take(event(number), 0.0))] == [8]
    assert numbers(events.take(event(40, "other"), 0.0)) == [40]
    assert events.take(event(42, "other"), 0.0) == []
