"""Trees of 2 to 20 replicas under faults from a seed: in the end all stores are equal and nothing is lost.

`CULM_SIM_RUNS` sets how many seeds the long form runs, `CULM_SIM_SEED` replays a single one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY
from culm_models.chotki.packets.packet import outer_letter
from culm_models.chotki.packets.parcels import ParcelReader
from culm_models.chotki.sessions.outgoing import Outgoing
from culm_models.chotki.sync.diff import Diff
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


def forget_the_last_field(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ParcelReader.slices

    def forgetful(self: Any) -> Iterator[list[tuple[bytes, bytes]]]:
        for fields in honest(self):
            yield fields[:-1]

    monkeypatch.setattr(ParcelReader, "slices", forgetful)


def forget_live_packets_before_v(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outgoing, "hold", lambda *_: None)


def leave_out_what_any_seen_vector_is_known_of(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Diff._difference

    def lazy(self: Any, code: int, value: bytes, seen: bytes | None, want: dict[int, int]) -> bytes:
        return b"" if self._request.filtered and seen else honest(self, code, value, seen, want)

    monkeypatch.setattr(Diff, "_difference", lazy)


def claim_everything_with_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Diff._cut

    def boastful(self: Any, cut_bytes: int) -> Iterator[bytes]:
        whole = self._snapshot.get(GLOBAL_VECTOR_KEY)
        for record in honest(self, cut_bytes):
            yield self._request.handshake(whole) if outer_letter(record) == "H" else record

    monkeypatch.setattr(Diff, "_cut", boastful)


@pytest.mark.parametrize(
    "fault",
    [
        forget_the_last_field,
        forget_live_packets_before_v,
        leave_out_what_any_seen_vector_is_known_of,
        claim_everything_with_every_part,
    ],
)
def test_a_replica_that_holds_less_than_it_claims_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(SimulationError, match="differs"):
        for seed in range(40):
            simulate_chotki(seed)
