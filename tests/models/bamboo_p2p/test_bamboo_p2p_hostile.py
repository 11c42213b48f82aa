"""Whatever an end says, the other one drops it with a code or goes on, and takes no memory for claims."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from culm_models import varu64
from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import FLAVOURS, YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.data_channel import receiver as receiver_module
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.settings import MESSAGES_A_TURN, UNCHANGING_MESSAGES_MAX, BambooSettings, Policy
from culm_models.bamboo_p2p.store import HeldEntry, VerifiedEntry
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    CompressedPayload,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    RawPayload,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from culm_models.conform.bamboo_p2p.messages import requested_ranges
from culm_models.keys import SIGNATURE_SIZE
from culm_models.lzfoo import Compressor
from tests.models.bamboo_p2p import vectors
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, make_log
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import asking, greedily_asking, metadata, payload

SESSIONS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "sessions.json").read_text())
HUGE = 2**60


def replay(session: dict[str, Any], role: int, rng: random.Random) -> BambooConnection:
    """One end hears what the other one said, with some of it broken; what it asked for is asked for."""
    end = session["ends"][role]
    settings = BambooSettings(
        end["settings"]["send"] == "greedy",
        end["settings"]["receive"] == "greedy",
        end["settings"]["send_window"],
        end["settings"]["receive_window"],
    )
    peer = Peer(MemoryBambooStore(FLAVOURS[session["hash"]]), settings)
    peer.add(
        NewEntry(
            bytes.fromhex(entry["entry"]),
            bytes.fromhex(entry["payload"]) if "payload" in entry else None,
            tuple((part["offset"], bytes.fromhex(part["bytes"])) for part in entry.get("parts", ())),
        )
        for entry in end["holds"]
    )
    connection = peer.connect("other", is_proactive=end["role"] == "proactive", now_ms=0)
    for sent in session["said"]:
        if sent["from"] == end["role"]:
            for message in sent.get("messages", ()):
                if message["type"] == "propose":
                    with suppress(CallRefused):
                        connection.propose(requested_ranges(FLAVOURS[session["hash"]]).read(message))
            continue
        data = bytearray.fromhex(sent["bytes"])
        for _ in range(rng.choice((0, 0, 1, 1, 3))):
            _break(data, rng)
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            receive = connection.receive_control if sent["channel"] == "control" else connection.receive_data
            receive(bytes(piece), 0)
            peer.settle()
            while connection.next_data():
                pass
            connection.take_control()
            connection.take_events()
    return connection


def _break(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(4):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            del data[at : at + rng.randint(1, 9)]
        case 2:
            data[at:at] = rng.randbytes(rng.randint(1, 9))
        case _:
            data[at:at] = data[rng.randrange(len(data) + 1) :][:300]


@pytest.mark.parametrize("number", range(len(SESSIONS)))
def test_broken_sessions_end_with_a_code_or_go_on(number: int) -> None:
    for seed in range(60):
        for role in (0, 1):
            replay(SESSIONS[number], role, random.Random(f"{number} {seed}"))


@pytest.mark.soak
def test_very_many_broken_sessions_end_with_a_code_or_go_on() -> None:
    for seed in range(20_000):
        number = seed % len(SESSIONS)
        replay(SESSIONS[number], seed % 2, random.Random(f"soak {seed}"))


def test_claimed_sizes_take_no_memory() -> None:
    claimed = _with_payload_size(HUGE)
    made = HandMade()
    made.control(proposal(0), proposal(2, 2**63, lower=1), proposal(4, 1, end=2**64 - 1))
    made.data(Switch(0), claimed)
    assert made.code is None
    tracemalloc.start()
    made.data(RawPayload(HUGE // 2), b"x" * 1000)
    made.data(b"y" * 1000)
    assert made.code is None
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def _with_payload_size(size: int) -> Metadata:
    """The metadata of an entry 1 that its author signed, of a payload that nobody will ever send."""
    whole = sign_entry(AUTHOR, LOG[1], 1, b"", flavour=YAMF)
    body = whole[: -SIGNATURE_SIZE - YAMF.size - 1] + varu64.encode(size) + YAMF.hash(b"")
    return Metadata(False, None, size, YAMF.hash(b""), AUTHOR.sign(body))


@pytest.mark.parametrize("message", [RawPayload(2 * HUGE), SkipBytes(HUGE), CompressedPayload(9, 99)])
def test_more_than_was_claimed_is_refused_by_its_head(message: RawPayload) -> None:
    made = HandMade().control(proposal(0)).data(Switch(0), _with_payload_size(HUGE))
    assert made.data(message).code is not None


def test_a_notify_of_very_many_pieces_takes_no_time() -> None:
    made = HandMade(make_log(9), BambooSettings(policy=Policy(eagerness=Eagerness.NOTIFY)))
    made.control(proposal(0)).data(Switch(0), Notify(HUGE), Notify(2**64 - 1))
    assert made.code is None
    assert made.data(Notify(2**64 - 1)).code == "bamboo_p2p.piece"


def test_what_changes_nothing_has_a_budget_on_either_channel() -> None:
    for empty in (Notify(0), SkipBytes(0), RawPayload(0), Switch(0)):
        made = HandMade().control(proposal(0)).data(Switch(0), _with_payload_size(HUGE))
        made.data(*[empty] * (UNCHANGING_MESSAGES_MAX - 1))
        assert made.code is None
        assert made.data(empty).code == "bamboo_p2p.limit"
    made = HandMade().control(proposal(0)).data(Switch(0), _with_payload_size(HUGE))
    for _ in range(UNCHANGING_MESSAGES_MAX):
        made.data(CompressedPayload(0, 2), b"\x00\x00")
    assert made.code == "bamboo_p2p.limit"
    same = encode_control(Adjust(0, max_size=2**64 - 1))
    made = HandMade().control(proposal(0)).control_bytes(same * UNCHANGING_MESSAGES_MAX)
    assert made.code == "bamboo_p2p.limit"


def test_credit_bounds_requests_and_not_what_the_other_end_grants() -> None:
    made = HandMade(settings=BambooSettings(credit=100)).control(*[Grant(1)] * 5000)
    assert made.end.credit == 5000
    made.control(*[proposal(2 * number, 2**62) for number in range(100)])
    assert made.code is None
    assert made.control(proposal(200, 2**62)).code == "bamboo_p2p.credit"


def test_open_requests_are_small() -> None:
    made = HandMade(settings=BambooSettings(credit=10_000))
    tracemalloc.start()
    for number in range(300):
        made.control(proposal(2 * number, 1_000 + number))
        made.heard()
        made.end.take_events()
    assert made.code is None
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken / 300 < 8_000


# Few compressed bytes that stand for very many are taken a turn at a time, in bounded memory.


SIZE = 300_000
PAYLOAD = bytes(SIZE)


def bombs(count: int) -> bytes:
    """So many entries, each with a payload of `SIZE` bytes in some tens."""
    compressed = Compressor(65_536).compress(PAYLOAD)
    assert compressed is not None
    stream = encode_data(Switch(0))
    for new_entry in make_log(count, payload=lambda _: PAYLOAD):
        entry = decode_entry(new_entry.entry_bytes, YAMF)
        held_entry = HeldEntry(entry, new_entry.entry_bytes, YAMF.hash(new_entry.entry_bytes))
        stream += encode_metadata(held_entry, with_backlink=False)
        stream += encode_data(CompressedPayload(SIZE, len(compressed))) + compressed
    return stream


def held(store: MemoryBambooStore, count: int) -> list[bool]:
    return [store.has_payload(LOG, number) for number in range(1, count + 1)]


@pytest.mark.parametrize("a_turn", [SIZE, 2 * SIZE, 5 * SIZE - 1])
def test_so_much_comes_out_in_one_turn_and_the_rest_in_the_next(
    a_turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "PLAIN_BYTES_A_TURN", a_turn)
    made = HandMade().control(proposal())
    made.data_turn(bombs(12))
    turns = 1
    while made.end.data_is_left:
        taken = sum(held(made.store, 12))
        # What comes in a row is taken by the MiB, whatever is left of the turn.
        assert SIZE * taken <= turns * (a_turn + 1024**2)
        made.data_turn()
        turns += 1
    assert turns > 1 and all(held(made.store, 12)) and made.code is None


def test_control_messages_do_not_make_a_turn_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_module, "PLAIN_BYTES_A_TURN", SIZE)
    made = HandMade().control(proposal()).data_turn(bombs(12))
    before = held(made.store, 12)
    assert made.end.data_is_left and not all(before)
    made.control(proposal(2, 2**40))
    assert held(made.store, 12) == before


def test_of_entries_in_a_row_no_more_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HandMade().control(proposal())
    sizes: list[int] = []
    put = made.store.put_verified

    def watched(log: LogKey, verified: Sequence[VerifiedEntry]) -> None:
        sizes.append(sum(len(payload or b"") for _, payload in verified))
        put(log, verified)

    monkeypatch.setattr(made.store, "put_verified", watched)
    made.data_bytes(bombs(40))
    assert all(held(made.store, 40)) and SIZE <= max(sizes) <= 1024**2


def test_tiny_parts_of_a_payload_are_read_a_bounded_number_a_turn() -> None:
    (new_entry,) = make_log(1, payload=lambda _: bytes(10_000))
    entry = decode_entry(new_entry.entry_bytes, YAMF)
    entry_held = HeldEntry(entry, new_entry.entry_bytes, YAMF.hash(new_entry.entry_bytes))
    head = encode_data(Switch(0)) + encode_metadata(entry_held, with_backlink=False)
    made = HandMade().control(proposal())
    made.data_turn(head + (encode_data(RawPayload(1)) + b"\0") * 10_000)
    turns = 1
    while made.end.data_is_left:
        assert made.end._receiver.messages_read <= turns * MESSAGES_A_TURN
        made.data_turn()
        turns += 1
    assert turns > 10 and held(made.store, 1) == [True] and made.code is None


# What comes and is not kept: payloads that were dropped here, and what its owner ended a request for.


SOUND = payload(1)
WRONG = bytes(len(SOUND))
WHOLE = RawPayload(len(SOUND))


def without_payload_1(made: HandMade, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """The payload of entry 1 was dropped."""
    monkeypatch.setattr(made.store, "is_dropped", lambda log, seq_num: (log, seq_num) == (LOG, 1))
    return made


def test_a_dropped_payload_that_is_brought_is_passed_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(asking(), monkeypatch)
    made.data(metadata(1), RawPayload(1), SOUND[:1])
    assert not made.store.unverified(LOG, 1)
    made.data(RawPayload(len(SOUND) - 1), SOUND[1:], metadata(2), RawPayload(len(payload(2))), payload(2))
    assert made.code is None
    assert not made.store.has_payload(LOG, 1) and made.store.has_payload(LOG, 2)


def test_a_dropped_payload_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(asking(), monkeypatch)
    assert made.data(metadata(1), WHOLE, WRONG).code == "bamboo_p2p.invalid_data"


def test_a_wrong_one_may_be_apologised_for_in_greedy_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(greedily_asking(), monkeypatch)
    made.data(metadata(1), WHOLE, WRONG, Apology(), WHOLE, SOUND, metadata(2))
    assert made.code is None and not made.store.has_payload(LOG, 1)


@pytest.mark.parametrize("middle", [0, 1, len(SOUND)])
def test_what_comes_behind_the_end_of_taking_is_framed_and_thrown_away(middle: int) -> None:
    made = asking().data(metadata(1), WHOLE, SOUND[:middle])
    (request,) = made.end.requests
    made.end.stop_taking(request)
    made.end.cancel(0, CancelCode.RESOURCES)
    made.data_bytes(SOUND[middle:])
    made.data(metadata(2), RawPayload(len(payload(2))), payload(2), Cancelled(0))
    assert made.code is None
    assert made.store.entry(LOG, 2) is None
    assert made.store.has_payload(LOG, 1) is (middle == len(SOUND))
    made.heard_data()
    assert [request.cancel_received for request in made.end.requests] == [False]


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_who_insists_on_a_dropped_payload_is_told_and_who_does_not_gets_the_rest(
    is_mandatory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_log(2)
    new_entries = [NewEntry(first.entry_bytes), second]
    made = without_payload_1(HandMade(new_entries, BambooSettings(send_window=0)), monkeypatch)
    made.control(proposal(end=2, mandatory=is_mandatory))
    heard = made.heard_data()
    codes = [message.code for message in made.heard() if isinstance(message, Cancel)]
    assert codes == [CancelCode.MANDATORY] * is_mandatory
    rest = [Skip(SkipReason.UNAVAILABLE), metadata(2), RawPayload(len(payload(2)))]
    expected = [Switch(0), metadata(1), *([Cancelled(0)] if is_mandatory else rest)]
    assert heard == b"".join(map(encode_data, expected)) + (b"" if is_mandatory else payload(2))


@pytest.mark.parametrize("ask", [asking, greedily_asking])
def test_a_payload_whose_beginning_was_forgotten_here_is_no_fault_of_who_sent_it(
    ask: Callable[[], HandMade],
) -> None:
    made = ask().data(metadata(1), RawPayload(1), SOUND[:1])
    made.store.discard_unverified(LOG, 1)
    made.data(RawPayload(len(SOUND) - 1), SOUND[1:])
    assert made.code is None and not made.store.has_payload(LOG, 1) and not made.store.unverified(LOG, 1)
    # It is to come anew.
    assert Cancel(made.end.requests[0].id, CancelCode.RESOURCES) in made.heard()
