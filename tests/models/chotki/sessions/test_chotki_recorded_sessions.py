"""Sessions of two Go replicas: their bytes and stores with compat=go, and the same outcome by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY
from culm_models.chotki.packets.packet import outer_letter
from culm_models.chotki.packets.parcels import ParcelReader
from culm_models.chotki.replica import Replica
from culm_models.chotki.sessions.outgoing import OutgoingRecords
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.sync.diff import Diff
from culm_models.testing.chotki.simulator import ChotkiSimulation
from culm_models.testing.errors import SimulationError
from tests.models.chotki.recorded import in_hex, recorded, store_of
from tests.models.chotki.wire import NAME, NOW, Wire, split

SOURCES = {"listener": 0xA, "connector": 0xB}
SESSIONS = ["empty_empty", "full_connector_empty_listener"]


def replicas(name: str, compat: Compat) -> dict[str, Replica]:
    before = recorded(name)["before"]
    return {
        side: Replica(src, store_of(before[side]), compat=compat, seed=7) for side, src in SOURCES.items()
    }


@pytest.mark.parametrize("pieces", [0, 1, 3, 64])
@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_is_the_same_byte_for_byte_with_compat_go(name: str, pieces: int) -> None:
    session = recorded(name)
    both = replicas(name, Compat.GO)
    wire = Wire(both["listener"], both["connector"], pieces).open().run()
    for side, replica in both.items():
        ours = wire.records(replica)
        theirs = split(bytes.fromhex(session["streams"][f"1:{side}"]))
        assert ours[0][:-10] == theirs[0][:-10], "H up to the trace id"
        assert ours[1:] == theirs[1:]
        assert in_hex(replica.store) == session["after"][side]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_ends_with_the_same_stores_by_default(name: str) -> None:
    both = replicas(name, Compat.DEFAULT)
    Wire(both["listener"], both["connector"]).open().run()
    for side, replica in both.items():
        assert in_hex(replica.store) == recorded(name)["after"][side]


def test_one_side_of_two_pings_and_is_answered_as_recorded() -> None:
    session = recorded("ping_one_side")
    settings = {
        "listener": ChotkiSettings(ping_period_ms=1_200, ping_wait_ms=1_000),
        "connector": ChotkiSettings(ping_period_ms=3_600_000, ping_wait_ms=1_000),
    }
    both = {
        side: Replica(src, name=f"replica {src:x}", settings=settings[side], compat=Compat.GO)
        for side, src in SOURCES.items()
    }
    wire = Wire(both["listener"], both["connector"]).open().run()
    pings = sum(record["letter"] == "P" and record["sender"] == "listener" for record in session["records"])
    for number in range(1, pings + 1):
        wire.tick(NOW + number * 1_200)
    for side, replica in both.items():
        ours, theirs = wire.records(replica), split(bytes.fromhex(session["streams"][f"1:{side}"]))
        assert ours[0][:-10] == theirs[0][:-10]
        assert ours[1:] == theirs[1:]
        assert not replica.sessions[NAME].closed


# The code of our refusal of what was sent to a Go replica, None where there is nothing to refuse.
REACTIONS = {
    "batch_mode": None,
    "mode_4": None,
    "extra_in_H": None,
    "bad_byte": "chotki.record",
    "E_ref0": "chotki.reference",
    "O_ref0": "chotki.reference",
    "duplicate": None,
    "own_source_off": "chotki.source_collision",
    "pong_unasked": None,
    "bye_live": None,
}
GO_CODES = REACTIONS | {"own_source_off": "chotki.own_id"}
ROWS = {row["name"]: row for row in recorded("reactions")}


def test_every_recorded_reaction_has_a_row_here() -> None:
    assert set(ROWS) == set(REACTIONS)


def reacted(name: str, compat: Compat) -> tuple[Replica, list[bytes], str | None, dict[str, str]]:
    """The replica, what it sent, the code of its refusal, and what changed in its store."""
    row = ROWS[name]
    replica = Replica(0xA, store_of(row["store_before"]), compat=compat)
    sent = replica.open_session(NAME, NOW).of(NAME)
    code = None
    for record in row["sent"]:
        output = replica.receive(NAME, bytes.fromhex(record["hex"]), NOW + record["at_ms"])
        sent += output.of(NAME)
        for event in output.events_of(NAME):
            code = getattr(event, "code", code)
    after = in_hex(replica.store)
    changes = {key: value for key, value in after.items() if row["store_before"].get(key) != value}
    return replica, sent, code, changes


@pytest.mark.parametrize("name", sorted(REACTIONS))
def test_with_compat_go_diffs_and_changes_are_those_of_the_go_replica(name: str) -> None:
    row = ROWS[name]
    _, sent, code, changes = reacted(name, Compat.GO)
    theirs = [bytes.fromhex(record["hex"]) for record in row["received"] if record["letter"] in "HDV"]
    ours = [record for record in sent if chr(record[0]).upper() in "HDV"]
    assert ours[0][:-10] == theirs[0][:-10]
    assert ours[1:] == theirs[1:]
    assert changes == row["store_changes"]
    assert code == GO_CODES[name]
    if code is not None or name == "batch_mode":
        assert sent[-1].endswith(b"closing")


@pytest.mark.parametrize("name", sorted(REACTIONS))
def test_by_default_what_go_goes_deaf_on_is_refused_with_a_code(name: str) -> None:
    replica, sent, code, changes = reacted(name, Compat.DEFAULT)
    assert code == REACTIONS[name]
    assert replica.sessions[NAME].closed == (code is not None or name == "bye_live")
    if code is not None:
        assert sent[-1].endswith(code.encode())
    assert changes == ({} if name == "mode_4" else ROWS[name]["store_changes"])


# Trees of replicas under faults: runs are not too tame, and a replica that forgets something is found.


def test_sessions_meet_the_syncs_of_others() -> None:
    assert any(ChotkiSimulation(seed).run().refused["chotki.sync_unknown"] for seed in range(40))


def forget_the_last_field(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ParcelReader.slices

    def forgetful(self: Any) -> Iterator[list[tuple[bytes, bytes]]]:
        for fields in honest(self):
            yield fields[:-1]

    monkeypatch.setattr(ParcelReader, "slices", forgetful)


def forget_live_packets_before_v(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = OutgoingRecords.append_live

    def forgetful(self: Any, record: bytes) -> None:
        if self.diff_is_out:
            honest(self, record)

    monkeypatch.setattr(OutgoingRecords, "append_live", forgetful)


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
