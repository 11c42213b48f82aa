"""What each pair of modes sends and applies (reference 4.3)."""

from __future__ import annotations

import itertools

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.events import SyncState
from culm_models.chotki.ids import ZERO_ID
from culm_models.chotki.packets.handshake import LIVE, MODES, READ, WRITE, agree
from culm_models.chotki.replica import Replica
from tests.models.chotki.wire import NAME, NOW, Wire, new_object, values

PAIRS = list(itertools.product(range(8), range(8)))


def connected(mode_a: int, mode_b: int, compat: Compat = Compat.DEFAULT) -> tuple[Replica, Replica, Wire]:
    a, b = Replica(0xA, compat=compat), Replica(0xB, compat=compat)
    new_object(a)
    new_object(b)
    return a, b, Wire(a, b).open(mode_a=mode_a, mode_b=mode_b).run()


def test_the_names_of_modes_are_their_bits() -> None:
    assert {
        name: sum({"r": READ, "w": WRITE, "l": LIVE}[letter] for letter in name) for name in MODES
    } == MODES


@pytest.mark.parametrize(("mode_a", "mode_b"), PAIRS)
def test_a_diff_goes_out_where_one_writes_and_the_other_reads(mode_a: int, mode_b: int) -> None:
    a, b, wire = connected(mode_a, mode_b)
    for replica, own, peer in ((a, mode_a, mode_b), (b, mode_b, mode_a)):
        sends, live = bool(own & WRITE and peer & READ), bool(own & peer & LIVE)
        expected = "HDV" if sends else "H"
        assert wire.letters(replica).removesuffix("B") == expected
        session = wire.session(replica)
        assert (session.sends, session.live) == (sends, live)
        other = wire.session(b if replica is a else a)
        assert other.receives == sends
        assert session.state is (SyncState.LIVE if live else SyncState.NONE)
    if not mode_a & mode_b & LIVE:
        byes = [record for replica in (a, b) for record in wire.records(replica) if record[:1] == b"b"]
        assert byes and all(record.endswith(b"done") for record in byes)
        assert wire.closed == {id(a), id(b)}


@pytest.mark.parametrize(("mode_a", "mode_b"), [pair for pair in PAIRS if pair[0] & pair[1] & LIVE])
def test_live_packets_go_the_same_ways_as_diffs(mode_a: int, mode_b: int) -> None:
    a, b, wire = connected(mode_a, mode_b)
    for replica, other in ((a, b), (b, a)):
        committed = replica.commit("C", ZERO_ID, b"", NOW)
        assert bool(committed.output.of(NAME)) == wire.session(replica).sends
        wire.took(replica, committed.output)
        wire.run()
        assert (other.vector().get(replica.src, 0) == committed.id.pro) == wire.session(other).receives


@pytest.mark.parametrize(("mode_a", "mode_b"), PAIRS)
def test_go_sends_diffs_both_ways_whatever_the_modes_are(mode_a: int, mode_b: int) -> None:
    a, b, wire = connected(mode_a, mode_b, Compat.GO)
    assert values(a) == values(b)
    assert [wire.letters(replica).removesuffix("B") for replica in (a, b)] == ["HDV", "HDV"]
    assert wire.letters(a).endswith("B") == (not mode_a & mode_b & LIVE)
    assert agree(mode_a, mode_b, Compat.GO) == (True, True, bool(mode_a & mode_b & LIVE))


@pytest.mark.parametrize("mode", range(8))
def test_what_a_go_peer_sends_unasked_is_dropped_and_the_session_goes_on(mode: int) -> None:
    a, go = Replica(0xA), Replica(0xB, compat=Compat.GO)
    hub = a.open_session("other", NOW).of("other")
    assert hub
    new_object(go)
    wire = Wire(a, go).open(mode_a=mode, mode_b=7).run()
    packet = go.commit("C", ZERO_ID, b"", NOW)
    wire.took(go, packet.output)
    wire.run()
    unwanted = wire.kinds(a).count("unwanted")
    if mode & READ:
        assert unwanted == 0
        assert go.src in a.vector()
    else:
        assert unwanted == wire.session(a).unwanted
        if mode & LIVE:
            assert unwanted == 3, "D, V and the live packet"
        assert go.src not in a.vector()
        assert wire.session(a).open_syncs == []
    assert "refused" not in wire.kinds(a)


def test_a_tap_leaves_nothing_at_its_peer() -> None:
    a, b = Replica(0xA), Replica(0xB)
    new_object(a, 3)
    before = a.store.values()
    wire = Wire(a, b).open(mode_b=MODES["rl"]).run()
    assert wire.letters(b) == "H"
    assert a.store.values() == before
    assert "sync_opened" not in wire.kinds(a)
    assert set(values(a)) <= set(values(b))
    assert [event.kind for event in wire.events[id(b)] if event.kind == "sync_committed"]


def test_a_one_shot_session_ends_when_both_diffs_are_through() -> None:
    a, b, wire = connected(3, 3)
    assert wire.letters(a) == wire.letters(b) == "HDVB"
    assert values(a) == values(b)
    assert wire.kinds(a)[-1] == "bye"


def test_an_own_one_shot_b_leaves_the_transport_open_for_a_while() -> None:
    a = Replica(0xA)
    a.open_session(NAME, NOW, mode=0)
    h = Replica(0xB).open_session(NAME, NOW, mode=0).of(NAME)[0]
    output = a.receive(NAME, h, NOW)
    assert output.of(NAME)[-1].endswith(b"done")
    assert output.closed == []
    assert a.sessions[NAME].state is SyncState.NONE
    assert a.next_due_ms() == NOW + 1_000
    assert a.tick(NOW + 999).closed == []
    assert a.tick(NOW + 1_000).closed == [NAME]
