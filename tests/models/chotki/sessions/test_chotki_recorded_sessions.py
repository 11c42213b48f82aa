"""Sessions of two Go replicas: their bytes and stores with compat=go, and the same outcome by default."""

from __future__ import annotations

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.replica import Replica
from culm_models.chotki.settings import ChotkiSettings
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
    pings = sum(one["letter"] == "P" and one["sender"] == "listener" for one in session["records"])
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
    for one in row["sent"]:
        output = replica.receive(NAME, bytes.fromhex(one["hex"]), NOW + one["at_ms"])
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
    theirs = [bytes.fromhex(one["hex"]) for one in row["received"] if one["letter"] in "HDV"]
    ours = [one for one in sent if chr(one[0]).upper() in "HDV"]
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
