"""What a side that keeps its set says together under `even`, and that nothing is lost by it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.reconciliation import Reconciler, ReconciliationError
from culm_models.reconciliation.messages import Done, Fingerprint, LowerBound, Payload, Terminal
from tests.models.reconciliation.sides import EXACT, THRESHOLDS, Heights, asks, converse

KEYS = st.integers(0, 400)
DIVISION = st.sampled_from((2, 3, 4))


def side(keys: set[int], **settings: Any) -> Reconciler[Any, Any]:
    """A side with a log of one entry for each key."""
    return Reconciler(Heights([(key, 0, 1) for key in keys], EXACT), **settings)


def test_two_batches_tell_equal_sets() -> None:
    keys = set(range(100))
    batches = converse(side(keys), side(keys))
    assert [[type(message) for message in batch] for batch in batches] == [
        [LowerBound, *[Fingerprint] * 4, Terminal],
        [LowerBound, Done, Terminal],
    ]


@given(st.sets(KEYS, min_size=1), st.sets(KEYS, max_size=9), st.sets(KEYS, max_size=9), THRESHOLDS, DIVISION)
def test_what_differs_is_known_on_both_sides(
    shared: set[int], ours: set[int], theirs: set[int], threshold: int, division: int
) -> None:
    settings = {"threshold": threshold, "division": division}
    sets = shared | ours, shared | theirs
    machines = side(sets[0], **settings), side(sets[1], **settings)
    converse(*machines)
    assert all(machine.done for machine in machines)
    for own, other, machine in zip(sets, reversed(sets), machines, strict=True):
        facts = machine.take_facts()
        shown = {item[0] for item in facts.shown}
        assert other - own <= shown <= other
        ring = sorted(own)
        for start, size in facts.equal:
            assert {ring[(start + offset) % len(ring)] for offset in range(size)} <= other
        # An own item is equal by a fingerprint, or in a range of which the remote told what it holds.
        spans = [*facts.equal, *facts.complete, *facts.answered]
        covered = {(start + offset) % len(ring) for start, size in spans for offset in range(size)}
        assert covered == set(range(len(ring)))


@given(st.sets(KEYS, min_size=1), st.sets(KEYS, max_size=9), st.sets(KEYS, max_size=9), THRESHOLDS, DIVISION)
def test_replies_in_a_row_are_one_run(
    shared: set[int], ours: set[int], theirs: set[int], threshold: int, division: int
) -> None:
    settings = {"threshold": threshold, "division": division}
    for batch in converse(side(shared | ours, **settings), side(shared | theirs, **settings)):
        closing = [message for message in batch if not isinstance(message, LowerBound | Terminal)]
        for before, message in pairwise(closing):
            ends = isinstance(before, Payload) and before.can_respond is False
            assert not (ends and isinstance(message, Payload) and message.can_respond is False)
        assert batch[1:-1] or len(batch) == 1, "a batch that says nothing"


@given(st.sets(KEYS, min_size=1), st.sets(KEYS, max_size=9), st.sets(KEYS, max_size=9))
def test_the_last_batch_asks_nothing_and_is_not_echoed(
    shared: set[int], ours: set[int], theirs: set[int]
) -> None:
    batches = converse(side(shared | ours), side(shared | theirs))
    assert all(any(map(asks, batch)) for batch in batches[:-1])
    assert not any(map(asks, batches[-1]))


def test_a_reply_to_nothing_is_refused() -> None:
    machine = side(set(range(100)))
    origin = machine.start()[0].value  # type: ignore[attr-defined]
    machine.receive_batch(
        [LowerBound(0, origin), Done(0, (50, 0, 0)), Fingerprint(0, ((7, 0, 1),), (75, 0, 0))]
    )
    machine.receive_batch([Done(0, origin), Terminal(0)])
    # What is open by now lies before (75, 0, 0).
    machine.receive_batch([LowerBound(0, origin), Done(0, (75, 0, 0))])
    with pytest.raises(ReconciliationError) as caught:
        machine.receive_batch([Payload(0, (80, 0, 1), False, (90, 0, 0))])
    assert caught.value.code == "reconciliation.range_done"
