"""Replicas under random orders, losses and lies come to say the same (reference 6)."""

from __future__ import annotations

import os

import pytest

from culm_models.testing.dag.simulator import DagSimulation

RUNS = int(os.environ.get("CULM_DAG_SIMULATION_RUNS", "400"))


@pytest.mark.parametrize("seed", range(12))
def test_replicas_converge(seed: int) -> None:
    DagSimulation(seed).run(800)


@pytest.mark.soak
def test_replicas_converge_in_many_runs() -> None:
    for seed in range(1_000, 1_000 + RUNS):
        DagSimulation(seed).run(1_500)
