"""What a side says, opposite a second implementation and opposite itself (rbsr.md, 1.2 to 1.6 and 3.2)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.conform.rbsr import MESSAGES
from culm_models.reconciliation import RULES, Facts, Reconciler, Rule
from culm_models.reconciliation.messages import EmptySet, Fingerprint, Payload, Terminal
from culm_models.reconciliation.ordered_set import CONCAT, SortedList
from tests.models.reconciliation import conversations
from tests.models.reconciliation.naive import Message, Naive
from tests.models.reconciliation.sides import (
    DIVISIONS,
    EXACT,
    SETTINGS,
    THRESHOLDS,
    Heights,
    absorbing,
    asks,
    converse,
    items_shown,
    two_sets,
)


class AsJson:
    """The machine, spoken to in the naive side's messages."""

    def __init__(self, items: Any, rule: Rule, threshold: int, division: int) -> None:
        self.own, self.machine = absorbing(items, rule=rule, threshold=threshold, division=division)

    def start(self) -> list[Message]:
        return [_plain(message) for message in self.machine.start()]

    def receive(self, message: Message) -> list[Message]:
        return [_plain(sent) for sent in self.machine.receive(_unplain(message))]


def _plain(message: Any) -> Message:
    shown = MESSAGES[False].show(message)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in shown.items()} | (
        {"end": conversations.tupled(shown["end"])} if "end" in shown else {}
    )


def _unplain(message: Message) -> Any:
    match message["type"]:
        case "payload":
            end = message.get("end", {})
            return Payload(0, message["payload"], end.get("canRespond"), end.get("upperBound"))
        case "fingerprint":
            return Fingerprint(0, message["fingerprint"], message["upperBound"])
        case "emptySet" | "terminal":
            return MESSAGES[False].read(message, session_id=0)
    # The others carry a single bound, of any kind here.
    stand_in = MESSAGES[False].read(
        {**message, **{key: "" for key in message if key != "type"}}, session_id=0
    )
    (name,) = (key for key in message if key != "type")
    field = {"value": "value", "upperBound": "upper_bound"}[name]
    return type(stand_in)(0, **{field: message[name]})


@given(two_sets(), SETTINGS, SETTINGS, st.booleans())
def test_message_for_message_as_the_naive_side(
    sets: tuple[list[Any], list[Any]], ours: Any, theirs: Any, begins: bool
) -> None:
    """The naive side sits opposite; a second naive side says what the machine should say."""
    machine = AsJson(sets[0], **ours)
    model = Naive(sets[0], ours["threshold"], ours["division"], tuple, ours["rule"])
    other = Naive(sets[1], theirs["threshold"], theirs["division"], tuple, theirs["rule"])
    if begins:
        batch = machine.start()
        assert batch == model.start()
        answers = [answer for message in batch for answer in other.receive(message)]
    else:
        answers = other.start()
    while answers:
        batch = []
        for message in answers:
            sent = machine.receive(message)
            assert sent == model.receive(message)
            assert machine.machine.done == model.done
            batch += sent
        answers = [answer for message in batch for answer in other.receive(message)]
    assert machine.own.items(0, len(machine.own)) == model.items == other.items
    assert machine.machine.take_facts().shown == model.inserted


@given(two_sets(), SETTINGS, SETTINGS)
def test_any_settings_meet(sets: tuple[list[Any], list[Any]], ours: Any, theirs: Any) -> None:
    own, first = absorbing(sets[0], **ours)
    other, second = absorbing(sets[1], **theirs)
    batches = converse(first, second)
    union = sorted({*sets[0], *sets[1]})
    assert own.items(0, len(own)) == other.items(0, len(other)) == union
    assert first.done and second.done
    assert len(batches) <= min(first.max_batches, second.max_batches) - 4, "half the slack is enough"
    # Only the last batches ask nothing: nobody speaks behind the other's echo.
    quiet = [not any(asks(message) for message in batch) for batch in batches]
    assert quiet[-1] and not any(quiet[:-3])


@pytest.mark.parametrize("rules", [(first, second) for first in RULES for second in RULES])
@pytest.mark.parametrize("size", [1_000, 10_000])
def test_large_sets_meet(rules: tuple[Rule, Rule], size: int) -> None:
    source = random.Random(size)
    everything = source.sample(range(10 * size), size)
    sets = [[item for item in everything if source.random() < 0.99] for _ in range(2)]
    lift = {item: source.getrandbits(64) for item in everything}
    sums = type(EXACT)(lift.__getitem__, sum)
    own, other = (SortedList(items, sums) for items in sets)
    first, second = (
        Reconciler(items, rule=rule, absorb=True) for items, rule in zip((own, other), rules, strict=True)
    )
    batches = converse(first, second)
    assert own.items(0, len(own)) == other.items(0, len(other)) == sorted({*sets[0], *sets[1]})
    assert len(items_shown(batches)) < size / 2


