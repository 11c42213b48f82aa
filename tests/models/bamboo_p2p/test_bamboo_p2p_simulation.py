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
