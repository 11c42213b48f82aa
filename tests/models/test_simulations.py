"""Nodes of each protocol under faults from a seed; what must hold is what the simulators check.

`CULM_SIM_RUNS` sets how many seeds the long form runs, `CULM_SIM_SEED` replays a single one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from culm_models.testing.bamboo_p2p.simulator import BambooP2pSimulation
from culm_models.testing.chotki.simulator import ChotkiSimulation
from culm_models.testing.dag.simulator import DagSimulation
from culm_models.testing.errors import SimulationError
from culm_models.testing.p2panda.simulator import P2pandaSimulation
from culm_models.testing.sds.simulator import SdsSimulation
from culm_models.testing.simulation import Simulation

_RUNS = int(os.environ.get("CULM_SIM_RUNS", "400"))
_SEED = os.environ.get("CULM_SIM_SEED")
_BATCHES = 4
_LONG_BATCHES = 8


class Kind(NamedTuple):
    """A protocol's simulation, how many seeds the short form runs, and what makes a run long."""

    make: Callable[..., Simulation[Any]]
    runs: int
    long: dict[str, int]


KINDS = {
    "p2panda": Kind(P2pandaSimulation, 240, {"actions": 300}),
    "sds": Kind(SdsSimulation, 60, {"messages": 1_500}),
    "chotki": Kind(ChotkiSimulation, 60, {"steps": 1_500}),
    "bamboo_p2p": Kind(BambooP2pSimulation, 150, {"actions": 300}),
    "dag": Kind(DagSimulation, 12, {"actions": 200}),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@every_kind
@pytest.mark.parametrize("batch", range(_BATCHES))
@pytest.mark.timeout(900)
def test_what_must_hold_does_for_every_seed(kind: Kind, batch: int) -> None:
    for seed in range(batch, kind.runs, _BATCHES) if _SEED is None else [int(_SEED)][batch:]:
        kind.make(seed).run()


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@every_kind
@pytest.mark.parametrize("batch", range(_LONG_BATCHES))
def test_what_must_hold_does_in_long_runs(kind: Kind, batch: int) -> None:
    for seed in range(1_000 + batch, 1_000 + _RUNS, _LONG_BATCHES):
        kind.make(seed, **kind.long).run()


@every_kind
def test_a_seed_gives_the_same_run_again(kind: Kind) -> None:
    first, second = kind.make(7).run(), kind.make(7).run()
    assert first.trace == second.trace and len(first.trace) > 1
    assert first.now_ms == second.now_ms and first.rng.getstate() == second.rng.getstate()


@every_kind
def test_a_failure_names_its_seed(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = kind.make(3)
    monkeypatch.setattr(simulation, "check", lambda: 1 // 0)
    with pytest.raises(SimulationError, match="CULM_SIM_SEED=3"):
        simulation.run()
