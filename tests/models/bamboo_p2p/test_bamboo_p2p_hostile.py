"""Whatever an end says, the other one drops it with a code or goes on, and takes no memory for claims."""

from __future__ import annotations

import json
import random
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from culm_models import varu64
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import FLAVOURS, YAMF
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import CallRefused
from culm_models.bamboo_p2p.memory_store import MemoryStore
from culm_models.bamboo_p2p.peer import GivenEntry, Peer
from culm_models.bamboo_p2p.settings import UNCHANGING_MESSAGES_MAX, PeerSettings, Policy
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    CompressedPayload,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    RawPayload,
    SkipBytes,
    Switch,
)
from culm_models.conform.bamboo_p2p.messages import requested_ranges
from culm_models.keys import SIGNATURE_SIZE
from tests.models.bamboo_p2p import vectors
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, make_log

SESSIONS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "sessions.json").read_text())
HUGE = 2**60


def replay(session: dict[str, Any], role: int, rng: random.Random) -> Connection:
    """One end hears what the other one said, with some of it broken; what it asked for is asked for."""
    end = session["ends"][role]
    settings = PeerSettings(
        end["settings"]["send"] == "greedy",
        end["settings"]["receive"] == "greedy",
        end["settings"]["send_window"],
        end["settings"]["receive_window"],
    )
    peer = Peer(MemoryStore(FLAVOURS[session["hash"]]), settings)
    peer.add(
        GivenEntry(
            bytes.fromhex(one["entry"]),
            bytes.fromhex(one["payload"]) if "payload" in one else None,
            tuple((part["offset"], bytes.fromhex(part["bytes"])) for part in one.get("parts", ())),
        )
        for one in end["holds"]
    )
    connection = peer.connect("other", is_proactive=end["role"] == "proactive", now_ms=0)
    for said in session["said"]:
        if said["from"] == end["role"]:
            for message in said.get("messages", ()):
                if message["type"] == "propose":
                    with suppress(CallRefused):
                        connection.propose(requested_ranges(FLAVOURS[session["hash"]]).read(message))
            continue
        data = bytearray.fromhex(said["bytes"])
        for _ in range(rng.choice((0, 0, 1, 1, 3))):
            _break(data, rng)
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            receive = connection.receive_control if said["channel"] == "control" else connection.receive_data
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
    made = HandMade(make_log(9), PeerSettings(policy=Policy(eagerness=Eagerness.NOTIFY)))
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
    made = HandMade(settings=PeerSettings(credit=100)).control(*[Grant(1)] * 5000)
    assert made.end.credit == 5000
    made.control(*[proposal(2 * number, 2**62) for number in range(100)])
    assert made.code is None
    assert made.control(proposal(200, 2**62)).code == "bamboo_p2p.credit"


def test_open_requests_are_small() -> None:
    made = HandMade(settings=PeerSettings(credit=10_000))
    tracemalloc.start()
    for number in range(300):
        made.control(proposal(2 * number, 1_000 + number))
        made.heard()
        made.end.take_events()
    assert made.code is None
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken / 300 < 8_000
