"""A payload that is on its way is not said to be unavailable; one that does not come is, in the end."""

from __future__ import annotations

from culm_connectors.bamboo_p2p.edge.awaited_payloads import ExpectedPayloads
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.peer import GivenEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction, PeerSettings
from tests.models.bamboo_p2p.logs import LOG, Pair, make_log

ENTRIES = make_log(3)


class Relay:
    """An edge that holds three entries and two payloads, and a reader that asks for all of them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.expected = ExpectedPayloads(2.0, lambda: self.now_s)
        settings = PeerSettings(expects_payload=lambda log, seq_num: (log, seq_num) in self.expected)
        self.pair = Pair(settings)
        first, second, third = ENTRIES
        self.pair.peers[0].add([first, GivenEntry(second.entry_bytes), third])
        self.expected.expect(LOG, 2)
        self.pair.talk()
        self.pair.ends[1].propose(RequestedRange(*LOG, 1, end=3, upper=3, direction=Direction.PULL))
        self.pair.talk()

    def held(self) -> list[bool]:
        """Which payloads the reader holds."""
        return [self.pair.store(1).has_payload(LOG, seq_num) for seq_num in (1, 2, 3)]


def test_what_is_expected_is_sent_when_it_comes() -> None:
    relay = Relay()
    assert relay.held() == [True, False, False]
    relay.pair.peers[0].add(ENTRIES[1:2])
    relay.expected.came(LOG, 2)
    relay.pair.talk()
    assert relay.held() == [True, True, True] and not relay.pair.ends[1].requests


def test_what_does_not_come_is_unavailable_and_nothing_more_is_expected_of_its_log() -> None:
    relay = Relay()
    relay.now_s = 1.9
    assert relay.expected.take_overdue() == []
    relay.now_s = 2.0
    overdue = relay.expected.take_overdue()
    assert overdue == [(LOG, 2)]
    relay.pair.peers[0].notify_connections(Changes(overdue))
    relay.pair.talk()
    assert relay.held() == [True, False, True]
    relay.expected.expect(LOG, 2)
    assert (LOG, 2) not in relay.expected
    relay.expected.came(LOG, 3)
    relay.expected.expect(LOG, 2)
    assert (LOG, 2) in relay.expected
