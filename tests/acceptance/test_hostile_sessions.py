"""Messages that no honest peer sends: they cost their session (or their link), nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance import material, wire
from tests.acceptance.peers import HIGH, LOW, CulmPeer, Lines
from tests.acceptance.stranger import Stranger
from tests.support.p2panda.logs import SCHEMA

logs = material.logs
FRIEND = "05" * 32
KEYS = [f"{number:02x}" * 32 for number in (0, 0x30, 0x60, 0x90, 0xC0, 0xFF)]
# Beyond 2**21 messages of one batch, or a million items of one range, the long form sees the session end.
_MESSAGES = int(os.environ.get("CULM_HOSTILE_MESSAGES", "30000"))
_LIMIT = 2**21


def bound(number: int, log_id: int = 0, seq_num: int = 0) -> list[Any]:
    return [KEYS[number], log_id, seq_num]


def fingerprint(value: bytes, upper: list[Any]) -> wire.Array:
    return [wire.FINGERPRINT, 0, value, upper]


LOWER: wire.Array = [wire.LOWER_BOUND, 0, bound(1)]
END: wire.Array = [wire.TERMINAL, 0]
HOSTILE: dict[str, list[wire.Array]] = {
    "bounds run backwards": [LOWER, *([wire.EMPTY_PAYLOAD, 0, bound(each)] for each in (3, 2, 4, 3))],
    "bounds go round and round": [LOWER, *([wire.DONE, 0, bound(each % 6)] for each in range(1, 60))],
    "a range before any lower bound": [[wire.EMPTY_PAYLOAD, 0, bound(3)]],
    "a fingerprint before any lower bound": [fingerprint(b"\3" + bytes(16), bound(3))],
    "a run that ends before any lower bound": [[wire.PAYLOAD, 0, bound(1, 0, 1), True, bound(2)]],
    "done before any lower bound": [[wire.DONE, 0, bound(3)]],
    "an unknown lift": [LOWER, fingerprint(b"\x63" + bytes(16), bound(1))],
    "no lift at all": [LOWER, fingerprint(b"", bound(1))],
    "a value that is too short": [LOWER, fingerprint(b"\3" + bytes(15), bound(1))],
    "a value that is too long": [LOWER, fingerprint(b"\1" + bytes(9), bound(1))],
    "another lift on the way": [
        LOWER,
        fingerprint(b"\3" + bytes(16), bound(3)),
        fingerprint(b"\2" + bytes(8), bound(1)),
    ],
    "a salt that changes": [
        LOWER,
        fingerprint(b"\4" + bytes(32), bound(3)),
        fingerprint(b"\4" + bytes([1]) * 32, bound(1)),
    ],
    "empty sets without end": [[wire.EMPTY_SET, 0, True]] * 50,
    "empty set false at once": [[wire.EMPTY_SET, 0, False]],
    "terminals without end": [LOWER, *[[wire.TERMINAL, 0]] * 500],
    "lower bounds without end": [LOWER] * 500,
    "an item outside of its range": [
        LOWER,
        [wire.PAYLOAD, 0, bound(5, 0, 1)],
        [wire.PAYLOAD, 0, bound(0, 0, 1), True, bound(2)],
    ],
    "items that do not grow": [
        LOWER,
        [wire.PAYLOAD, 0, bound(1, 9, 1)],
        [wire.PAYLOAD, 0, bound(1, 9, 1)],
        [wire.PAYLOAD, 0, bound(1, 3, 1), True, bound(2)],
    ],
    "a have in the midst": [LOWER, [wire.HAVE, 0, []]],
    "done when nothing was asked": [LOWER, [wire.DONE, 0, bound(1)], [wire.TERMINAL, 0]],
    "a run within a run": [
        LOWER,
        [wire.PAYLOAD, 0, bound(1, 1, 1)],
        fingerprint(b"\3" + bytes(16), bound(2)),
    ],
    "a bound of the highest numbers": [
        LOWER,
        [wire.EMPTY_PAYLOAD, 0, ["ff" * 32, (1 << 64) - 1, (1 << 64) - 1]],
    ],
    "all that was asked is said to be done, thrice": [
        *[LOWER, [wire.DONE, 0, bound(1)], [wire.TERMINAL, 0]] * 3
    ],
}


class Stage:
    """A Culm peer with a hostile remote and a friend who is in live mode."""

    def __init__(self, **arguments: Any) -> None:
        self.friend = Stranger(logs(range(20)), lift="add128", absence=True, live=True)
        self.culm = CulmPeer(Lines(), HIGH, logs(range(30)), **arguments)
        for remote in (LOW, FRIEND):
            self.culm.connect(remote)
            self.culm.receive(remote, wire.encode([wire.ANNOUNCE, 1, 1, [SCHEMA]]))
            self.culm.take(remote)
        data = self.friend.request()
        while data:
            self.culm.receive(FRIEND, data)
            data = self.friend.hear(self.culm.take(FRIEND))
        assert self.culm.count("live") == 1

    def assert_unharmed(self) -> None:
        """The friend still gets what is published, and the hostile one may behave from now on."""
        self.culm.publish(material.log(0), 2)
        self.friend.hear(self.culm.take(FRIEND))
        assert self.friend.held[material.log(0)] == 2
        self.culm.do("disconnect", LOW)
        self.culm.take(LOW)
        self.culm.connect(LOW)
        reformed = Stranger(logs(range(25, 35)), lift="add128", absence=True)
        self.culm.receive(LOW, reformed.announce())
        self.culm.take(LOW)
        data = reformed.request()
        while data:
            self.culm.receive(LOW, data)
            data = reformed.hear(self.culm.take(LOW))
        assert reformed.is_finished and reformed.faults == []
        assert self.culm.held == {**logs(range(35)), material.log(0): 2}
        assert reformed.held == self.culm.held


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("asks", ["stranger", "Culm"])
def test_what_no_honest_peer_sends_costs_its_session_at_most(case: str, asks: str) -> None:
    stage = Stage()
    if asks == "Culm":
        stage.culm.sync(LOW)
        stage.culm.take(LOW)
    else:
        stage.culm.receive(LOW, wire.encode([wire.SYNC_REQUEST, 0, 1, [SCHEMA]]))
    stage.culm.receive(LOW, wire.encode(*HOSTILE[case], END))
    answers = wire.decode(stage.culm.take(LOW))
    assert len(answers) < 2_000, "an answer out of proportion"
    # A remote that goes on regardless, and is silent then: the session does not stay for ever.
    stage.culm.receive(LOW, wire.encode(*HOSTILE[case]))
    stage.culm.take(LOW)
    stage.culm.later(30_000)
    stage.culm.later(60_001)
    stage.culm.take(LOW)
    assert [each for each in stage.culm.sessions(LOW) if each["state"] != "live" and not each["local"]] == []
    stage.assert_unharmed()


REFUSED = (
    "a range before any lower bound",
    "a fingerprint before any lower bound",
    "an unknown lift",
    "no lift at all",
    "a value that is too short",
    "a salt that changes",
)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_ends_the_session_with_a_code(case: str) -> None:
    stage = Stage()
    stage.culm.receive(LOW, wire.encode([wire.SYNC_REQUEST, 0, 1, [SCHEMA]], *HOSTILE[case], END))
    failed = [event for event in stage.culm.events if event["kind"] == "session_failed"]
    assert len(failed) == 1
    assert failed[0]["code"].startswith(("p2panda.", "reconciliation.", "lifts."))
    assert [wire.SYNC_DONE, 0, False] in wire.decode(stage.culm.take(LOW))
    assert stage.culm.sessions(LOW) == []
    stage.assert_unharmed()


def _endless(make: Callable[[int], wire.Array]) -> bool:
    """Send messages of one session until it ends, or until there were enough; returns whether it ended."""
    stage = Stage()
    stage.culm.receive(LOW, wire.encode([wire.SYNC_REQUEST, 0, 1, [SCHEMA]], LOWER))
    part = 10_000
    ended = False
    for start in range(0, _MESSAGES, part):
        data = wire.encode(*(make(start + number) for number in range(part)))
        stage.culm.receive(LOW, data)
        stage.culm.take(LOW)
        ended = stage.culm.count("session_failed") > 0
        if ended:
            break
    assert stage.culm.count("link_failed") == 0
    stage.assert_unharmed()
    return ended


@pytest.mark.slow
def test_a_run_without_end_ends_its_session() -> None:
    ended = _endless(lambda number: [wire.PAYLOAD, 0, [KEYS[1], number, 1]])
    assert ended or _MESSAGES < _LIMIT


@pytest.mark.slow
def test_ranges_without_end_end_their_session() -> None:
    ended = _endless(lambda number: fingerprint(b"\3" + b"x" * 16, [KEYS[1], number + 1, 0]))
    assert ended or _MESSAGES < _LIMIT


def test_batches_without_end_end_their_session() -> None:
    batch = [LOWER, fingerprint(b"\3" + b"x" * 16, bound(1)), END]
    assert _endless(lambda number: batch[number % 3])


ITEMS = st.tuples(st.sampled_from(KEYS), st.integers(0, 2), st.integers(0, 3)).map(list)
VALUES = st.sampled_from([b"\3" + bytes(16), b"\1" + bytes(8), b"\4" + bytes(32), b"", b"\x09"])
MESSAGES = st.one_of(
    st.booleans().map(lambda flag: [wire.EMPTY_SET, 0, flag]),
    ITEMS.map(lambda item: [wire.LOWER_BOUND, 0, item]),
    ITEMS.map(lambda item: [wire.PAYLOAD, 0, item]),
    st.tuples(ITEMS, st.booleans(), ITEMS).map(lambda parts: [wire.PAYLOAD, 0, *parts]),
    ITEMS.map(lambda item: [wire.EMPTY_PAYLOAD, 0, item]),
    ITEMS.map(lambda item: [wire.DONE, 0, item]),
    st.tuples(VALUES, ITEMS).map(lambda parts: [wire.FINGERPRINT, 0, *parts]),
    st.just([wire.TERMINAL, 0]),
    st.booleans().map(lambda flag: [wire.SYNC_DONE, 0, flag]),
    st.just([wire.HAVE, 0, []]),
)


@given(st.lists(MESSAGES, max_size=40), st.booleans())
@settings(max_examples=60)
def test_whatever_is_said_in_whatever_order(messages: list[wire.Array], culm_asks: bool) -> None:
    stage = Stage()
    if culm_asks:
        stage.culm.sync(LOW)
        stage.culm.take(LOW)
    else:
        stage.culm.receive(LOW, wire.encode([wire.SYNC_REQUEST, 0, 1, [SCHEMA]]))
    for message in messages:
        stage.culm.receive(LOW, wire.encode(message))
        stage.culm.take(LOW)
    assert stage.culm.count("link_failed") == 0
    stage.assert_unharmed()
