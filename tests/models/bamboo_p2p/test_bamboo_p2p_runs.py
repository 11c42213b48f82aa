"""Entries that come in a row come to what they would one message at a time; requests take turns (R63)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.errors import DataInvalid
from culm_models.bamboo_p2p.events import ConnectionDropped
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import TURN_BYTES, PeerSettings
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, Pair, make_log

LENGTH = 60


def _alike(seq_num: int) -> bytes:
    return b"payloads that are alike, " * (seq_num % 9) + b"%d" % seq_num


def _taken(flavour: HashFlavour, step: int | None, settings: PeerSettings, **wanted: Any) -> tuple[Any, ...]:
    """What one end reports and holds when the other one's data comes in steps of so many bytes."""
    pair = Pair(settings, settings, flavour)
    pair.peers[0].add(make_log(LENGTH, flavour, payload=_alike))
    held = make_log(LENGTH, flavour, payload=_alike)[29]
    pair.talk()
    if wanted.pop("holds_one", False):
        pair.peers[1].add([held])
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
    settings = PeerSettings(send_window=window, receive_window=window)
    burst = _taken(flavour, None, settings, **wanted)
    assert burst == _taken(flavour, 1, settings, **wanted) == _taken(flavour, 333, settings, **wanted)
    assert burst[1] and burst[3] is None


def test_an_entry_with_a_wrong_signature_ends_a_row_and_the_connection_and_what_was_before_is_kept() -> None:
    pair = Pair(PeerSettings(send_window=0), PeerSettings(), YASMF)
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
    pair = Pair(PeerSettings(send_window=0))
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
    pair = Pair(PeerSettings(send_window=0))
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
    assert all((one[0], one[2] + 1) != other[:2] for one, other in pairwise(runs))
