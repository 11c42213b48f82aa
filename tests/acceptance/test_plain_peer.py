"""A plain peer of the specification opposite Culm in mode 1, whoever asks (replication 2.1, 2.2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance import material, wire
from tests.acceptance.material import Holding
from tests.acceptance.peers import HIGH, LOW, CulmPeer, Lines
from tests.acceptance.stranger import Stranger
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA

logs = material.logs

HOLDINGS: dict[str, tuple[Holding, Holding]] = {
    "both empty": ({}, {}),
    "only the stranger holds": (logs(range(5)), {}),
    "only Culm holds": ({}, logs(range(5))),
    "one each, the same": (logs([1]), logs([1])),
    "one each, another": (logs([1]), logs([2])),
    "equal": (logs(range(30)), logs(range(30))),
    "disjoint": (logs(range(0, 60, 2)), logs(range(1, 60, 2))),
    "nested in Culm": (logs(range(10, 20)), logs(range(40))),
    "nested in the stranger": (logs(range(40)), logs(range(10, 20))),
    "grown at Culm": (logs(range(20)), logs(range(20), 3)),
    "grown at the stranger": (logs(range(20), 3), logs(range(20))),
    "one differs": (logs(range(50)), material.union(logs(range(50)), logs([17], 2))),
    "everything at once": (
        {**logs(range(0, 30)), **logs(range(30, 40), 3), **logs(range(50, 55), 2)},
        {**logs(range(20, 40)), **logs(range(20, 25), 3), **logs(range(60, 70), 2)},
    ),
}

STRANGERS: dict[str, dict[str, Any]] = {
    "without a lift": {},
    "without a lift, resending what matched": {"literal": True},
    "with gaps": {"gaps": True},
    "sends entries at once for an empty set": {"empty_set": "entries"},
    "add128": {"lift": "add128", "absence": True},
    "add128, leaf by leaf": {"lift": "add128", "absence": True, "threshold": 1, "division": 2},
    "add128, whole items as bounds": {"lift": "add128", "absence": True, "whole_bounds": True},
    "add128, large leaves": {"lift": "add128", "absence": True, "threshold": 16, "division": 16},
    "xor64": {"lift": "xor64", "absence": True},
    "add64": {"lift": "add64", "absence": True},
}


class Meeting:
    """A stranger and a Culm peer on one link."""

    def __init__(self, stranger: Stranger, culm: Holding, **arguments: Any) -> None:
        self.stranger = stranger
        self.culm = CulmPeer(Lines(), HIGH, culm, **arguments)
        self.culm.connect(LOW)
        self.culm.receive(LOW, stranger.announce())
        self.culm.take(LOW)

    def settle(self, data: bytes = b"", most_turns: int = 200) -> None:
        """Carry everything, the stranger's bytes first, until nothing moves."""
        for _ in range(most_turns):
            if data:
                self.culm.receive(LOW, data)
            answer = self.culm.take(LOW)
            if not answer:
                return
            data = self.stranger.hear(answer)
        raise AssertionError("no end")


@pytest.mark.parametrize("case", HOLDINGS)
@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("asks", ["stranger", "Culm"])
def test_both_end_with_everything(case: str, kind: str, asks: str) -> None:
    theirs, ours = HOLDINGS[case]
    stranger = Stranger(dict(theirs), **STRANGERS[kind])
    meeting = Meeting(stranger, ours)
    if asks == "stranger":
        meeting.settle(stranger.request())
    else:
        meeting.culm.sync(LOW)
        meeting.settle()
    wanted = material.union(theirs, ours)
    assert stranger.faults == []
    assert meeting.culm.held == wanted
    assert stranger.held == wanted
    assert stranger.is_finished
    assert meeting.culm.count("session_done") == 1
    assert meeting.culm.count("session_failed") == 0
    assert meeting.culm.sessions(LOW) == []
    assert meeting.culm.count("rejected") == 0


@pytest.mark.parametrize("asks", ["stranger", "Culm"])
def test_equal_sets_send_no_entry(asks: str) -> None:
    stranger = Stranger(logs(range(100)), lift="add128", absence=True)
    meeting = Meeting(stranger, logs(range(100)))
    if asks == "stranger":
        meeting.settle(stranger.request())
    else:
        meeting.culm.sync(LOW)
        meeting.settle()
    assert stranger.is_finished
    assert [message for message in stranger.heard if message[0] == wire.ENTRY] == []
    assert meeting.culm.count("duplicate") == 0


