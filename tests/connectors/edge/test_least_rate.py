"""Who takes what waits for it too slowly: time is spent, and earned by what is taken."""

from __future__ import annotations

from culm_connectors.rate_limit import LeastRate


def test_a_peer_may_take_nothing_for_the_grace_and_a_little_now_and_then_is_not_enough() -> None:
    rate = LeastRate(100.0, 30.0)
    rate.begin(0, 1_000.0)
    assert rate.count(0, 1_010.0) == 20.0
    # Half of the least rate: half of the time is lost.
    assert rate.count(500, 1_020.0) == 15.0
    assert rate.count(1_000, 1_050.0) < 0


def test_time_that_was_spent_is_earned_back_up_to_the_grace_and_counts_only_while_something_waits() -> None:
    rate = LeastRate(100.0, 30.0)
    rate.begin(0, 0.0)
    assert rate.count(0, 20.0) == 10.0
    rate.begin(0, 500.0)
    assert rate.count(1_000, 501.0) == 19.0
    assert rate.count(1_000_000, 502.0) == 30.0
