"""Two honest ends bring each other what is asked for, and nothing else."""

import pytest

from culm_models.bamboo.certificate_pool import lower_pool, shortest_path, upper_pool
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo_p2p.events import PiecesNotified, RequestCancelled
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.wire.messages import CancelCode, Eagerness
from tests.models.bamboo_p2p.logs import LOG, Pair, make_log

flavours = pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)


def _pair(length: int, flavour: HashFlavour = YAMF, *, end_of_log: bool = False) -> Pair:
    pair = Pair(flavour=flavour)
    pair.peers[0].add(make_log(length, flavour, end_of_log=end_of_log))
    pair.talk()
    return pair


@flavours
def test_a_whole_log_comes_over(flavour: HashFlavour) -> None:
    pair = _pair(60, flavour)
    pair.ends[1].propose(RequestedRange(*LOG, 1, end=60))
    pair.talk()
    store = pair.store(1)
    assert store.entries(LOG) == list(range(1, 61))
    assert all(store.has_payload(LOG, seq_num) for seq_num in range(1, 61))
    assert not pair.ends[0].requests
    assert not pair.ends[1].requests


def test_one_entry_is_proven_by_exactly_its_pool() -> None:
    pair = _pair(121)
    pair.ends[1].propose(RequestedRange(*LOG, 100, end=100, upper=121))
    pair.talk()
    pool = set(lower_pool(100)) | set(upper_pool(100))
    assert pair.store(1).entries(LOG) == sorted(pool)
    assert [number for number in pool if pair.store(1).has_payload(LOG, number)] == [100]


def test_a_sparse_range_brings_the_shortest_path() -> None:
    pair = _pair(121)
    pair.ends[1].propose(RequestedRange(*LOG, 13, end=100, sparse=True))
    pair.talk()
    assert pair.store(1).entries(LOG) == sorted({*lower_pool(13), *shortest_path(13, 100)})


def test_payloads_alone_come_for_entries_that_are_held() -> None:
    pair = _pair(20)
    log = make_log(20)
    pair.peers[1].add([type(entry)(entry.entry_bytes) for entry in log])
    pair.ends[1].propose(RequestedRange(*LOG, 5, end=9, payload_only=True))
    pair.talk()
    with_payload = [number for number in range(1, 21) if pair.store(1).has_payload(LOG, number)]
    assert with_payload == [5, 6, 7, 8, 9]


def test_a_payload_goes_on_from_an_offset() -> None:
    log = make_log(3, payload=lambda seq_num: b"0123456789" * seq_num)
    pair = Pair()
    pair.peers[0].add(log)
    beginning = ((0, b"0123456"),)
    pair.peers[1].add([type(entry)(entry.entry_bytes, None, beginning) for entry in log])
    pair.talk()
    pair.ends[1].propose(RequestedRange(*LOG, 3, end=3, offset=7))
    pair.talk()
    assert pair.store(1).has_payload(LOG, 3)


def test_an_open_range_carries_what_is_published_later() -> None:
    pair, log = _pair(10), make_log(14)
    pair.ends[1].propose(RequestedRange(*LOG, 1))
    pair.talk()
    pair.peers[0].add(log[10:])
    pair.talk()
    assert pair.store(1).entries(LOG) == list(range(1, 15))


def test_both_ends_bring_what_the_other_lacks_in_one_request() -> None:
    pair = Pair()
    log = make_log(40)
    with_entries = [type(entry)(entry.entry_bytes) for entry in log]
    pair.peers[0].add([entry if seq_num % 3 else with_entries[seq_num] for seq_num, entry in enumerate(log)])
    pair.peers[1].add([with_entries[seq_num] if seq_num % 3 else entry for seq_num, entry in enumerate(log)])
    pair.talk()
    pair.ends[0].propose(RequestedRange(*LOG, 1, end=40))
    pair.talk()
    for index in (0, 1):
        assert all(pair.store(index).has_payload(LOG, seq_num) for seq_num in range(1, 41))
    assert not pair.ends[0].requests


def test_a_notify_only_request_learns_a_height_and_transfers_nothing() -> None:
    pair = _pair(30)
    pair.ends[1].propose(RequestedRange(*LOG, 1, eagerness=Eagerness.NOTIFY))
    pair.talk()
    notified = [event for event in pair.ends[1].take_events() if isinstance(event, PiecesNotified)]
    assert sum(event.pieces for event in notified) == 60
    assert not pair.store(1).entries(LOG)


def test_an_end_of_log_is_learned_by_who_asks_beyond_it() -> None:
    pair = _pair(9, end_of_log=True)
    pair.ends[1].propose(RequestedRange(*LOG, 30))
    pair.talk()
    codes = [event.code for event in pair.ends[1].take_events() if isinstance(event, RequestCancelled)]
    assert codes == [CancelCode.END_OF_LOG, CancelCode.DONE]
    assert pair.store(1).end_of_log(LOG) == 9
    assert not pair.ends[1].requests
