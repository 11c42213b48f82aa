"""Messages of both channels: round trips, every split, and bytes that can never become a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.hashes import FLAVOURS, YAMF, YASMF
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup, encode_control, encode_setup
from culm_models.bamboo_p2p.wire.data import decode_data, encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    Eagerness,
    Grant,
    Metadata,
    Propose,
    Setup,
)
from culm_models.bymux import Endpoint
from tests.models.bamboo_p2p import vectors
from tests.models.bamboo_p2p.drawn_messages import control_messages, data_messages, flavours, numbers
from tests.models.bamboo_p2p.logs import make_log

KEY = bytes(range(32))


@given(st.data())
def test_control_messages_survive_every_split(data: st.DataObject) -> None:
    flavour = data.draw(flavours)
    message = data.draw(control_messages(flavour))
    encoded = encode_control(message)
    assert decode_control(encoded + b"\xff", 0, flavour) == (message, len(encoded))
    assert all(decode_control(encoded[:size], 0, flavour) is None for size in range(len(encoded)))


@given(st.data())
def test_data_messages_survive_every_split(data: st.DataObject) -> None:
    flavour = data.draw(flavours)
    message = data.draw(data_messages(flavour))
    encoded = encode_data(message)
    expects = isinstance(message, Metadata) and message.backlink is not None
    assert decode_data(encoded + b"\xff", 0, flavour, lambda: expects) == (message, len(encoded))
    for size in range(len(encoded)):
        assert decode_data(encoded[:size], 0, flavour, lambda: expects) is None


@given(st.booleans(), st.booleans(), numbers, numbers, st.integers(0, 63))
def test_setup_bytes_ignore_the_upper_bits(
    sends: bool, accepts: bool, send_window: int, receive_window: int, ignored: int
) -> None:
    setup = Setup(sends, accepts, send_window, receive_window)
    encoded = encode_setup(setup)
    assert encoded[0] < 4
    noisy = bytes((encoded[0] | ignored << 2,)) + encoded[1:]
    assert decode_setup(noisy + b"more") == (setup, len(encoded))
    assert all(decode_setup(encoded[:size]) is None for size in range(len(encoded)))


def test_the_bytes_of_messages_as_the_specification_writes_them() -> None:
    propose = Propose(2, KEY, 5, 4, 1, 0, 248, None, Eagerness.THRESHOLD, 9, 8, 13, sparse=True)
    assert encode_control(propose).hex() == f"d202{KEY.hex()}05040100f8f809080d"
    with_offset = Propose(0, KEY, 0, 3, None, 0, 1, YASMF.hash(b""), Eagerness.ALL, offset=7, mandatory=True)
    assert encode_control(with_offset).hex() == f"e900{KEY.hex()}00030001{YASMF.hash(b'').hex()}07"
    adjust = Adjust(1, Eagerness.THRESHOLD, 2, may_skip=True, end=3, upper=4, min_size=5, max_size=6)
    assert encode_control(adjust).hex() == "5f010203040506"
    assert encode_control(Adjust(1, max_size=256)).hex() == "0101f90100"
    assert encode_control(Grant(64)).hex() == "0040"
    assert encode_control(Cancel(3, CancelCode.END_OF_LOG, 9)).hex() == "860309"


@pytest.mark.parametrize("first", range(136, 160))
def test_unused_first_bytes_of_the_control_channel_are_refused(first: int) -> None:
    with pytest.raises(Malformed):
        decode_control(bytes((first,)), 0, YAMF)


@pytest.mark.parametrize("first", [1, *range(10, 16), *range(17, 32), *range(33, 128), *range(130, 256)])
def test_unused_first_bytes_of_the_data_channel_are_refused(first: int) -> None:
    with pytest.raises(Malformed):
        decode_data(bytes((first,)), 0, YAMF, lambda: False)


def test_a_hash_of_the_other_flavour_is_refused_at_its_second_byte() -> None:
    message = Metadata(False, None, 0, YASMF.hash(b""), bytes(64))
    begun = encode_data(message)[:4]
    assert decode_data(begun[:3], 0, YAMF, lambda: False) is None
    with pytest.raises(Malformed):
        decode_data(begun, 0, YAMF, lambda: False)


def test_the_payload_size_of_metadata_has_its_shortest_form() -> None:
    with pytest.raises(Malformed):
        decode_data(b"\x80\xf8\x01", 0, YAMF, lambda: False)
    # Elsewhere any spelling is taken, but for a reader that is told to be strict.
    assert decode_control(b"\x00\xf8\x01", 0, YAMF) == (Grant(1), 3)
    with pytest.raises(Malformed):
        decode_control(b"\x00\xf8\x01", 0, YAMF, strict=True)


def test_evidence_that_is_no_entry_is_refused() -> None:
    entry = make_log(2)[1].entry_bytes
    encoded = encode_control(Cancel(0, CancelCode.HASH_MISMATCH, entries=(entry,)))
    for wrong in (b"\x02", b"\x00" + KEY + b"\xf8\x00", b"\x00" + KEY + b"\x00\x00"):
        with pytest.raises(Malformed):
            decode_control(encoded[:2] + wrong + encoded[2 + len(wrong) :], 0, YAMF)


def test_what_does_not_belong_together_is_not_encoded() -> None:
    proof = make_log(2)[1].entry_bytes
    for message in (
        Propose(0, KEY, 0, 4, 4, 0, 0, None, Eagerness.ALL),
        Propose(0, KEY, 0, 4, 1, 0, 0, YAMF.hash(b""), Eagerness.ALL),
        Propose(0, KEY, 0, 4, 1, 0, 0, None, Eagerness.ALL, threshold=3),
        Propose(0, KEY, 0, 4, 1, 0, 0, None, Eagerness.ALL, end=5),
        Adjust(0),
        Cancel(0, CancelCode.DONE, entries=(proof,)),
        Cancel(0, CancelCode.END_OF_LOG),
    ):
        with pytest.raises(Malformed):
            encode_control(message)


# The published vectors are what the models say today, and sessions go as they do however bytes arrive.


HELD_BY_RULE = [name for name in vectors.FILES if name != "sessions.json"]
SESSIONS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "sessions.json").read_text())


@pytest.mark.parametrize("name", HELD_BY_RULE)
def test_the_published_bytes_are_those_of_the_models(name: str) -> None:
    assert (vectors.FOLDER / name).read_text() == vectors.text_of(name)


def test_the_published_sessions_are_those_of_two_ends() -> None:
    # What a compressor finds is its own matter, so compressed bytes are no rule.
    today = json.loads(json.dumps(vectors.sessions()))
    assert [session for session in today if "compressed" not in session["name"]] == [
        session for session in SESSIONS if "compressed" not in session["name"]
    ]


@pytest.mark.parametrize("split", [1, 2, 7, 100])
def test_sessions_go_on_the_same_way_however_their_bytes_arrive(split: int) -> None:
    for session, published in zip(vectors.sessions(split), SESSIONS, strict=True):
        assert [end["holds_then"] for end in session["ends"]] == [
            end["holds_then"] for end in published["ends"]
        ]
        if "compressed" not in session["name"]:
            assert [turn["bytes"] for turn in session["said"]] == [
                turn["bytes"] for turn in published["said"]
            ]


def test_hashes_of_entries_and_payloads_are_as_published() -> None:
    published = json.loads((vectors.FOLDER / "entries.json").read_text())
    for name, flavour in FLAVOURS.items():
        for row in published[name]:
            assert flavour.hash(bytes.fromhex(row["entry"])).hex() == row["hash"]


def test_a_bymux_end_refuses_as_published() -> None:
    published = json.loads((vectors.FOLDER / "bymux.json").read_text())
    for row in published["end_refuses"]:
        end = Endpoint(row["window"])
        end.receive(bytes.fromhex(row["bytes"]))
        assert end.dropped is not None, row
        assert end.dropped.code == row["code"], row
