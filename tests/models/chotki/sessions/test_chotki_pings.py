"""Pings, silence, deafness and the end of a session (reference 4.4)."""

from __future__ import annotations

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.events import SessionRefused, SyncState
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import PING, PONG, read_bye, write_bye, write_ping
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.tlv import long_record, record
from tests.models.chotki.wire import NAME, NOW, Wire, letters

PERIOD, WAIT, CHECK, DEAF = 20_000, 10_000, 60_000, 30_000


def live(**settings: int) -> Replica:
    """A replica whose peer's handshake and V came at `NOW`."""
    replica = Replica(0xA, settings=ChotkiSettings(**settings))  # type: ignore[arg-type]
    replica.open_session(NAME, NOW)
    peer = Replica(0xB, compat=Compat.GO)
    h = peer.open_session(NAME, NOW).of(NAME)
    diff = peer.receive(NAME, Replica(0xA).open_session(NAME, NOW).of(NAME)[0], NOW).of(NAME)
    replica.receive(NAME, b"".join(h + diff), NOW)
    assert replica.sessions[NAME].state is SyncState.LIVE
    return replica


def code(output: Output) -> str | None:
    return next((event.code for _, event in output.events if isinstance(event, SessionRefused)), None)


def states(output: Output) -> list[str]:
    return [event.state.value for _, event in output.events if event.kind == "state"]  # type: ignore[attr-defined]


def a_change(number: int) -> bytes:
    return write_live("C", Id.make(0xB, number), ZERO_ID, b"")


def test_a_ping_is_due_after_silence_and_not_before() -> None:
    replica = live()
    assert replica.next_due_ms() == NOW + PERIOD
    assert replica.tick(NOW + PERIOD - 1).sends == {}
    output = replica.tick(NOW + PERIOD)
    assert output.of(NAME) == [bytes.fromhex("70053070696e67")]
    assert states(output) == ["SendPing", "SendLive"]
    assert replica.tick(NOW + PERIOD + 1).sends == {}, "one ping at a time"


@pytest.mark.parametrize("answer", [write_ping(PONG), write_ping(PING), a_change(1)])
def test_any_record_is_an_answer_to_a_ping(answer: bytes) -> None:
    replica = live()
    replica.tick(NOW + PERIOD)
    replica.receive(NAME, answer, NOW + PERIOD + WAIT - 1)
    assert code(replica.tick(NOW + PERIOD + WAIT)) is None
    assert letters(replica.tick(NOW + PERIOD + WAIT - 1 + PERIOD).of(NAME)) == "P"


def test_a_ping_without_an_answer_ends_the_session() -> None:
    replica = live()
    replica.tick(NOW + PERIOD)
    assert code(replica.tick(NOW + PERIOD + WAIT - 1)) is None
    output = replica.tick(NOW + PERIOD + WAIT)
    assert code(output) == "chotki.ping_timeout"
    assert read_bye(output.of(NAME)[0]) == "chotki.ping_timeout"
    assert output.closed == [NAME]


def test_pings_that_cross_are_both_answered_and_nobody_waits_on() -> None:
    a, b = Replica(0xA), Replica(0xB)
    wire = Wire(a, b).open().run()
    for number in range(1, 20):
        wire.tick(NOW + number * PERIOD)
        assert wire.letters(a)[3:] == wire.letters(b)[3:] == "PP" * number
        assert wire.tick(NOW + number * PERIOD + WAIT).letters(a)[3:] == "PP" * number
    assert wire.closed == set()


def test_all_pings_of_one_read_get_one_pong() -> None:
    replica = live()
    assert replica.receive(NAME, write_ping(PING) * 3, NOW).of(NAME) == [write_ping(PONG)]
    assert replica.receive(NAME, bytes.fromhex("7006740070696e67"), NOW).of(NAME) == [write_ping(PONG)]
    assert replica.receive(NAME, write_ping(PONG) + write_ping(b"what?"), NOW).of(NAME) == []


def test_a_peer_that_writes_and_never_answers_is_deaf() -> None:
    replica = live()
    at, pings = NOW, []
    while at < NOW + CHECK + DEAF:
        at += 5_000
        output = replica.receive(NAME, a_change(at), at)
        assert output.of(NAME) == []
        output = replica.tick(at)
        pings += [at] * letters(output.of(NAME)).count("P")
        if code(output):
            break
    assert pings == [NOW + CHECK]
    assert at == NOW + CHECK + DEAF
    assert code(output) == "chotki.deaf"


def test_a_pong_within_the_wait_shows_that_the_peer_hears() -> None:
    replica = live()
    for at in range(NOW, NOW + 10 * CHECK, 5_000):
        output = replica.receive(NAME, a_change(at), at)
        output = replica.tick(at)
        assert code(output) is None
        if output.of(NAME):
            replica.receive(NAME, write_ping(PONG), at + DEAF - 1)


