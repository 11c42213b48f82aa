"""Trees of replicas under faults: runs are not too tame, and a replica that forgets something is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY
from culm_models.chotki.packets.packet import outer_letter
from culm_models.chotki.packets.parcels import ParcelReader
from culm_models.chotki.sessions.outgoing import Outgoing
from culm_models.chotki.sync.diff import Diff
from culm_models.testing.chotki.simulator import ChotkiSimulation
from culm_models.testing.errors import SimulationError


def test_sessions_meet_the_syncs_of_others() -> None:
    assert any(ChotkiSimulation(seed).run().refused["chotki.sync_unknown"] for seed in range(40))


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
            ChotkiSimulation(seed).run()
