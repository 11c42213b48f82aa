"""Many peers under faults from a seed.

`CULM_SIM_RUNS` sets how many seeds are run, `CULM_SIM_SEED` replays a single one.
"""

from __future__ import annotations

import os

import pytest

from culm_models.testing.errors import SimulationError
from culm_models.testing.p2panda import Simulation, simulate

_RUNS = int(os.environ.get("CULM_SIM_RUNS", "400"))
_SEED = os.environ.get("CULM_SIM_SEED")
_BATCHES = 8


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("batch", range(_BATCHES))
def test_every_seed_ends_with_the_same_logs_everywhere(batch: int) -> None:
    seeds = range(batch, _RUNS, _BATCHES) if _SEED is None else [int(_SEED)][batch:]
    for seed in seeds:
        simulate(seed)


def test_a_seed_gives_the_same_run_again() -> None:
    runs = [simulate(7) for _ in range(2)]
    trails = [
        [(event.kind, event.remote) for node in run.nodes.values() for event in node.events] for run in runs
    ]
    assert trails[0] == trails[1] and trails[0]


def test_a_failure_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulation, "_lacking", lambda self: [(b"", 0, 0)])
    with pytest.raises(SimulationError, match="CULM_SIM_SEED=3"):
        simulate(3)
