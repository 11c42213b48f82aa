"""Ends at random, with both channels delayed by themselves: nothing is dropped, lost, or kept for ever."""

import pytest

from culm_models.testing.bamboo_p2p.simulator import BambooP2pSimulation


@pytest.mark.parametrize("seed", range(150))
def test_a_random_run_keeps_every_promise(seed: int) -> None:
    BambooP2pSimulation(seed).run(200)


@pytest.mark.soak
def test_many_random_runs_keep_every_promise() -> None:
    for seed in range(1_000, 26_000):
        BambooP2pSimulation(seed).run(200)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        # A link to an entry of which both ends only notified, in a forked log.
        (5_000_157, 1_500),
        # The size of a payload that is of another branch than the one held.
        (5_091, 200),
        (7_169, 200),
        # Wrong bytes of a payload that is held from elsewhere, and an offset that leaves none to come.
        (7_000_122, 1_500),
        (43, 200),
        # An entry published over one of another branch, to which only its lipmaalink leads.
        (7_551, 200),
        # Who only sends confirmed before it held anything, and then came to hold another branch.
        (8_924, 200),
        # Data of the other branch that was on its way when the fork became known.
        (13_854, 300),
    ],
)
def test_a_run_that_once_went_wrong_goes_well(seed: int, steps: int) -> None:
    BambooP2pSimulation(seed).run(steps)