@given(two_sets(), THRESHOLDS, DIVISIONS)
def test_even_opens_with_fingerprints_alone(
    sets: tuple[list[Any], list[Any]], threshold: int, division: int
) -> None:
    _, machine = absorbing(sets[0], threshold=threshold, division=division)
    opening = machine.start()
    if not sets[0]:
        assert opening == [EmptySet(0, True)]
        return
    fingerprints = [message for message in opening if isinstance(message, Fingerprint)]
    assert len(opening) == len(fingerprints) + 2
    item_count = len(set(sets[0]))
    assert len(fingerprints) == (1 if item_count <= threshold else min(item_count, division))
    sizes = [len(message.fingerprint) for message in fingerprints]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == item_count


@given(two_sets(), SETTINGS)
def test_equal_sets_show_no_item_under_even(sets: tuple[list[Any], list[Any]], theirs: Any) -> None:
    _, first = absorbing(sets[0])
    _, second = absorbing(sets[0], **theirs)
    batches = converse(first, second)
    assert items_shown(batches) == []
    assert len(batches) <= (3 if sets[0] else 4)


def test_a_responder_to_one_fingerprint_over_everything_still_splits() -> None:
    _, machine = absorbing(range(100), threshold=8, division=4)
    _, other = absorbing([200], threshold=8)
    (answer,) = [machine.receive_batch(other.start())]
    assert sum(isinstance(message, Fingerprint) for message in answer) == 4


def in_order(facts: Facts) -> list[Any]:
    return [facts.shown, sorted(facts.equal), sorted(facts.complete), sorted(facts.answered)]


@given(two_sets(), SETTINGS, SETTINGS)
def test_a_batch_is_answered_as_its_messages_one_by_one(
    sets: tuple[list[Any], list[Any]], ours: Any, theirs: Any
) -> None:
    stepwise, whole, other = (
        Reconciler(SortedList(items, EXACT), **settings)
        for items, settings in ((sets[0], ours), (sets[0], ours), (sets[1], theirs))
    )
    batch = other.start()
    while batch:
        answers = whole.receive_batch(batch)
        assert [answer for message in batch for answer in stepwise.receive(message)] == answers
        assert in_order(stepwise.take_facts()) == in_order(whole.take_facts())
        assert stepwise.done == whole.done
        batch = other.receive_batch(answers)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(1, 3)), min_size=1),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.just(0)), min_size=1, unique=True),
    SETTINGS,
)
def test_an_opening_is_cut_at_the_bounds_given(items: list[Any], cuts: list[Any], ours: Any) -> None:
    cuts.sort()
    own = Heights(items, EXACT)
    opening = Reconciler(own, cuts=cuts, **ours).start()
    bounds = [opening[0].value, *(message.upper_bound for message in opening[1:-1])]  # type: ignore[attr-defined]
    assert bounds[0] == bounds[-1] == cuts[0]
    assert set(bounds) <= set(cuts)
    fingerprints = [message.fingerprint for message in opening[1:-1]]  # type: ignore[attr-defined]
    assert sorted(item for part in fingerprints for item in part) == own.items(0, len(own))
    assert all(fingerprints)


def test_two_empty_sets() -> None:
    first, second = (Reconciler(SortedList[str, str]([], CONCAT)) for _ in range(2))
    assert converse(first, second) == [[EmptySet(0, True)], [EmptySet(0, False)]]
    assert first.done and second.done
    assert not second.take_facts().equal


def test_a_session_id_is_in_every_message() -> None:
    first, second = (
        Reconciler(SortedList(items, EXACT), session_id=7) for items in (range(50), range(20, 70))
    )
    assert {message.session_id for batch in converse(first, second) for message in batch} == {7}


def test_the_generator_makes_the_vectors() -> None:
    made = list(conversations.make(conversations.COUNT, conversations.SEED))
    assert json.loads(json.dumps(made)) == conversations.read("naive.jsonl")


def test_terminal_ends_every_batch_but_empty_sets() -> None:
    first, second = (Reconciler(SortedList(items, EXACT)) for items in (range(50), range(20, 70)))
    for batch in converse(first, second):
        assert [type(message) for message in batch].count(Terminal) == 1
        assert isinstance(batch[-1], Terminal)
