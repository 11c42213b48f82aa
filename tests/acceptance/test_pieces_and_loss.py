"""The wire in any pieces, and a wire that breaks anywhere: the next session repairs all."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.acceptance import material, wire
from tests.acceptance.peers import HIGH, LOW, CulmPeer, Lines, Link
from tests.acceptance.stranger import Stranger
from tests.acceptance.test_plain_peer import Meeting
from tests.support.p2panda.logs import SCHEMA

logs = material.logs
SETTINGS: list[dict[str, Any]] = [{}, {"announce_offers": True}]


def fresh(settings: dict[str, Any], scale: int = 1) -> Link:
    low = {**logs(range(6 * scale)), **logs(range(6 * scale, 8 * scale), 3)}
    high = {**logs(range(4 * scale, 8 * scale)), **logs(range(8 * scale, 10 * scale), 2)}
    return Link(low, high, settings=settings)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 1_000])
def test_pieces_of_any_size_are_the_same_conversation(step: int, mode: int, settings: dict[str, Any]) -> None:
    conversations = []
    for size in (None, step):
        link = fresh(settings)
        link.connect()
        link.low.sync(HIGH, mode)
        link.settle(size)
        link.assert_equal()
        conversations.append({peer: [m for who, m in link.said if who == peer] for peer in (LOW, HIGH)})
    assert conversations[0] == conversations[1]


@pytest.mark.parametrize("mode", [0, 1])
def test_every_message_may_come_in_two_pieces_cut_at_every_byte(mode: int) -> None:
    stranger = Stranger(logs(range(3)), lift="add128", absence=True)
    data = stranger.announce() + stranger.request(mode=mode)
    answers = set()
    for cut in range(len(data) + 1):
        culm = CulmPeer(Lines(), HIGH, logs(range(2, 5)))
        culm.connect(LOW)
        culm.receive(LOW, data[:cut])
        culm.receive(LOW, data[cut:])
        answers.add(culm.take(LOW))
        assert culm.count("session_started") == 1
    assert len(answers) == 1


def _message_count(mode: int, settings: dict[str, Any]) -> int:
    link = fresh(settings)
    link.connect()
    before = len(link.said)
    link.low.sync(HIGH, mode)
    link.settle()
    return len(link.said) - before


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("asks_again", ["the same", "the other"])
def test_a_link_that_breaks_after_any_message_costs_nothing_for_ever(
    mode: int, settings: dict[str, Any], asks_again: str
) -> None:
    for broken_after in range(_message_count(mode, settings)):
        link = fresh(settings)
        link.connect()
        link.low.sync(HIGH, mode)
        link.settle(most_messages=broken_after)
        link.cut()
        assert link.low.sessions(HIGH) == link.high.sessions(LOW) == []
        link.connect()
        peer, other = link.sides[asks_again == "the other"]
        peer.sync(other.peer_id, mode)
        link.settle()
        link.assert_equal()
        for each in (link.low, link.high):
            assert each.count("rejected") == each.count("link_failed") == 0


@pytest.mark.parametrize("mode", [0, 1])
def test_a_link_that_breaks_within_a_message_costs_nothing_for_ever(mode: int) -> None:
    """Cut in the bytes of each direction; every 23rd place, so that all kinds of places come up."""
    stranger = Stranger(logs(range(3), 2), lift="add128", absence=True)
    whole = Meeting(stranger, logs(range(2, 5)))
    whole.culm.sync(LOW, mode)
    spoken = whole.culm.take(LOW)
    answer = stranger.hear(spoken)
    for cut in range(1, len(answer), 23):
        again = Stranger(logs(range(3), 2), lift="add128", absence=True)
        meeting = Meeting(again, logs(range(2, 5)))
        meeting.culm.sync(LOW, mode)
        again.hear(meeting.culm.take(LOW))
        meeting.culm.receive(LOW, answer[:cut])
        meeting.culm.take(LOW)
        meeting.culm.do("disconnect", LOW)
        meeting.culm.take(LOW)
        meeting.culm.connect(LOW)
        meeting.culm.receive(LOW, again.announce())
        meeting.culm.take(LOW)
        meeting.settle(again.request(mode=mode))
        assert meeting.culm.held == again.held == {**logs(range(3), 2), **logs(range(3, 5))}
        assert again.faults == []


def test_a_peer_behind_a_process_says_what_one_in_this_process_says() -> None:
    """`culm conform` as a program: the same lines, the same answers."""
    stranger = Stranger(logs(range(9)), lift="add128", absence=True)
    opened = {"name": "p", "peer_id": HIGH, "schema_ids": [SCHEMA], "entries": material.as_json(logs([1]))}
    messages_hex = (stranger.announce() + stranger.request()).hex()
    asked: list[dict[str, Any]] = [
        {"do": "p2panda.peer.open", **opened, "now": 1},
        {"do": "p2panda.peer.connect", "name": "p", "remote_peer_id": LOW, "now": 1},
        {"do": "p2panda.peer.receive", "name": "p", "remote_peer_id": LOW, "bytes": messages_hex, "now": 1},
        {"do": "p2panda.peer.state", "name": "p"},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "culm_infra", "conform"],
        input="".join(json.dumps(line) + "\n" for line in asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = Lines()
    here = [lines.ok(line.pop("do"), **line) for line in asked]
    assert [json.loads(line)["ok"] for line in done.stdout.splitlines()] == here
    assert wire.decode(bytes.fromhex(here[2]["send"]))[0][:2] in ([wire.LOWER_BOUND, 0], [wire.PAYLOAD, 0])
