"""R63: several requests with something to send take turns, each at most 64 KiB of payload a turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.errors import DataInvalid
from culm_models.bamboo_p2p.events import ConnectionDropped
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import TURN_BYTES, BambooSettings
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Eagerness, Propose
from culm_models.conform.bamboo_p2p.codecs import decode_all_data
from culm_models.lzfoo import Decompressor
from tests.models.bamboo_p2p.hand_made import HandMade
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, Pair, make_log

RAW = BambooSettings(send_window=0)


def asking_for(logs: int, settings: BambooSettings, held_logs: list[tuple[NewEntry, ...]]) -> HandMade:
    """An end that holds logs 0, 1, …, each asked for as a whole by a request of twice its number."""
    made = HandMade([entry for log in held_logs for entry in log], settings)
    for number in range(logs):
        made.control(ask(number))
    return made


def ask(number: int, eagerness: Eagerness = Eagerness.ALL) -> Propose:
    """The proposal of one log, open."""
    return Propose(2 * number, AUTHOR.public_key, number, 1, 1, 0, 2**64 - 1, None, eagerness)


def log_of(size: int, log_id: int) -> tuple[NewEntry, ...]:
    """A log of one entry with so large a payload."""
    return make_log(1, payload=lambda _: bytes(size), log_id=log_id)


def turns(made: HandMade) -> list[list[dict[str, Any]]]:
    """What goes out, one list of messages a turn. No entry of these logs writes a backlink."""
    turn_messages = []
    while data := made.end.next_data():
        decoded = decode_all_data(data, YAMF, [])
        assert decoded["used"] == len(data)
        turn_messages.append(decoded["messages"])
    return turn_messages


def payload_bytes(turn: list[dict[str, Any]]) -> int:
    """How many bytes of payloads a turn stands for."""
    return sum(
        message["length"] if message["type"] == "compressed" else len(message.get("bytes", "")) // 2
        for message in turn
    )


LARGE: dict[str, tuple[BambooSettings, Callable[[int], bytes]]] = {
    "raw": (RAW, lambda seq_num: bytes((seq_num,)) * 300_000),
    "compressed": (BambooSettings(), lambda seq_num: bytes((seq_num,)) * 300_000),
    "raw, a row of entries": (RAW, lambda seq_num: bytes((seq_num,)) * 40_000),
    "compressed, a row of entries": (BambooSettings(), lambda seq_num: bytes((seq_num,)) * 40_000),
    "raw, small": (RAW, lambda seq_num: b"%d" % seq_num),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_turn_is_of_one_request_and_of_64_kib_of_payload_at_most(name: str) -> None:
    settings, payload = LARGE[name]
    made = asking_for(2, settings, [make_log(12, payload=payload, log_id=number) for number in range(2)])
    for turn in turns(made):
        assert len([message for message in turn if message["type"] == "switch"]) <= 1
        assert payload_bytes(turn) <= TURN_BYTES


@pytest.mark.parametrize("settings", [RAW, BambooSettings()], ids=["raw", "compressed"])
def test_whoever_has_something_to_send_has_its_turn_before_another_has_a_second(
    settings: BambooSettings,
) -> None:
    sizes = (500_000, 200_000, 10)
    made = asking_for(3, settings, [log_of(size, at) for at, size in enumerate(sizes)])
    switches = [turn[0]["id"] for turn in turns(made) if turn[0]["type"] == "switch"]
    # The small one is through after its first turn; the last of three goes on alone, without a switch.
    assert switches[:7] == [0, 2, 4, 0, 2, 0, 2]


def test_all_of_it_comes_whatever_the_turns_cut() -> None:
    logs = [make_log(3, payload=LARGE["compressed"][1], log_id=number) for number in range(2)]
    made = asking_for(2, BambooSettings(), logs)
    sent: dict[int, bytearray] = {0: bytearray(), 2: bytearray()}
    expander, current = Decompressor(65_536), 0
    for turn in turns(made):
        for message in turn:
            if message["type"] == "switch":
                current = message["id"]
            elif message["type"] == "compressed":
                for plain in expander.feed(bytes.fromhex(message["bytes"]), message["length"]):
                    sent[current] += plain
            elif message["type"] == "raw":
                sent[current] += bytes.fromhex(message["bytes"])
    for number, log in enumerate(logs):
        assert sent[2 * number] == b"".join(entry.payload or b"" for entry in log)


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
    made = HandMade([entry for number in (0, 1) for entry in make_log(50, log_id=number)], RAW)
    made.control(*(ask(number, Eagerness.NOTIFY) for number in (0, 1)))
    pieces = [message["pieces"] for turn in turns(made) for message in turn if message["type"] == "notify"]
    assert max(pieces) <= 10 and sum(pieces) == 200


def test_a_switch_stands_only_where_the_request_is_another_one() -> None:
    made = asking_for(1, RAW, [make_log(4, payload=lambda _: bytes(100_000), log_id=0)])
    switches = [message for turn in turns(made) for message in turn if message["type"] == "switch"]
    assert switches == [{"type": "switch", "id": 0}]


# Entries that come in a row come to what they would one message at a time; requests take turns (R63).


LENGTH = 60


def _alike(seq_num: int) -> bytes:
    return b"payloads that are alike, " * (seq_num % 9) + b"%d" % seq_num


def _taken(
    flavour: HashFlavour, step: int | None, settings: BambooSettings, **wanted: Any
) -> tuple[Any, ...]:
    """What one end reports and holds when the other one's data comes in steps of so many bytes."""
    pair = Pair(settings, settings, flavour)
    pair.peers[0].add(make_log(LENGTH, flavour, payload=_alike))
    entry = make_log(LENGTH, flavour, payload=_alike)[29]
    pair.talk()
    if wanted.pop("holds_one", False):
        pair.peers[1].add([entry])
    pair.ends[1].propose(RequestedRange(*LOG, **wanted))
    pair.carry(1)
    while data := pair.ends[0].next_data():
        for at in range(0, len(data), step or len(data)):
            pair.ends[1].receive_data(data[at : at + (step or len(data))], 0)
            if at == 0:
                pair.ends[1].receive_control(pair.ends[0].take_control(), 0)
    pair.peers[1].settle()
    store = pair.store(1)
    payloads = [store.has_payload(LOG, number) for number in range(1, LENGTH + 1)]
    # Made of parts here, decoded there.
    assert all(store.entry(LOG, number) == pair.store(0).entry(LOG, number) for number in store.entries(LOG))
    events = pair.ends[1].take_events()
    return events, store.entries(LOG), payloads, pair.ends[1].dropped


@pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("window", [0, 65_536])
@pytest.mark.parametrize(
    "wanted",
    [
        {"start": 1},
        {"start": 1, "end": LENGTH},
        {"start": 1, "end": LENGTH, "max_size": 100},
        {"start": 20, "end": 40, "upper": 40},
        {"start": 13, "end": LENGTH, "sparse": True},
        {"start": 1, "end": LENGTH, "holds_one": True},
    ],
    ids=str,
)
def test_whole_bursts_and_single_bytes_come_to_the_same(
    flavour: HashFlavour, window: int, wanted: dict[str, Any]
) -> None:
    settings = BambooSettings(send_window=window, receive_window=window)
    burst = _taken(flavour, None, settings, **wanted)
    assert burst == _taken(flavour, 1, settings, **wanted) == _taken(flavour, 333, settings, **wanted)
    assert burst[1] and burst[3] is None


def test_an_entry_with_a_wrong_signature_ends_a_row_and_the_connection_and_what_was_before_is_kept() -> None:
    pair = Pair(BambooSettings(send_window=0), BambooSettings(), YASMF)
    log = make_log(LENGTH, YASMF, payload=_alike)
    pair.peers[0].add(log)
    pair.talk()
    pair.ends[1].propose(RequestedRange(*LOG, 1, end=LENGTH, max_size=MAX_SIZE))
    pair.carry(1)
    pair.ends[1].receive_control(pair.ends[0].take_control(), 0)
    data = bytearray(pair.ends[0].next_data())
    at = data.index(log[29].entry_bytes[-64:])
    data[at] ^= 1
    pair.ends[1].receive_data(bytes(data), 0)
    assert isinstance(pair.ends[1].dropped, DataInvalid)
    assert pair.store(1).entries(LOG) == list(range(1, 30))
    assert all(pair.store(1).has_payload(LOG, number) for number in range(1, 30))
    assert any(isinstance(event, ConnectionDropped) for event in pair.ends[1].take_events())


def test_a_large_payload_delays_another_requests_entry_by_one_turn_at_most() -> None:
    pair = Pair(BambooSettings(send_window=0))
    large = make_log(1, payload=lambda seq_num: bytes(1_000_000))
    small = make_log(3, log_id=8)
    pair.peers[0].add([*large, *small])
    pair.talk()
    pair.ends[1].propose(RequestedRange(*LOG, 1, end=1))
    pair.carry(1)
    pair.carry(0)
    pair.ends[1].propose(RequestedRange(AUTHOR.public_key, 8, 1, end=3))
    pair.carry(1)
    between = 0
    while not pair.store(1).has_payload((AUTHOR.public_key, 8), 3):
        assert pair.carry(0)
        between += 1
    assert between <= 2
    assert not pair.store(1).has_payload(LOG, 1)
    sizes = []
    while data := pair.ends[0].next_data():
        sizes.append(len(data))
        pair.ends[1].receive_data(data, 0)
    assert max(sizes) <= TURN_BYTES + 32


def test_a_payload_that_fits_a_turn_goes_out_whole_and_a_larger_one_in_parts() -> None:
    sizes = (30_000, 30_000, 30_000, TURN_BYTES, 5, TURN_BYTES + 1, 100)
    pair = Pair(BambooSettings(send_window=0))
    pair.peers[0].add(make_log(len(sizes), payload=lambda seq_num: bytes(sizes[seq_num - 1])))
    pair.talk()
    pair.ends[1].propose(RequestedRange(*LOG, 1, end=len(sizes)))
    pair.carry(1)
    pair.ends[1].receive_control(pair.ends[0].take_control(), 0)
    in_parts = set()
    while data := pair.ends[0].next_data():
        assert len(data) <= TURN_BYTES + 1_000
        pair.ends[1].receive_data(data, 0)
        in_parts |= {number for number in range(1, len(sizes) + 1) if pair.store(1).unverified(LOG, number)}
    assert pair.store(1).end_of_held_payloads(LOG, 1) == len(sizes) + 1
    assert in_parts == {6}


logs = st.sampled_from([(bytes(32), 1), (bytes(32), 2)])


@given(st.lists(st.tuples(logs, st.integers(1, 9), st.integers(1, 4))))
def test_changes_in_runs_are_the_changes_one_by_one(changed: list[tuple[Any, int, int]]) -> None:
    entries = [(log, first + step) for log, first, count in changed for step in range(count)]
    runs = Changes(entries).entry_runs
    assert [(log, number) for log, first, last in runs for number in range(first, last + 1)] == entries
    assert all((run[0], run[2] + 1) != following[:2] for run, following in pairwise(runs))
