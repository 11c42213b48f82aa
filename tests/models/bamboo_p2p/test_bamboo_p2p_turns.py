"""R63: several requests with something to send take turns, each at most 64 KiB of payload a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.peer import GivenEntry
from culm_models.bamboo_p2p.settings import TURN_BYTES, PeerSettings
from culm_models.bamboo_p2p.wire.messages import Eagerness, Propose
from culm_models.conform.bamboo_p2p.codecs import decode_all_data
from culm_models.lzfoo import Decompressor
from tests.models.bamboo_p2p.hand_made import HandMade
from tests.models.bamboo_p2p.logs import AUTHOR, make_log

RAW = PeerSettings(send_window=0)


def asking_for(logs: int, settings: PeerSettings, held: list[tuple[GivenEntry, ...]]) -> HandMade:
    """An end that holds logs 0, 1, …, each asked for as a whole by a request of twice its number."""
    made = HandMade([one for log in held for one in log], settings)
    for number in range(logs):
        made.control(ask(number))
    return made


def ask(number: int, eagerness: Eagerness = Eagerness.ALL) -> Propose:
    """The proposal of one log, open."""
    return Propose(2 * number, AUTHOR.public_key, number, 1, 1, 0, 2**64 - 1, None, eagerness)


def log_of(size: int, log_id: int) -> tuple[GivenEntry, ...]:
    """A log of one entry with so large a payload."""
    return make_log(1, payload=lambda _: bytes(size), log_id=log_id)


def turns(made: HandMade) -> list[list[dict[str, Any]]]:
    """What goes out, one list of messages a turn. No entry of these logs writes a backlink."""
    found = []
    while data := made.end.next_data():
        decoded = decode_all_data(data, YAMF, [])
        assert decoded["used"] == len(data)
        found.append(decoded["messages"])
    return found


def payload_bytes(turn: list[dict[str, Any]]) -> int:
    """How many bytes of payloads a turn stands for."""
    return sum(
        one["length"] if one["type"] == "compressed" else len(one.get("bytes", "")) // 2 for one in turn
    )


LARGE: dict[str, tuple[PeerSettings, Callable[[int], bytes]]] = {
    "raw": (RAW, lambda seq_num: bytes((seq_num,)) * 300_000),
    "compressed": (PeerSettings(), lambda seq_num: bytes((seq_num,)) * 300_000),
    "raw, a row of entries": (RAW, lambda seq_num: bytes((seq_num,)) * 40_000),
    "compressed, a row of entries": (PeerSettings(), lambda seq_num: bytes((seq_num,)) * 40_000),
    "raw, small": (RAW, lambda seq_num: b"%d" % seq_num),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_turn_is_of_one_request_and_of_64_kib_of_payload_at_most(name: str) -> None:
    settings, payload = LARGE[name]
    made = asking_for(2, settings, [make_log(12, payload=payload, log_id=number) for number in range(2)])
    for turn in turns(made):
        assert len([one for one in turn if one["type"] == "switch"]) <= 1
        assert payload_bytes(turn) <= TURN_BYTES


@pytest.mark.parametrize("settings", [RAW, PeerSettings()], ids=["raw", "compressed"])
def test_whoever_has_something_to_send_has_its_turn_before_another_has_a_second(
    settings: PeerSettings,
) -> None:
    sizes = (500_000, 200_000, 10)
    made = asking_for(3, settings, [log_of(size, at) for at, size in enumerate(sizes)])
    switches = [turn[0]["id"] for turn in turns(made) if turn[0]["type"] == "switch"]
    # The small one is through after its first turn; the last of three goes on alone, without a switch.
    assert switches[:7] == [0, 2, 4, 0, 2, 0, 2]


def test_all_of_it_comes_whatever_the_turns_cut() -> None:
    logs = [make_log(3, payload=LARGE["compressed"][1], log_id=number) for number in range(2)]
    made = asking_for(2, PeerSettings(), logs)
    sent: dict[int, bytearray] = {0: bytearray(), 2: bytearray()}
    expander, current = Decompressor(65_536), 0
    for turn in turns(made):
        for one in turn:
            if one["type"] == "switch":
                current = one["id"]
            elif one["type"] == "compressed":
                for plain in expander.feed(bytes.fromhex(one["bytes"]), one["length"]):
                    sent[current] += plain
            elif one["type"] == "raw":
                sent[current] += bytes.fromhex(one["bytes"])
    for number, log in enumerate(logs):
        assert sent[2 * number] == b"".join(one.payload or b"" for one in log)


def test_an_entry_that_comes_meanwhile_waits_for_one_turn_of_a_large_payload() -> None:
    made = HandMade(log_of(1_000_000, 0), RAW)
    made.control(ask(0), ask(1))
    made.end.next_data()
    made.peer.add(make_log(1, log_id=1))
    between = 0
    while not made.end.next_data().startswith(b"\x00\x02"):
        between += 1
    assert between <= 1


def test_a_request_with_nothing_to_send_takes_no_turn() -> None:
    made = asking_for(40, RAW, [log_of(200_000, 0)])
    assert [turn[0]["type"] for turn in turns(made)] == ["switch", "raw", "raw", "raw"]


def test_notifies_of_very_many_pieces_are_cut_into_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culm_models.bamboo_p2p.data_channel.sender._COALESCED", 10)
    made = HandMade([one for number in (0, 1) for one in make_log(50, log_id=number)], RAW)
    made.control(*(ask(number, Eagerness.NOTIFY) for number in (0, 1)))
    pieces = [one["pieces"] for turn in turns(made) for one in turn if one["type"] == "notify"]
    assert max(pieces) <= 10 and sum(pieces) == 200


def test_a_switch_stands_only_where_the_request_is_another_one() -> None:
    made = asking_for(1, RAW, [make_log(4, payload=lambda _: bytes(100_000), log_id=0)])
    said = [one for turn in turns(made) for one in turn if one["type"] == "switch"]
    assert said == [{"type": "switch", "id": 0}]
