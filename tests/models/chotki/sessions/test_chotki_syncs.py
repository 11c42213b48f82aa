"""The receiver of diffs, and the hub that passes them on (reference 4.2); sessions split at every byte."""

from __future__ import annotations

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.events import SessionEvent, SessionRefused
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.packet import PING, PONG, write_bye, write_ping
from culm_models.chotki.packets.parcels import block_vector, write_end, write_parcel
from culm_models.chotki.rdx import check_value, merge, write_vector
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.settings import ChotkiSettings
from tests.models.chotki.recorded import in_hex, recorded, store_of
from tests.models.chotki.wire import NAME, NOW, TRACE, letters, new_object, split, text

PEER, BEHIND = Id(0xB, 3), Id(0xC, 3)
KEY = bytes.fromhex("4f000000000000000c000000000000000153")
VALUE = text("S", "name")[2:]


def h(t: Id = PEER, mode: int = 7) -> bytes:
    return write_handshake(t, mode, write_vector({t.src: t.pro}), TRACE)


def d(t: Id = BEHIND) -> bytes:
    return write_parcel(t, Id(0xC, 0), [(KEY, VALUE)])


def v(t: Id = BEHIND) -> bytes:
    return write_end(t, [block_vector(Id(0xC, 0), write_vector({0xC: 3}))])


def hub(*names: str, **settings: int) -> Replica:
    """A replica with live sessions under these names: peers of the sources b, 1000, 1001 and so on."""
    replica = Replica(0xA, settings=ChotkiSettings(**settings))  # type: ignore[arg-type]
    for number, name in enumerate((NAME, *names)):
        replica.open_session(name, NOW)
        peer = PEER if name == NAME else Id(0x1000 + number, 0)
        replica.receive(name, h(peer) + write_end(peer, []), NOW)
    return replica


def code(output: Output) -> str | None:
    return next((event.code for _, event in output.events if isinstance(event, SessionRefused)), None)


def kinds(output: Output) -> list[str]:
    return [event.kind for _, event in output.events if event.kind != "state"]


def test_nothing_of_a_sync_is_visible_before_its_v_and_then_all_of_it() -> None:
    replica = hub()
    before = replica.store.values()
    replica.receive(NAME, h(BEHIND) + d(), NOW)
    assert replica.store.values() == before
    assert [str(sync.t) for sync in replica.sessions[NAME].open_syncs] == ["c-0-3"]
    output = replica.receive(NAME, v(), NOW)
    (committed,) = [event for _, event in output.events if event.kind == "sync_committed"]
    assert (committed.fields, committed.blocks) == (1, 1)  # type: ignore[attr-defined]
    assert replica.store.get(KEY) == VALUE
    assert replica.vector()[0xC] == 3
    assert replica.sessions[NAME].open_syncs == []


def test_a_lost_connection_keeps_nothing_of_an_open_sync() -> None:
    replica = hub()
    before = replica.store.values()
    replica.receive(NAME, h(BEHIND) + d(), NOW)
    assert kinds(replica.lose_session(NAME, NOW)) == ["lost"]
    assert replica.store.values() == before
    replica.open_session(NAME, NOW)
    assert code(replica.receive(NAME, h() + d(), NOW)) == "chotki.sync_unknown"


def test_an_h_with_the_t_of_an_open_sync_replaces_it() -> None:
    replica = hub()
    replica.receive(NAME, h(BEHIND) + d() + h(BEHIND) + write_end(BEHIND, []), NOW)
    assert replica.store.get(KEY) is None
    assert replica.vector()[0xC] == 3


def test_several_syncs_are_told_apart_by_their_t() -> None:
    replica = hub()
    other = Id(0xD, 3)
    output = replica.receive(NAME, h(BEHIND) + h(other) + d(other) + d() + write_end(other, []) + v(), NOW)
    assert code(output) is None
    assert {0xC, 0xD} <= set(replica.vector())


def test_the_diffs_of_a_sync_have_a_bound() -> None:
    size = len(d())
    replica = hub(max_sync_bytes=2 * size)
    assert code(replica.receive(NAME, h(BEHIND) + d() * 2, NOW)) is None
    assert code(replica.receive(NAME, d(), NOW)) == "chotki.sync_bytes"


def test_open_syncs_have_a_bound() -> None:
    replica = hub(max_open_syncs=3)
    several = [Id(0xD0 + number, 3) for number in range(4)]
    assert code(replica.receive(NAME, b"".join(map(h, [*several[:3], several[0]])), NOW)) is None
    assert code(replica.receive(NAME, h(several[3]), NOW)) == "chotki.sync_count"


def test_the_peers_own_sync_expires_from_its_last_parcel_and_ends_the_session() -> None:
    replica = Replica(0xA, settings=ChotkiSettings(sync_expiry_ms=500))
    replica.open_session(NAME, NOW)
    replica.receive(NAME, h(), NOW)
    replica.receive(NAME, d(PEER), NOW + 400)
    assert replica.next_due_ms() == NOW + 900
    assert code(replica.tick(NOW + 899)) is None
    assert code(replica.tick(NOW + 900)) == "chotki.sync_expired"


def test_a_forwarded_sync_that_expires_is_dropped_and_what_still_comes_for_it_refused() -> None:
    replica = hub(sync_expiry_ms=500)
    replica.receive(NAME, h(BEHIND) + d(), NOW)
    output = replica.tick(NOW + 500)
    (dropped,) = [event for _, event in output.events if event.kind == "sync_dropped"]
    assert (str(dropped.t), dropped.code) == ("c-0-3", "chotki.sync_expired")  # type: ignore[attr-defined]
    assert output.closed == []
    assert code(replica.receive(NAME, v(), NOW + 500)) == "chotki.sync_unknown"
    assert replica.store.get(KEY) is None


