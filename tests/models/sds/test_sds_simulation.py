"""Channels under faults of a kind: the same log on all, each id once, in causal order, every outcome told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_models.testing.sds.scenario import SdsScenario
from culm_models.testing.sds.simulator import SdsSimulation


def plain(hosted: tuple[int, ...], profile: Profile = "spec", **changed: object) -> SdsScenario:
    """Nobody fails and nothing is lost, unless told."""
    scenario = SdsScenario(
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
    simulation = SdsSimulation(1, scenario).run()
    assert sum(scenario.hosted) == 201
    assert len({node.channel.status().log for node in simulation.nodes.values()}) == 1


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_participants_each_on_a_node_of_its_own(seed: int) -> None:
    SdsSimulation(
        seed, plain((1,) * 200, loss=0.3, duplication=0.1, restarts=20, forgetful=0.3, partitions=2)
    ).run()


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_half_of_everything_lost_between_two_participants(profile: Profile) -> None:
    for seed in range(5):
        SdsSimulation(seed, plain((1, 1), profile, loss=0.5, faults_ms=600_000, pause_ms=20_000)).run()


def test_clocks_two_hours_apart_meet_when_the_time_of_the_fast_one_has_come() -> None:
    skews_ms = (3_600_000, -3_600_000, 0)
    simulation = SdsSimulation(3, plain((1, 1, 1), skews_ms=skews_ms)).run()
    assert not any(node.channel.status().quarantined for node in simulation.nodes.values())


def test_without_faults_nothing_is_asked_for_or_repaired() -> None:
    simulation = SdsSimulation(2, plain((1, 1, 1, 3), delay_ms=20, pause_ms=6_000)).run()
    assert simulation.ledger.counts["new"] > 15
    assert not simulation.ledger.counts["repair"] + simulation.ledger.counts["retry"]
    assert not any(node.witness.lost | node.witness.gave_up for node in simulation.nodes.values())


def test_nobody_repairs_without_a_store_what_nobody_has() -> None:
    """Loss of state at the only one who has a message: the others learn that it is lost, and go on."""
    for seed in range(6):
        SdsSimulation(seed, plain((1, 1, 1), store=False, loss=0.3, restarts=4, forgetful=1.0)).run()