@pytest.mark.parametrize("live", [True, False])
def test_live_mode_only_if_both_want_it(live: bool) -> None:
    stranger = Stranger(logs([1, 2]), lift="add128", absence=True, live=live)
    meeting = Meeting(stranger, logs([2, 3]))
    meeting.settle(stranger.request())
    assert meeting.culm.count("live") == int(live)
    assert meeting.culm.count("session_done") == int(not live)
    meeting.culm.publish(material.log(3), 2)
    meeting.settle()
    assert stranger.held.get(material.log(3)) == (2 if live else 1)
    assert stranger.faults == []
    if live:
        meeting.settle(wire.encode([wire.SYNC_DONE, 0, False]))
        assert meeting.culm.count("session_done") == 1


def test_an_empty_set_gets_every_entry_of_the_requested_schemas_alone() -> None:
    holding = {**logs(range(12), 2), **material.other_logs(range(7))}
    stranger = Stranger({}, (SCHEMA, OTHER_SCHEMA))
    meeting = Meeting(stranger, holding, schema_ids=[SCHEMA, OTHER_SCHEMA])
    meeting.settle(stranger.request(schema_ids=[OTHER_SCHEMA]))
    assert stranger.held == material.other_logs(range(7))
    assert stranger.repeated == 0 and stranger.faults == []
    kinds = [message[0] for message in stranger.heard]
    assert kinds[-1] == wire.SYNC_DONE and kinds.count(wire.SYNC_DONE) == 1
    assert wire.TERMINAL in kinds


def test_two_empty_sets_end_with_empty_set_false() -> None:
    stranger = Stranger({})
    meeting = Meeting(stranger, {})
    meeting.settle(stranger.request())
    assert [message for message in stranger.heard if message[0] == wire.EMPTY_SET] == [
        [wire.EMPTY_SET, 0, False]
    ]
    assert stranger.is_finished


def test_a_stranger_of_log_height_mode_alone_is_served_in_it() -> None:
    stranger = Stranger(logs(range(6)), modes=(0,))
    meeting = Meeting(stranger, logs(range(3, 9)))
    meeting.settle(stranger.request(mode=0))
    assert stranger.held == meeting.culm.held == logs(range(9))
    assert stranger.faults == [] and stranger.is_finished


FALL_BACK: dict[str, Any] = {"settings": {"auto_sync": True}, "modes": [1, 0]}


def offering(**settings: Any) -> Stranger:
    """A stranger of log height mode alone that announces, wrongly, that it speaks mode 1."""
    offer = "culm_offers_0020" + bytes([1, 0b11, 0, 0, 0b1110]).hex() + "00" * 27
    return Stranger(logs(range(6)), (SCHEMA, offer), modes=(0,), **settings)


def test_mode_1_is_asked_for_by_itself_only_where_it_is_offered() -> None:
    plain, offers = Stranger({}, modes=(0,)), offering()
    modes = []
    for stranger in (plain, offers):
        culm = CulmPeer(Lines(), HIGH, logs(range(3)), **FALL_BACK)
        culm.connect(LOW, dialled=True)
        culm.receive(LOW, stranger.announce())
        modes += [message[2] for message in wire.decode(culm.take(LOW)) if message[0] == wire.SYNC_REQUEST]
    assert modes == [0, 1]


@pytest.mark.parametrize("answer", ["nothing", "a SyncDone"])
def test_where_mode_1_does_not_work_log_height_mode_follows(answer: str) -> None:
    stranger = offering()
    culm = CulmPeer(Lines(), HIGH, logs(range(3, 9)), **FALL_BACK)
    culm.connect(LOW, dialled=True)
    culm.receive(LOW, stranger.announce())
    request = next(message for message in wire.decode(culm.take(LOW)) if message[0] == wire.SYNC_REQUEST)
    assert request[2] == 1
    if answer == "a SyncDone":
        culm.receive(LOW, wire.encode([wire.SYNC_DONE, request[1], False]))
    for _ in range(30):
        for _ in range(20):
            data = stranger.hear(culm.take(LOW))
            if data:
                culm.receive(LOW, data)
        culm.later(10_000)
    assert stranger.held == culm.held == logs(range(9))
    assert stranger.faults == []