def test_a_hub_passes_on_what_it_took_unchanged_and_neither_p_nor_b() -> None:
    replica = hub("x", "y")
    live = Replica(0xB).commit("C", ZERO_ID, b"", NOW).packet
    data = [h(BEHIND), d(), v(), live, write_ping(PING), write_bye(PEER, "done")]
    output = replica.receive(NAME, b"".join(data), NOW)
    assert output.of("x") == output.of("y") == data[:4]
    assert output.of(NAME) == [write_ping(PONG)]


def test_a_hub_passes_nothing_on_that_it_refused_or_dropped() -> None:
    replica = hub("x")
    assert replica.receive(NAME, d(), NOW).of("x") == []
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    replica.open_session("x", NOW)
    replica.receive("x", h(Id(0xD, 0)), NOW)
    live = Replica(0xB).commit("C", ZERO_ID, b"", NOW).packet
    output = replica.receive(NAME, h(mode=5) + h(BEHIND) + d() + v() + live, NOW)
    assert kinds(output) == ["handshake", "unwanted", "unwanted", "unwanted", "unwanted"]
    assert output.of("x") == []


def test_what_is_passed_on_waits_for_the_own_v_and_comes_behind_it() -> None:
    replica = hub()
    replica.open_session("x", NOW)
    live = Replica(0xB).commit("C", ZERO_ID, b"", NOW).packet
    own = replica.commit("C", ZERO_ID, b"", NOW)
    assert replica.receive(NAME, h(BEHIND) + d() + v() + live, NOW).of("x") == []
    output = replica.receive("x", h(Id(0xD, 0)), NOW)
    assert letters(output.of("x")) == "DDVCHDVC"
    assert output.of("x")[3:] == [own.packet, h(BEHIND), d(), v(), live]
    # The diff is that of the moment at which the connection opened.
    assert own.id.zip() not in b"".join(output.of("x")[:3])


@pytest.mark.parametrize("mode", [0, 3, 5, 6])
def test_a_peer_that_is_not_live_or_does_not_read_gets_nothing_passed_on(mode: int) -> None:
    replica = hub()
    replica.open_session("x", NOW)
    replica.commit("C", ZERO_ID, b"", NOW)
    replica.receive("x", h(Id(0xD, 0), mode), NOW)
    sent = replica.receive(NAME, h(BEHIND) + d() + v(), NOW).of("x")
    assert letters(sent) == ("HDV" if mode == 5 else "")


def test_an_own_sync_that_comes_round_is_dropped_and_told_of() -> None:
    replica, own = hub("x"), Id(0xA, 3)
    output = replica.receive(NAME, h(own) + d(own) + v(own), NOW)
    assert kinds(output) == ["loop"] * 3
    assert output.of("x") == []
    assert replica.store.get(KEY) is None
    go = Replica(0xA, compat=Compat.GO)
    go.open_session(NAME, NOW)
    assert kinds(go.receive(NAME, h() + h(own) + d(own) + v(own), NOW))[-1] == "sync_committed"


def outcome(data: list[bytes], compat: Compat) -> tuple[str, dict[str, str], list[SessionEvent]]:
    """What a replica sends in all, holds in the end and reports, when a stream comes in these reads."""
    session = recorded("full_connector_empty_listener")
    replica = Replica(0xA, store_of(session["before"]["listener"]), compat=compat)
    sent = replica.open_session(NAME, NOW, trace=TRACE).of(NAME)
    events: list[SessionEvent] = []
    for chunk in data:
        output = replica.receive(NAME, chunk, NOW)
        sent += output.of(NAME)
        events += [event for event in output.events_of(NAME) if event.kind != "state"]
    return b"".join(sent).hex(), in_hex(replica.store), events


def streams() -> list[bytes]:
    """A recorded session with live packets and a ping behind it, ended by B, by a refusal, or unfinished."""
    stream = bytes.fromhex(recorded("full_connector_empty_listener")["streams"]["1:connector"])
    peer = Replica(0xC)
    new_object(peer)
    live = peer.commit("E", Id.make(0xC, 2), b"1\x01" + text("S", "edited", rev=1), NOW).packet
    whole = stream + live + write_ping(PING) + live
    return [whole + write_bye(PEER, "closing") + live, whole + b"\0", stream[:-17] + v(Id(0xFF, 1)) + live]


@pytest.mark.parametrize("compat", list(Compat))
@pytest.mark.parametrize("number", range(3))
def test_a_session_split_at_every_byte_is_the_same(number: int, compat: Compat) -> None:
    stream = streams()[number]
    expected = outcome([stream], compat)
    assert outcome([stream[position : position + 1] for position in range(len(stream))], compat) == expected
    for cut in range(1, len(stream)):
        assert outcome([stream[:cut], stream[cut:]], compat) == expected
    assert split(bytes.fromhex(expected[0]))


@pytest.mark.parametrize("letter", sorted("COYFIRSTNZELM"))
def test_a_checked_value_alone_is_kept_as_it_is_and_is_what_its_merge_gives(letter: str) -> None:
    values = {
        "O": "0c000010",
        "Y": "",
        "C": "7406310253004e61",
        "N": "7403320c0b740332050c",
        "M": "730130730130",
    }
    plain = {"Z": "690432020b0d", "E": "730230787302307a", "L": "730230787302307a"}
    value = bytes.fromhex({**values, **plain}.get(letter, "32020b41"))
    check_value(letter, value)
    assert merge(letter, [value]) == value