def test_a_peer_in_the_middle_of_its_diff_is_not_deaf() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    peer = Replica(0xB)
    replica.receive(NAME, peer.open_session(NAME, NOW).of(NAME)[0], NOW)
    parcel = long_record("D", record("T", peer.last_id.zip()), record("R", b"\x0b"))
    for at in range(NOW, NOW + 10 * CHECK, 7_000):
        # Half a record now, the other half a little later.
        replica.receive(NAME, parcel[:9], at)
        replica.receive(NAME, parcel[9:], at + 1_000)
        assert code(replica.tick(at + 1_000)) is None


def test_a_handshake_that_does_not_come_ends_the_session() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    assert replica.next_due_ms() == NOW + WAIT
    assert replica.tick(NOW + WAIT - 1).sends == {}
    output = replica.tick(NOW + WAIT)
    assert code(output) == "chotki.handshake_timeout"
    assert letters(output.of(NAME)) == "B"


def test_a_session_that_is_not_live_pings_nobody() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW, mode=3)
    replica.receive(NAME, Replica(0xB).open_session(NAME, NOW).of(NAME)[0], NOW)
    assert replica.tick(NOW + 10 * CHECK - 1).sends == {}


@pytest.mark.parametrize(
    ("bye", "reason"),
    [
        (write_bye(Id(0xB, 3), "closing"), "closing"),
        (write_bye(Id(0xB, 1 << 50), "closing"), "closing"),
        (record("B", record("T", b"\x0b"), b"short form"), "short form"),
        (record("B", b"no T at all"), "no T at all"),
        (record("B"), ""),
        (record("B", b"\xff\xfe"), "\ufffd\ufffd"),
        (record("B", b"9"), "9"),
        (long_record("B", record("t"), b"x" * 1_000), "x" * 256),
    ],
)
def test_a_b_of_any_form_is_the_end_and_is_not_answered(bye: bytes, reason: str) -> None:
    replica = live()
    output = replica.receive(NAME, bye + a_change(1), NOW)
    assert output.of(NAME) == []
    assert output.closed == [NAME]
    assert [event.reason for event in output.events_of(NAME) if event.kind == "bye"] == [reason]  # type: ignore[attr-defined]
    assert replica.sessions[NAME].state is SyncState.NONE
    assert replica.vector().get(0xB, 0) == 3, "what follows B is not looked at"


def test_the_t_of_a_b_is_left_empty_when_it_is_no_tiny_record() -> None:
    assert write_bye(Id(0xB, 3), "done").hex() == "6207320b03646f6e65"
    assert write_bye(Id(1 << 40, 1 << 50), "done").hex() == "620530646f6e65"


def test_a_b_in_the_read_of_the_handshake_leaves_time_for_the_whole_diff() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    h = Replica(0xB).open_session(NAME, NOW).of(NAME)[0]
    end = long_record("V", record("T", Replica(0xB).last_id.zip()))
    output = replica.receive(NAME, h + end + write_bye(Id(0xB, 3), "closing"), NOW)
    assert letters(output.of(NAME)) == "DV"
    assert output.closed == [NAME]


def test_the_local_end_says_so_and_with_compat_go_only_closing() -> None:
    for compat, reason in ((Compat.DEFAULT, "shutdown"), (Compat.GO, "closing")):
        replica = Replica(0xA, compat=compat)
        replica.open_session(NAME, NOW)
        output = replica.close_session(NAME, NOW)
        assert read_bye(output.of(NAME)[0]) == reason
        assert states(output) == ["SendEOF", "SendNone"]
        assert replica.close_session(NAME, NOW).sends == {}


def test_a_pong_goes_before_the_rest_of_a_diff_that_has_begun() -> None:
    replica = Replica(0xA, settings=ChotkiSettings(max_parcel_bytes=1))
    replica.open_session(NAME, NOW)
    session = replica.sessions[NAME]
    session.receive(Replica(0xB).open_session(NAME, NOW).of(NAME)[0], NOW)
    assert letters(session.take(NOW, 1)) == "D"
    session.receive(write_ping(PING), NOW)
    assert letters(session.take(NOW, 1)) == "P"
    assert letters(session.take(NOW)) == "DDDV"
    assert session.state is SyncState.LIVE


def test_a_refusal_ends_a_diff_that_has_begun() -> None:
    replica = Replica(0xA, settings=ChotkiSettings(max_parcel_bytes=1))
    replica.open_session(NAME, NOW)
    session = replica.sessions[NAME]
    session.receive(Replica(0xB).open_session(NAME, NOW).of(NAME)[0], NOW)
    session.take(NOW, 1)
    session.receive(b"\0", NOW)
    assert letters(session.take(NOW)) == "B"
