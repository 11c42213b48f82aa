"""Review of acknowledgements: what counts as evidence, and what a review costs."""

from collections.abc import Iterable

import pytest

from culm_models.sds.acks.acknowledgement import (
    AckEvent,
    Acknowledgements,
    HashPair,
)
from culm_models.sds.events import Acknowledged, PossiblyAcknowledged
from tests.models.sds.acks.filters_for_tests import ExactFilter


def pair(number: int) -> HashPair:
    return number, number + 1


def waiting(count: int, *, threshold: int = 2, max_misses: int = 4_096) -> Acknowledgements:
    """Messages m0, m1, … of alice."""
    acknowledgements = Acknowledgements(threshold=threshold, max_misses=max_misses)
    for number in range(count):
        acknowledgements.add(number, "alice", f"m{number}", pair(number))
    return acknowledgements


def showing(numbers: Iterable[int]) -> ExactFilter:
    return ExactFilter(map(pair, numbers))


def ids(facts: list[AckEvent]) -> list[str]:
    return [fact.message_id for fact in facts]


def test_a_message_in_a_causal_history_is_acknowledged() -> None:
    facts = waiting(2).review("bob", ["m1", "other"], None)
    assert facts == [Acknowledged("m1", "alice", "causal_history", ("bob",))]


def test_a_message_in_a_filter_is_possibly_acknowledged() -> None:
    facts = waiting(2).review("bob", [], showing([0]))
    assert facts == [PossiblyAcknowledged("m0", "alice", ("bob",))]


def test_filters_of_enough_distinct_senders_acknowledge() -> None:
    acknowledgements = waiting(1, threshold=3)
    for sender_id in ("bob", "carol"):
        acknowledgements.review(sender_id, [], showing([0]))
    facts = acknowledgements.review("dave", [], showing([0]))
    assert facts == [Acknowledged("m0", "alice", "bloom_filter", ("bob", "carol", "dave"))]


def test_equal_filters_of_different_senders_count_once() -> None:
    acknowledgements = waiting(1)
    equal = [ExactFilter([pair(0)], digest=b"equal") for _ in range(3)]
    assert ids(acknowledgements.review("bob", [], equal[0])) == ["m0"]
    assert acknowledgements.review("carol", [], equal[1]) == []
    assert acknowledgements.review("dave", [], equal[2]) == []
    assert acknowledgements.evidence("m0") == ("bob",)
    facts = acknowledgements.review("carol", [], showing([0]))
    assert facts == [Acknowledged("m0", "alice", "bloom_filter", ("bob", "carol"))]


def test_the_same_sender_counts_once() -> None:
    acknowledgements = waiting(1)
    acknowledgements.review("bob", [], showing([0]))
    assert acknowledgements.review("bob", [], showing([0])) == []
    assert acknowledgements.evidence("m0") == ("bob",)


def test_a_threshold_of_one_takes_a_filter_for_certain() -> None:
    facts = waiting(1, threshold=1).review("bob", [], showing([0]))
    assert facts == [Acknowledged("m0", "alice", "bloom_filter", ("bob",))]


def test_what_a_participant_says_of_its_own_messages_is_no_evidence() -> None:
    acknowledgements = waiting(1)
    assert acknowledgements.review("alice", ["m0"], showing([0])) == []
    assert acknowledgements.evidence("m0") == ()


def test_a_filter_that_is_no_evidence_shows_nothing() -> None:
    full = ExactFilter([pair(0)], is_evidence=False)
    assert waiting(1).review("bob", [], full) == []


def test_facts_come_in_the_order_of_sending_and_the_history_first() -> None:
    facts = waiting(5).review("bob", ["m4", "m1", "m4"], showing([3, 0, 1]))
    assert ids(facts) == ["m1", "m4", "m0", "m3"]


def test_an_acknowledged_message_is_never_spoken_of_again() -> None:
    acknowledgements = waiting(1)
    acknowledgements.review("bob", ["m0"], None)
    assert acknowledgements.review("carol", ["m0"], showing([0])) == []


def test_a_sender_is_not_asked_again_about_what_it_has_shown() -> None:
    acknowledgements = waiting(1_000)
    acknowledgements.review("bob", [], showing(range(990)))
    again = showing(range(1_000))
    assert len(acknowledgements.review("bob", [], again)) == 10
    assert again.asked == 10


def test_a_review_looks_in_vain_a_bounded_number_of_times() -> None:
    acknowledgements = waiting(1_000, max_misses=100)
    nothing = showing([])
    acknowledgements.review("bob", [], nothing)
    assert nothing.asked <= 100


@pytest.mark.parametrize("max_misses", [2, 7, 100])
def test_the_next_review_goes_on_where_the_last_one_stopped(max_misses: int) -> None:
    acknowledgements = waiting(300, max_misses=max_misses)
    acknowledgements.review("carol", [], showing(range(0, 300, 3)))
    shown: set[str] = set()
    # Each review looks at one message at least, of one of at most three groups.
    for _ in range(3 * 300):
        shown |= set(ids(acknowledgements.review("bob", [], showing(range(0, 300, 7)))))
    assert shown == {f"m{number}" for number in range(0, 300, 7)}


def test_reviews_of_a_long_buffer_cost_what_is_new() -> None:
    """Two participants: what one sends is soon in the filter of the other, and never in its history."""
    acknowledgements = Acknowledgements(threshold=2)
    asked = 0
    for number in range(5_000):
        acknowledgements.add(number, "alice", f"m{number}", pair(number))
        if number % 10 == 9:
            review = showing(range(number - 2))
            acknowledgements.review("bob", [], review)
            asked += review.asked
    assert asked < 2 * 5_000
