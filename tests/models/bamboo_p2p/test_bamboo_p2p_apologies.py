"""R59: what an apology takes back, who must give one, and what is none; with two ends and with three."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.events import ApologyReceived, PayloadVerified
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Policy
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Apology,
    Cancelled,
    CompressedPayload,
    DataMessage,
    Eagerness,
    Metadata,
    Notify,
    RawPayload,
    Setup,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from culm_models.lzfoo import Compressor
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, make_log

GREEDY = BambooSettings(sends_greedily=True, accepts_greedy=True, send_window=0, receive_window=65_536)
GREEDY_SETUP = Setup(True, True, 65_536, 65_536)
SIZE = 20
ENTRIES = make_log(3, payload=lambda seq_num: b"%d" % seq_num * SIZE)
WRONG = b"?" * SIZE
APOLOGY = encode_data(Apology())


def payload(seq_num: int) -> bytes:
    """The payload of an entry."""
    return ENTRIES[seq_num - 1].payload or b""


def bare(seq_num: int, *parts: tuple[int, bytes]) -> NewEntry:
    """An entry without its payload, with unverified parts of it."""
    return NewEntry(ENTRIES[seq_num - 1].entry_bytes, None, parts)


def metadata(seq_num: int, *, signed: bool = True) -> Metadata:
    """The metadata of an entry, rightly signed or not."""
    entry = decode_entry(ENTRIES[seq_num - 1].entry_bytes, YAMF)
    return Metadata(
        False, None, entry.payload_size, entry.payload_hash, entry.signature if signed else bytes(64)
    )


def raw(data: bytes) -> bytes:
    """A payload message and its bytes."""
    return encode_data(RawPayload(len(data))) + data


def asked(settings: BambooSettings = GREEDY, entries: tuple[NewEntry, ...] = (), end: int = 3) -> HandMade:
    """A greedy end that confirmed request 0, and to which its data comes."""
    made = HandMade(entries, settings, setup=GREEDY_SETUP)
    return made.control(proposal(0, end=end)).data(Switch(0))


def incoming(made: HandMade, request_id: int = 0) -> tuple[int, int]:
    """How far the other end is in a request."""
    cursor = next(request.incoming for request in made.end.requests if request.id == request_id)
    return cursor.piece, cursor.offset


# With three ends: what was passed on is apologised for downstream.


class Chain:
    """Ends in a row, each with a connection to the one before, from which it pulls."""

    def __init__(self, *holdings: tuple[NewEntry, ...], settings: BambooSettings = GREEDY) -> None:
        self.peers = [Peer(MemoryBambooStore(YAMF), settings) for _ in holdings]
        self.links: list[tuple[tuple[Peer, BambooConnection], tuple[Peer, BambooConnection]]] = []
        self.apologies = [0] * len(holdings)
        self.verified: list[list[int]] = [[] for _ in holdings]
        for peer, entries in zip(self.peers, holdings, strict=True):
            peer.add(entries)
        for index in range(len(holdings) - 1):
            near, far = self.peers[index], self.peers[index + 1]
            self.links.append(
                (
                    (near, near.connect(f"to {index + 1}", is_proactive=False, now_ms=0)),
                    (far, far.connect(f"to {index}", is_proactive=True, now_ms=0)),
                )
            )
        self.talk()
        for _, (_, end) in self.links:
            end.propose(RequestedRange(*LOG, 1, end=1))

    def talk(self) -> None:
        """Carry everything everywhere until nothing is left to say."""
        moved = True
        while moved:
            moved = False
            for link in self.links:
                for way in (0, 1):
                    moved |= self._carry(link, way)

    def _carry(
        self, link: tuple[tuple[Peer, BambooConnection], tuple[Peer, BambooConnection]], way: int
    ) -> bool:
        (peer, end), (other, to) = link[way], link[1 - way]
        peer.settle()
        control, data = end.take_control(), end.next_data()
        to.receive_control(control, 0)
        to.receive_data(data, 0)
        assert to.dropped is None, to.dropped
        other.settle()
        for event in to.take_events():
            index = self.peers.index(other)
            self.apologies[index] += isinstance(event, ApologyReceived)
            if isinstance(event, PayloadVerified):
                self.verified[index].append(event.seq_num)
        return bool(control or data)

    def parts(self, index: int) -> list[tuple[int, int]]:
        """Which bytes of payload 1 an end holds unverified."""
        return list(self.peers[index].store.unverified(LOG, 1))

    def has(self, index: int) -> bool:
        """Whether an end holds payload 1."""
        return self.peers[index].store.has_payload(LOG, 1)


def test_parts_go_on_to_the_third_end_before_anybody_has_verified_them() -> None:
    chain = Chain((bare(1, (0, payload(1)[:8])),), (), ())
    chain.talk()
    assert chain.parts(1) == chain.parts(2) == [(0, 8)]
    assert chain.apologies == [0, 0, 0]
    chain.peers[0].add([bare(1, (8, payload(1)[8:]))])
    chain.talk()
    assert [chain.has(index) for index in range(3)] == [True] * 3
    assert chain.apologies == [0, 0, 0] and chain.verified[2] == [1]


@pytest.mark.parametrize("cut", [1, SIZE - 1])
def test_an_apology_goes_on_to_the_third_end_and_the_good_payload_behind_it(cut: int) -> None:
    chain = Chain((bare(1, (0, WRONG[:cut])),), (), ())
    chain.talk()
    assert chain.parts(2) == [(0, cut)]
    # The first end finds out: what it holds is another payload than what was signed.
    chain.peers[0].add([bare(1, (cut, WRONG[cut:]))])
    chain.talk()
    assert chain.apologies == [0, 1, 1]
    assert [chain.parts(index) for index in range(3)] == [[], [], []]
    chain.peers[0].add([ENTRIES[0]])
    chain.talk()
    assert [chain.has(index) for index in range(3)] == [True] * 3
    # Nobody apologised a second time, and everybody verified it once.
    assert chain.apologies == [0, 1, 1] and chain.verified == [[], [1], [1]]


def test_the_middle_end_apologises_for_what_it_passed_on_though_it_holds_the_good_payload_by_then() -> None:
    """It compares what it sent, not what it holds, with what verifies in the end."""
    chain = Chain((bare(1, (0, WRONG[:8])),), (), ())
    chain.talk()
    assert chain.parts(2) == [(0, 8)]
    chain.peers[1].add([ENTRIES[0]])
    chain.talk()
    assert chain.has(1) and chain.has(2)
    assert chain.apologies[2] == 1


def test_good_bytes_that_were_passed_on_are_not_apologised_for_when_the_rest_comes_from_elsewhere() -> None:
    chain = Chain((bare(1, (0, payload(1)[:8])),), (), ())
    chain.talk()
    chain.peers[1].add([ENTRIES[0]])
    chain.talk()
    assert chain.has(1) and chain.has(2)
    assert chain.apologies[2] == 0


def test_in_a_safe_connection_nothing_unverified_goes_on_and_nothing_is_apologised_for() -> None:
    chain = Chain((bare(1, (0, payload(1)[:8])),), (), (), settings=BambooSettings())
    chain.talk()
    assert chain.parts(1) == chain.parts(2) == []
    chain.peers[0].add([ENTRIES[0]])
    chain.talk()
    assert chain.has(1) and chain.apologies == [0, 0, 0]


# What it takes back.


@pytest.mark.parametrize("data", [payload(1)[:8], WRONG], ids=["in progress", "completed"])
def test_a_payload_goes_back_to_its_beginning(data: bytes) -> None:
    made = asked().data(metadata(1), raw(data))
    assert incoming(made) == ((2, 0) if data == WRONG else (1, 8))
    made.data(Apology())
    assert (made.code, incoming(made)) == (None, (1, 0))
    assert not list(made.store.unverified(LOG, 1))
    made.data(raw(payload(1)))
    assert made.store.has_payload(LOG, 1)


def test_a_payload_that_began_at_an_offset_goes_back_to_that_offset() -> None:
    made = HandMade([bare(1, (0, payload(1)[:5]))], GREEDY, setup=GREEDY_SETUP)
    expected = YAMF.hash(ENTRIES[0].entry_bytes)
    made.control(proposal(0, 1, end=1, offset=5, expected_hash=expected)).data(Switch(0), raw(b"?" * 9))
    assert incoming(made) == (0, 14)
    made.data(Apology())
    assert (made.code, incoming(made)) == (None, (0, 5))


def test_metadata_goes_back_to_be_sent_again() -> None:
    made = asked().data(metadata(1, signed=False), Apology())
    assert (made.code, incoming(made)) == (None, (0, 0))
    made.data(metadata(1))
    assert made.store.entries(LOG) == [1]


def test_an_apology_is_for_the_current_request_and_another_is_switched_to_first() -> None:
    made = HandMade(settings=GREEDY, setup=GREEDY_SETUP)
    made.control(proposal(0, end=3), proposal(2, end=2))
    made.data(Switch(0), metadata(1), raw(WRONG), Switch(2), metadata(1), raw(payload(1)[:4]))
    made.data(Switch(0), Apology())
    assert made.code is None
    assert (incoming(made), incoming(made, 2)) == ((1, 0), (1, 4))


def test_the_history_of_compression_is_not_taken_back() -> None:
    compressor = Compressor(65_536)
    first, second = compressor.compress(WRONG), compressor.compress(WRONG + payload(1))
    assert first is not None and second is not None
    log = make_log(1, payload=lambda _: WRONG + payload(1))
    entry = decode_entry(log[0].entry_bytes, YAMF)
    made = asked(end=1).data(
        Metadata(False, None, entry.payload_size, entry.payload_hash, entry.signature),
        CompressedPayload(SIZE, len(first)),
        first,
        Apology(),
        CompressedPayload(2 * SIZE, len(second)),
        second,
    )
    assert made.code is None
    assert made.store.has_payload(LOG, 1)


def test_the_highest_place_that_was_ever_sent_is_not_taken_back() -> None:
    """R46, R49: the other end may catch up over what this one has sent, and apologised for since."""
    made = asked(entries=(bare(1, (0, WRONG[:8])),), end=1)
    assert encode_data(RawPayload(8)) + WRONG[:8] in made.heard_data()
    made.peer.add([bare(1, (8, WRONG[8:]))])
    assert APOLOGY in made.heard_data()
    assert made.end.requests[0].outgoing.piece == 1 and made.end.requests[0].outgoing.offset == 0
    made.data(Notify(1), SkipBytes(8))
    assert made.code is None
    assert made.data(SkipBytes(1)).code == "bamboo_p2p.unwanted"


# Once, and then verified.


def test_after_its_apology_a_piece_goes_out_again_only_verified() -> None:
    made = asked(entries=(bare(1, (0, WRONG[:8])),), end=1)
    made.heard_data()
    made.peer.add([bare(1, (8, WRONG[8:]))])
    assert made.heard_data() == APOLOGY
    made.peer.add([bare(1, (0, payload(1)[:8]))])
    assert made.heard_data() == b""
    made.peer.add([ENTRIES[0]])
    assert made.heard_data().startswith(raw(payload(1)))


def test_the_piece_behind_one_that_was_apologised_for_may_go_out_unverified_again() -> None:
    made = asked(entries=(bare(1, (0, WRONG[:8])), bare(2, (0, payload(2)[:8]))), end=2)
    made.heard_data()
    made.peer.add([bare(1, (8, WRONG[8:]))])
    assert made.heard_data() == APOLOGY
    made.peer.add([ENTRIES[0]])
    assert made.heard_data().endswith(raw(payload(2)[:8]))


def test_there_is_one_apology_for_a_piece_and_one_for_the_next() -> None:
    made = asked().data(metadata(1), raw(WRONG), Apology(), raw(payload(1)))
    made.data(metadata(2), raw(WRONG), Apology())
    assert made.code is None
    assert made.data(raw(payload(2)[:4]), Apology()).code == "bamboo_p2p.apology"


def test_each_direction_of_a_request_has_its_own_apology_for_a_piece() -> None:
    """This end apologised for payload 1 of request 0; the other one may, too, for what it sent of it."""
    made = asked(entries=(bare(1, (0, WRONG[:8])),), end=1)
    made.heard_data()
    made.peer.add([bare(1, (8, WRONG[8:]))])
    assert made.heard_data() == APOLOGY
    made.data(metadata(1), raw(b"!" * 8), Apology())
    assert made.code is None


# What is none: 0b.

NONE: dict[str, Callable[[], HandMade]] = {
    "nothing sent yet": lambda: asked(),
    "a payload that is valid": lambda: asked().data(metadata(1), raw(payload(1))),
    "metadata that is valid": lambda: asked().data(metadata(1)),
    "a payload that was skipped": lambda: asked().data(metadata(1), Skip(SkipReason.UNAVAILABLE)),
    "a piece that was notified": lambda: asked(
        BambooSettings(accepts_greedy=True, policy=Policy(eagerness=Eagerness.NOTIFY))
    ).data(Notify(1)),
    "a piece behind an apology": lambda: asked().data(metadata(1), raw(WRONG), Apology()),
    "a completed piece in safe mode": lambda: asked(BambooSettings()).data(metadata(1), raw(payload(1))),
}


@pytest.mark.parametrize("name", NONE)
def test_an_apology_is_a_violation_for(name: str) -> None:
    made = NONE[name]()
    assert made.code is None
    assert made.data(Apology()).code == "bamboo_p2p.apology"


def test_an_apology_behind_a_proper_prefix_is_none_of_a_violation_in_safe_mode_either() -> None:
    made = asked(BambooSettings()).data(metadata(1), raw(payload(1)[:-1]), Apology())
    assert (made.code, incoming(made)) == (None, (1, 0))


# An invalid piece in greedy mode waits for its apology: 0c for more of the request, 32 throws it away.

ADVANCING: dict[str, DataMessage | bytes] = {
    "metadata": metadata(2),
    "a notify": Notify(1),
    "a skip": Skip(SkipReason.UNAVAILABLE),
    "bytes that are skipped": SkipBytes(1),
    "a payload": raw(b"?"),
}


@pytest.mark.parametrize("name", ADVANCING)
def test_what_advances_behind_an_invalid_piece_is_a_violation(name: str) -> None:
    made = asked().data(metadata(1), raw(WRONG))
    assert made.code is None
    assert made.data(ADVANCING[name]).code == "bamboo_p2p.invalid_data"


def test_what_advances_nothing_or_another_request_may_come_behind_an_invalid_piece() -> None:
    made = HandMade(settings=GREEDY, setup=GREEDY_SETUP)
    made.control(proposal(0, end=3), proposal(2, 1, end=3))
    made.data(
        Switch(0), metadata(1), raw(WRONG), Switch(2), metadata(1), raw(payload(1)), Switch(0), Notify(0)
    )
    assert made.code is None
    made.data(Apology(), raw(payload(1)))
    assert made.code is None


def test_the_end_of_the_data_throws_an_invalid_piece_away() -> None:
    made = asked().data(metadata(1), raw(WRONG), Cancelled(0))
    assert made.code is None
    assert not list(made.store.unverified(LOG, 1)) and not made.store.has_payload(LOG, 1)


def test_an_end_is_not_done_before_the_last_piece_is_verified() -> None:
    """No apology is possible behind 32, so nobody says 130 over an invalid piece (Completion)."""
    made = asked(end=1).control(Adjust(0, may_skip=True)).data(metadata(1), raw(WRONG))
    made.heard()
    made.heard_data()
    assert not made.heard()
    made.data(Apology(), raw(payload(1)))
    made.heard_data()
    assert [message.code for message in made.heard()] == [130]  # type: ignore[union-attr]
