"""Trees of 2 to 20 replicas under faults from a seed: in the end all stores are equal and nothing is lost.

`CULM_SIM_RUNS` sets how many seeds the long form runs, `CULM_SIM_SEED` replays a single one.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from culm_models.chotki.packets.packet import Packet
from culm_models.chotki.sessions.sync_receiver import SyncReceiver
from culm_models.testing.chotki import simulate_chotki
from culm_models.testing.errors import SimulationError

_RUNS = int(os.environ.get("CULM_SIM_RUNS", "400"))
_SEED = os.environ.get("CULM_SIM_SEED")
_BATCHES = 8
_SHORT_RUNS = 60
_SHORT_BATCHES = 4


@pytest.mark.parametrize("batch", range(_SHORT_BATCHES))
def test_every_seed_ends_with_equal_stores_that_hold_every_change(batch: int) -> None:
    refused: Counter[str] = Counter()
    for seed in range(batch, _SHORT_RUNS, _SHORT_BATCHES) if _SEED is None else [int(_SEED)][batch:]:
        refused.update(simulate_chotki(seed).refused)
    if _SEED is None:
        assert refused["chotki.sync_unknown"], "no session ever met another's sync: the runs are too tame"


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("batch", range(_BATCHES))
def test_hundreds_of_seeds_end_with_equal_stores(batch: int) -> None:
    for seed in range(1_000 + batch, 1_000 + _RUNS, _BATCHES):
        simulate_chotki(seed, steps=1_500)


def test_a_seed_gives_the_same_run_again() -> None:
    assert simulate_chotki(3).trace == simulate_chotki(3).trace


def test_a_replica_that_keeps_less_than_it_claims_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SyncReceiver.parcel

    def forgetful(self: Any, packet: Packet, record: bytes, now_ms: int) -> bool:
        return honest(self, packet._replace(inner=packet.inner[:-2]), record, now_ms)

    monkeypatch.setattr(SyncReceiver, "parcel", forgetful)
    with pytest.raises(SimulationError, match="differs"):
        for seed in range(10):
            simulate_chotki(seed)
