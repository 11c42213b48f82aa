"""Channels under faults from a seed: the same log on all, each id once, in causal order, every outcome told.

`CULM_SIM_RUNS` sets how many seeds the long form runs, `CULM_SIM_SEED` replays a single one.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_models.testing.errors import SimulationError
from culm_models.testing.sds.scenario import Scenario, draw_scenario
from culm_models.testing.sds.simulator import SdsSimulation, simulate_sds

_RUNS = int(os.environ.get("CULM_SIM_RUNS", "400"))
_SEED = os.environ.get("CULM_SIM_SEED")
_BATCHES = 8
_SHORT_RUNS = 60
_SHORT_BATCHES = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", range(_SHORT_BATCHES))
def test_every_seed_ends_with_the_same_log_and_every_outcome_told(batch: int) -> None:
    seeds = range(batch, _SHORT_RUNS, _SHORT_BATCHES) if _SEED is None else [int(_SEED)][batch:]
    for seed in seeds:
        simulate_sds(seed)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("batch", range(_BATCHES))
def test_hundreds_of_seeds_end_with_the_same_log_and_every_outcome_told(batch: int) -> None:
    for seed in range(1_000 + batch, 1_000 + _RUNS, _BATCHES):
        simulate_sds(seed, messages=1_500)


def plain(hosted: tuple[int, ...], profile: Profile = "spec", **changed: object) -> Scenario:
    """Nobody fails and nothing is lost, unless told."""
    scenario = Scenario(
        profile=profile,
        settings=replace(SdsSettings.for_profile(profile), bloom_capacity=1_000),
        hosted=hosted,
        skews_ms=(0,) * len(hosted),
        store=True,
        loss=0.0,
        duplication=0.0,
        echo=0.0,
        delay_ms=200,
        faults_ms=120_000,
        pause_ms=4_000,
        partitions=0,
        restarts=0,
        forgetful=0.0,
        ephemeral=0.0,
    )
    return replace(scenario, **changed)  # type: ignore[arg-type]  # the fields' own types


@pytest.mark.timeout(900)
def test_two_hundred_participants_on_ten_nodes_and_a_bad_network() -> None:
    scenario = plain((40, 1, 50, 1, 1, 30, 1, 75, 1, 1), loss=0.5, duplication=0.1, restarts=3, partitions=1)
    simulation = simulate_sds(1, scenario)
    assert sum(scenario.hosted) == 201
    assert len({node.channel.status().log for node in simulation.nodes}) == 1


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_participants_each_on_a_node_of_its_own(seed: int) -> None:
    simulate_sds(seed, plain((1,) * 200, loss=0.3, duplication=0.1, restarts=20, forgetful=0.3, partitions=2))


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_half_of_everything_lost_between_two_participants(profile: Profile) -> None:
    for seed in range(5):
        simulate_sds(seed, plain((1, 1), profile, loss=0.5, faults_ms=600_000, pause_ms=20_000))


def test_clocks_two_hours_apart_meet_when_the_time_of_the_fast_one_has_come() -> None:
    skews_ms = (3_600_000, -3_600_000, 0)
    simulation = simulate_sds(3, plain((1, 1, 1), skews_ms=skews_ms))
    assert not any(node.channel.status().quarantined for node in simulation.nodes)


def test_without_faults_nothing_is_asked_for_or_repaired() -> None:
    simulation = simulate_sds(2, plain((1, 1, 1, 3), delay_ms=20, pause_ms=6_000))
    assert simulation.ledger.counts["new"] > 15
    assert not simulation.ledger.counts["repair"] + simulation.ledger.counts["retry"]
    assert not any(node.witness.lost | node.witness.gave_up for node in simulation.nodes)


def test_nobody_repairs_without_a_store_what_nobody_has() -> None:
    """Loss of state at the only one who has a message: the others learn that it is lost, and go on."""
    for seed in range(6):
        simulate_sds(seed, plain((1, 1, 1), store=False, loss=0.3, restarts=4, forgetful=1.0))


def trail(simulation: SdsSimulation) -> list[object]:
    return [simulation.trace, simulation.ledger.wires, [node.channel.head() for node in simulation.nodes]]


def test_a_seed_gives_the_same_run_again() -> None:
    first, second = simulate_sds(7), simulate_sds(7)
    assert trail(first) == trail(second)
    assert len(first.ledger.wires) > 10


def test_a_failure_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SdsSimulation, "_differences", lambda self: "nothing fits")
    with pytest.raises(SimulationError, match="CULM_SIM_SEED=3"):
        simulate_sds(3, draw_scenario(random.Random(3), most_nodes=2, most_hosted=2))
