"""What a remote can do to a session: end it with a typed error, and never make it work without end (4.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.reconciliation import Limits, Reconciler, ReconciliationError
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from culm_models.reconciliation.ordered_set import SortedList
from tests.models.reconciliation.sides import EXACT, SETTINGS, Counted, converse

BEGIN = LowerBound(0, 0)
END = Terminal(0)


def machine(count: int = 10, **options: Any) -> Reconciler[Any, Any]:
    return Reconciler(SortedList(range(count), EXACT), **options)


def code(session: Reconciler[Any, Any], *messages: ReconciliationMessage) -> str:
    """The error that the last of these messages, and none before, is refused with."""
    session.receive_batch(messages[:-1])
    with pytest.raises(ReconciliationError) as caught:
        session.receive(messages[-1])
    return caught.value.code.removeprefix("reconciliation.")


RANGES: list[Callable[[Any], ReconciliationMessage]] = [
    lambda upper: Done(0, upper),
    lambda upper: EmptyPayload(0, upper),
    lambda upper: Fingerprint(0, (), upper),
    lambda upper: Payload(0, 5, True, upper),
    lambda upper: Payload(0, 5, False, upper),
]


@pytest.mark.parametrize("closing", RANGES)
def test_a_range_needs_a_lower_bound(closing: Callable[[Any], ReconciliationMessage]) -> None:
    assert code(machine(), closing(4)) == "lower_bound_missing"
    assert code(machine(), BEGIN, Fingerprint(0, (), 0), END, closing(0)) == "lower_bound_missing"


def test_an_item_needs_a_lower_bound() -> None:
    assert code(machine(), Payload(0, 5)) == "lower_bound_missing"


@pytest.mark.parametrize("closing", RANGES)
@pytest.mark.parametrize(
    ("before", "upper"),
    [
        ([BEGIN, Done(0, 4)], 4),
        ([BEGIN, Done(0, 4)], 3),
        ([BEGIN, Done(0, 0)], 5),
        ([BEGIN, Done(0, 0)], 0),
        ([LowerBound(0, 4), Done(0, 6), Done(0, 2)], 5),
        ([LowerBound(0, 4), Done(0, 6), Done(0, 2)], 1),
        ([LowerBound(0, 4), Done(0, 6), Done(0, 2)], 7),
    ],
)
def test_ranges_lie_one_behind_the_other_and_round_the_ring_once(
    closing: Callable[[Any], ReconciliationMessage], before: list[Any], upper: int
) -> None:
    assert code(machine(), *before, closing(upper)) == "bound_order"


def test_a_batch_begins_once_and_where_the_session_did() -> None:
    assert code(machine(), BEGIN, BEGIN) == "bound_order"
    session = machine()
    session.start()
    assert code(session, LowerBound(0, 1)) == "bound_order"
    session = machine()
    assert code(session, LowerBound(0, 3), Fingerprint(0, (), 3), END, LowerBound(0, 0)) == "bound_order"


@pytest.mark.parametrize("message", [BEGIN, END, *(closing(9) for closing in RANGES[:3])])
def test_a_run_has_an_end(message: ReconciliationMessage) -> None:
    assert code(machine(), BEGIN, Payload(0, 5), message) == "run_unfinished"


@pytest.mark.parametrize("can_respond", [False, True])
def test_an_end_has_two_halves(can_respond: bool) -> None:
    assert code(machine(), BEGIN, Payload(0, 5, can_respond)) == "run_unfinished"


@pytest.mark.parametrize("closing", RANGES[1:])
def test_a_range_is_open_or_done(closing: Callable[[Any], ReconciliationMessage]) -> None:
    """We answer [0, 5) with its fingerprints and find [5, 0) equal."""
    batch = [BEGIN, Fingerprint(0, (), 5), Fingerprint(0, (5, 6, 7, 8, 9), 0), END]
    for before, upper in (([BEGIN, Done(0, 5)], 0), ([BEGIN, Done(0, 7)], 9)):
        assert code(machine(threshold=1), *batch, *before, closing(upper)) == "range_done"


@pytest.mark.parametrize("closing", RANGES[1:4])
def test_a_question_is_about_open_ranges_alone(closing: Callable[[Any], ReconciliationMessage]) -> None:
    batch = [BEGIN, Fingerprint(0, (), 5), Fingerprint(0, (5, 6, 7, 8, 9), 0), END]
    for upper in (6, 0):
        assert code(machine(threshold=1), *batch, BEGIN, closing(upper)) == "range_done"


@pytest.mark.parametrize("closing", RANGES)
def test_ranges_that_touch_may_be_answered_as_one(closing: Callable[[Any], ReconciliationMessage]) -> None:
    session = machine(threshold=1)
    session.start()
    session.receive_batch([BEGIN, closing(0)])


def test_an_empty_set_is_an_opening_or_its_answer() -> None:
    assert code(machine(), EmptySet(0, False)) == "empty_set"
    assert code(machine(), BEGIN, EmptySet(0, True)) == "empty_set"
    session = machine()
    session.start()
    assert code(session, EmptySet(0, True)) == "empty_set"
    assert code(machine(0), EmptySet(0, False)) == "empty_set"
    session = machine(0)
    session.start()
    assert code(session, EmptySet(0, True)) == "empty_set"


LATE = [EmptySet(0, True), Payload(0, 1), *(closing(0) for closing in RANGES[1:])]


@pytest.mark.parametrize("message", LATE)
def test_behind_the_end_only_an_echo_is_heard(message: ReconciliationMessage) -> None:
    session = machine()
    session.receive_batch([BEGIN, Done(0, 0), END])
    assert session.done
    echo = [BEGIN, Done(0, 0), END]
    assert session.receive_batch(echo * 2) == []
    assert code(session, message) == "after_done"


def test_an_echo_comes_to_an_end() -> None:
    session = machine()
    echo = [BEGIN, Done(0, 0), END]
    session.receive_batch(echo * 3)
    assert code(session, *echo) == "after_done"


def test_batches_are_bounded_by_what_two_sets_need() -> None:
    session = machine(1_000, threshold=8, division=4)
    assert session.max_batches == 2 + 2 * 5 + 8
    batch = [BEGIN, Fingerprint(0, (), 0), END]
    for _ in range(session.max_batches // 2):
        assert not session.done
        session.receive_batch(batch)
    assert code(session, *batch) == "batch_count"


def test_messages_of_a_batch_are_bounded() -> None:
    limits = Limits(messages_per_batch=5, messages_per_item=0)
    session = machine(limits=limits)
    batch = [BEGIN, Fingerprint(0, (), 2), Done(0, 3), Done(0, 0), END]
    session.receive_batch(batch * 2)
    assert code(session, BEGIN, *(Done(0, upper) for upper in range(1, 6))) == "message_count"


def test_who_holds_more_is_told_more() -> None:
    limits = Limits(messages_per_batch=5, messages_per_item=1)
    batch = [BEGIN, Fingerprint(0, (), 2), *(Done(0, upper) for upper in range(3, 11))]
    assert code(machine(9, limits=limits), *batch) == "message_count"
    machine(10, limits=limits).receive_batch(batch)


def test_items_of_a_run_are_bounded() -> None:
    limits = Limits(items_per_run=3)
    assert code(machine(limits=limits), BEGIN, *(Payload(0, item) for item in range(4))) == "run_size"


def test_the_same_items_are_not_shown_for_ever() -> None:
    session = machine(100, threshold=100, limits=Limits(slack_items=50))
    question = [BEGIN, Fingerprint(0, (), 0)]
    for _ in range(2):
        session.receive_batch([*question, END])
    assert code(session, *question) == "item_count"


def test_a_message_is_answered_with_bounded_work() -> None:
    """A fingerprint costs one comparison and its parts; one batch shows each item once at most."""
    own = Counted(range(1_000))
    session = Reconciler(own, threshold=8, division=4)
    batch = [BEGIN, *(Fingerprint(0, (), upper) for upper in [*range(20, 1_000, 20), 0]), END]
    session.receive_batch(batch)
    assert own.ranges <= 50 * (1 + 4)
    own = Counted(range(1_000))
    session = Reconciler(own, threshold=8, division=4)
    batch = [BEGIN, *(EmptyPayload(0, upper) for upper in [*range(1, 1_000), 0]), END]
    session.receive_batch(batch)
    assert own.shown == 1_000


BOUNDS = st.integers(-1, 12)
MESSAGES: st.SearchStrategy[ReconciliationMessage] = st.one_of(
    st.builds(EmptySet, st.just(0), st.booleans()),
    st.builds(LowerBound, st.just(0), st.sampled_from((0, 0, 0, 3))),
    st.builds(Payload, st.just(0), BOUNDS),
    st.builds(Payload, st.just(0), BOUNDS, st.booleans(), BOUNDS | st.none()),
    st.builds(EmptyPayload, st.just(0), BOUNDS),
    st.builds(Done, st.just(0), BOUNDS),
    st.builds(Fingerprint, st.just(0), st.just(()) | st.tuples(BOUNDS), BOUNDS),
    st.just(END),
)


@st.composite
def batches(draw: st.DrawFn) -> list[ReconciliationMessage]:
    """Batches with ranges in order, so that a session gets somewhere."""
    uppers = sorted(draw(st.sets(st.integers(1, 12), max_size=5)))
    closings = [draw(st.sampled_from(RANGES))(upper) for upper in [*uppers, 0]]
    return [BEGIN, *closings, END]


@given(
    st.integers(0, 12),
    SETTINGS,
    st.booleans(),
    st.booleans(),
    st.lists(st.one_of(batches(), st.lists(MESSAGES, max_size=3)), max_size=12),
)
def test_any_messages_raise_typed_errors_alone(
    count: int, settings: Any, absorb: bool, begins: bool, received: list[list[ReconciliationMessage]]
) -> None:
    own = Counted(range(count))
    limits = Limits(slack_items=20)
    session = Reconciler(own, absorb=absorb, limits=limits, **settings)
    if begins:
        session.start()
    heard = asked = 0
    try:
        for batch in received:
            heard += len(batch)
            was_done = session.done
            sent = session.receive_batch(batch)
            asked += len(sent)
            assert not (was_done and sent)
    except ReconciliationError as error:
        assert error.code.startswith("reconciliation.")
    # Whatever was said: work is bounded by what was heard, and items by what is held.
    assert own.ranges <= (1 + settings["division"]) * (heard + 1)
    assert own.shown <= 2 * len(own) + limits.slack_items + len(own)


@given(
    st.lists(st.integers(0, 40), max_size=30),
    st.lists(st.integers(0, 40), max_size=30),
    SETTINGS,
    SETTINGS,
    st.data(),
)
def test_a_rightful_session_with_one_message_changed(
    ours: list[int], theirs: list[int], our_settings: Any, their_settings: Any, data: st.DataObject
) -> None:
    first, second = (
        Reconciler(SortedList(items, EXACT), **settings)
        for items, settings in ((ours, our_settings), (theirs, their_settings))
    )
    recorded = converse(first, second)
    number = data.draw(st.integers(0, len(recorded) - 1))
    batch = list(recorded[number])
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(MESSAGES)
    items, chosen = (ours, our_settings) if number % 2 else (theirs, their_settings)
    replayed = Reconciler(SortedList(items, EXACT), **chosen)
    if number % 2:
        replayed.start()
    try:
        for earlier in recorded[number % 2 : number : 2]:
            replayed.receive_batch(earlier)
        replayed.receive_batch(batch)
    except ReconciliationError as error:
        assert type(error) is not ReconciliationError
