"""Without `absorb`: what a side learns is true, and enough to bring both sides together (rbsr.md, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.reconciliation import Facts, Reconciler, Span
from culm_models.reconciliation.messages import EmptySet, Fingerprint, LowerBound, Payload, Terminal
from tests.models.reconciliation.sides import EXACT, SETTINGS, Heights, absorbing, asks, converse, items_shown

Log = tuple[int, int]
Held = dict[Log, int]
KEYS = st.integers(0, 12)
LOGS = st.tuples(KEYS, st.integers(0, 2))
HELD = st.dictionaries(LOGS, st.integers(1, 4), max_size=40)


@st.composite
def two_stores(draw: st.DrawFn) -> tuple[Held, Held]:
    """Log heights of two sides that share much or nothing."""
    shared = draw(HELD)
    ours, theirs = (dict(shared) if draw(st.booleans()) else {} for _ in range(2))
    for heights in (ours, theirs):
        heights.update(draw(st.dictionaries(LOGS, st.integers(1, 4), max_size=5)))
        for log in draw(st.lists(st.sampled_from(sorted(heights)), max_size=4)) if heights else ():
            heights.pop(log, None)
    return ours, theirs


class Adapter:
    """A side that moves entries: what it would send, by what it has learnt."""

    def __init__(self, heights: Held, *, names_absent: bool, terse: bool, **settings: Any) -> None:
        self.held = heights
        self.own = Heights(((*log, seq_num) for log, seq_num in heights.items()), EXACT)
        self.terse = terse
        self.facts = Facts()
        self.machine = Reconciler(self.own, reply=self.reply if names_absent else None, **settings)

    def reply(self, received: Sequence[Any], span: Span) -> Sequence[Any]:
        """What differs, and what was shown and is not held here as item 0.

        `terse`: own logs that the remote showed nothing of are left out, as it will get them anyway.
        """
        shown = {item[:2] for item in received}
        own = [item for item in self.own.items(*span) if item not in received]
        if self.terse:
            own = [item for item in own if item[:2] in shown]
        return own + [(*log, 0) for log in sorted(shown) if log not in self.held]

    def learn(self) -> None:
        """Take the facts as they come, in any number of steps."""
        facts = self.machine.take_facts()
        self.facts.shown += facts.shown
        self.facts.equal += facts.equal
        self.facts.complete += facts.complete
        self.facts.answered += facts.answered

    def ranks(self, spans: list[Span]) -> set[int]:
        """The ranks within spans."""
        return {(start + at) % len(self.own) for start, size in spans for at in range(size)}

    def to_send(self, *, remote_names_absent: bool) -> dict[Log, int]:
        """By log, the height from which entries go to the remote."""
        equal = self.ranks(self.facts.equal)
        if remote_names_absent:
            equal |= self.ranks(self.facts.answered)
        shown: Held = {}
        for key, log_id, seq_num in self.facts.shown:
            shown[key, log_id] = max(seq_num, shown.get((key, log_id), 0))
        heights = {}
        for rank, (key, log_id, seq_num) in enumerate(self.own.items(0, len(self.own))):
            known = shown.get((key, log_id), None if rank in equal else 0)
            if known is not None and known < seq_num:
                heights[key, log_id] = known
        return heights


def run(first: Adapter, second: Adapter) -> list[Any]:
    """A whole session; every batch is followed by a look at the facts."""
    batches = [first.machine.start()]
    turn, other = second, first
    while batches[-1]:
        answers = turn.machine.receive_batch(batches[-1])
        turn.learn()
        batches.append(answers)
        turn, other = other, turn
    assert first.machine.done and second.machine.done
    return batches


def needed(local: Held, remote: Held) -> Held:
    """What has to be sent, no more and no less."""
    return {log: remote.get(log, 0) for log, seq_num in local.items() if seq_num > remote.get(log, 0)}


@given(two_stores(), SETTINGS, SETTINGS, st.booleans(), st.booleans())
def test_absence_named_both_sides_send_exactly_what_the_other_lacks(
    stores: tuple[Held, Held], ours: Any, theirs: Any, terse: bool, other_terse: bool
) -> None:
    a = Adapter(stores[0], names_absent=True, terse=terse, **ours)
    b = Adapter(stores[1], names_absent=True, terse=other_terse, **theirs)
    run(a, b)
    assert a.to_send(remote_names_absent=True) == needed(*stores)
    assert b.to_send(remote_names_absent=True) == needed(*reversed(stores))


@given(two_stores(), SETTINGS, SETTINGS)
def test_plain_both_sides_send_all_that_the_other_lacks(
    stores: tuple[Held, Held], ours: Any, theirs: Any
) -> None:
    """And from below where it is: what more they send is what was shown and met with silence."""
    a = Adapter(stores[0], names_absent=False, terse=False, **ours)
    b = Adapter(stores[1], names_absent=False, terse=False, **theirs)
    run(a, b)
    for side, remote in ((a, stores[1]), (b, stores[0])):
        sent = side.to_send(remote_names_absent=False)
        for log, height in needed(side.held, remote).items():
            assert sent[log] <= height
        silent = side.ranks(side.facts.answered)
        for log in set(sent) - set(needed(side.held, remote)):
            assert side.own.ranks([(*log, 0)])[0] in silent


@given(two_stores(), SETTINGS, SETTINGS)
def test_facts_are_true(stores: tuple[Held, Held], ours: Any, theirs: Any) -> None:
    a = Adapter(stores[0], names_absent=True, terse=False, **ours)
    b = Adapter(stores[1], names_absent=True, terse=False, **theirs)
    run(a, b)
    for side, remote in ((a, b), (b, a)):
        items = side.own.items(0, len(side.own))
        theirs_by_log = remote.held
        for rank in side.ranks(side.facts.equal):
            assert theirs_by_log[items[rank][:2]] == items[rank][2]
        shown = {item[:2]: item[2] for item in side.facts.shown}
        for log, seq_num in shown.items():
            assert theirs_by_log.get(log, 0) == seq_num
        for rank in side.ranks(side.facts.complete):
            assert items[rank][:2] in shown or items[rank][:2] not in theirs_by_log


@given(two_stores(), SETTINGS, SETTINGS, st.booleans())
def test_opposite_the_published_algorithm(
    stores: tuple[Held, Held], ours: Any, theirs: Any, begins: bool
) -> None:
    """The other side takes in what it receives, and is shown all that it lacks."""
    a = Adapter(stores[0], names_absent=False, terse=False, **ours)
    items = [(*log, seq_num) for log, seq_num in stores[1].items()]
    other, machine = absorbing(items, **theirs)
    batches = converse(a.machine, machine) if begins else converse(machine, a.machine)
    a.learn()
    mine = set(a.own.items(0, len(a.own)))
    assert len(a.own) == len(stores[0]), "the own set never changes"
    if items or begins:
        assert set(other.items(0, len(other))) == mine | set(items)
    assert set(a.facts.shown) <= set(items) | mine
    assert set(items) - mine <= set(a.facts.shown)
    sent = a.to_send(remote_names_absent=False)
    assert all(sent[log] <= height for log, height in needed(*stores).items())
    assert len(batches) < a.machine.max_batches


@given(two_stores(), SETTINGS, st.lists(LOGS, min_size=1, unique=True))
def test_an_opening_cut_anywhere_teaches_the_same(
    stores: tuple[Held, Held], theirs: Any, cuts: list[Log]
) -> None:
    bounds = [(*log, 0) for log in sorted(cuts)]
    a = Adapter(stores[0], names_absent=True, terse=True, cuts=bounds)
    b = Adapter(stores[1], names_absent=True, terse=True, **theirs)
    run(a, b)
    assert a.to_send(remote_names_absent=True) == needed(*stores)
    assert b.to_send(remote_names_absent=True) == needed(*reversed(stores))


def test_a_remote_with_nothing_is_not_told_item_by_item() -> None:
    a = Adapter({}, names_absent=True, terse=True)
    b = Adapter({(1, 0): 3, (2, 0): 1}, names_absent=True, terse=True)
    assert run(a, b)[:2] == [[EmptySet(0, True)], [Terminal(0)]]
    assert b.to_send(remote_names_absent=True) == {(1, 0): 0, (2, 0): 0}


def test_a_remote_that_answers_an_empty_set_with_items_is_heard_out() -> None:
    own = Heights([], EXACT)
    machine = Reconciler(own)
    machine.start()
    batch = [LowerBound(0, (1, 0, 0)), Payload(0, (1, 0, 3), False, (1, 0, 0)), Terminal(0)]
    assert not any(asks(message) for message in machine.receive_batch(batch))
    assert machine.done
    assert machine.take_facts().shown == [(1, 0, 3)]


@pytest.mark.parametrize("bound", [(1, 0, 0), (2, 0, 0)])
def test_a_done_over_part_of_a_fingerprint_says_nothing(bound: Any) -> None:
    own = Heights([(1, 0, 1), (2, 0, 1), (3, 0, 1)], EXACT)
    machine = Reconciler(own)
    opening = machine.start()
    assert isinstance(opening[1], Fingerprint) and len(opening) == 3
    from culm_models.reconciliation.messages import Done

    machine.receive_batch([LowerBound(0, (1, 0, 0)), Done(0, bound), Terminal(0)])
    assert machine.take_facts().equal == ([(0, 3)] if bound == (1, 0, 0) else [])


@given(two_stores(), SETTINGS, SETTINGS)
def test_equal_stores_show_no_item(stores: tuple[Held, Held], ours: Any, theirs: Any) -> None:
    a = Adapter(stores[0], names_absent=True, terse=True, **{**ours, "rule": "even"})
    b = Adapter(dict(stores[0]), names_absent=True, terse=True, **theirs)
    assert items_shown(run(a, b)) == []
    assert a.ranks(a.facts.equal) == b.ranks(b.facts.equal) == set(range(len(a.own)))
