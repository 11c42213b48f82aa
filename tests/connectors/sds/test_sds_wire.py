"""Frames of the edge protocol: every kind and back, cut anywhere, and what is refused with which code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.sds.errors import FrameError
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames import messages as frames
from culm_models.sds.frames.messages import Frame
from culm_models.sds.wire.messages import HistoryEntry

FRAMES: list[Frame] = [
    frames.Hello(1, 65_536, 16),
    frames.Join("room", "spec", "alice"),
    frames.Join("room", "nim", "alice", True, b"", 7, {"causal_history_size": 2, "bloom_error_rate": 0.01}),
    frames.Joined("room"),
    frames.Mark("room", b"\x00" * 12, True),
    frames.Leave("room", True),
    frames.SdsMessage("room", b"\x0a\x01a" * 30, b"K" * 17),
    frames.SdsMessage("Raum é", b""),
    frames.Send("room", bytes(16), b"hello", False),
    frames.Accepted("room", bytes(range(16))),
    frames.EventFrame("room", 3, "delivered", None, "ab", 17, {"position": 2, "gap": ["x"]}, b"hello", b"c"),
    frames.EventFrame("room", None, "delivered", "alice", "ab", 17, {"ephemeral": True}),
    frames.Fetch("room", 2**64 - 1, (HistoryEntry("a", b"hint", "bob"), HistoryEntry("b"))),
    frames.Fetched("room", 0, ((b"one", None), (b"two", b"hint")), True),
    frames.AskHead("room"),
    frames.Head("room", ((1, "a"), (2**63, "b"))),
    frames.Refused("sds.join.refused", "not you", "room"),
    frames.Refused("sds.size", "", "room", bytes(16)),
]


def body(*items: Any) -> bytes:
    data = cbor.dumps(items)
    return len(data).to_bytes(4, "big") + data


def feed(reader: wire.FrameReader, data: bytes) -> list[Frame]:
    """All frames that are complete with these bytes."""
    reader.feed(data)
    return list(reader.frames())


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_every_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert feed(wire.FrameReader(), wire.encode(frame)) == [frame]


def test_every_kind_has_an_example() -> None:
    assert {type(frame) for frame in FRAMES} == set(wire._NUMBERS)


def test_a_stream_may_be_cut_at_every_byte() -> None:
    data = b"".join(map(wire.encode, FRAMES))
    for cut in range(len(data) + 1):
        reader = wire.FrameReader()
        assert feed(reader, data[:cut]) + feed(reader, data[cut:]) == FRAMES
        assert reader.pending == 0
    reader = wire.FrameReader()
    one_by_one = [frame for byte in data for frame in feed(reader, bytes([byte]))]
    assert one_by_one == FRAMES


@given(st.binary(max_size=200), st.integers(0, 200))
def test_noise_is_refused_by_a_typed_error_or_waits_for_more(data: bytes, cut: int) -> None:
    outcomes = []
    for parts in ([data], [data[:cut], data[cut:], b""]):
        reader, seen, code = wire.FrameReader(1_000), [], None
        try:
            for part in parts:
                reader.feed(part)
                while (frame := reader.next()) is not None:
                    seen.append(frame)
        except FrameError as error:
            code = error.code
        outcomes.append((seen, code))
    assert outcomes[0] == outcomes[1]


@given(st.sampled_from(FRAMES), st.data())
def test_a_changed_byte_never_escapes_the_door(frame: Frame, data: st.DataObject) -> None:
    encoded = bytearray(wire.encode(frame))
    index = data.draw(st.integers(0, len(encoded) - 1))
    encoded[index] ^= data.draw(st.integers(1, 255))
    try:
        frames = feed(wire.FrameReader(10_000), bytes(encoded))
    except FrameError:
        return
    assert all(wire.decode(wire.encode(frame)[4:]) == frame for frame in frames)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes(4), "sds.frame.too_large"),
        ((101).to_bytes(4, "big"), "sds.frame.too_large"),
        (b"\xff\xff\xff\xff", "sds.frame.too_large"),
        (b"\x00\x00\x00\x01\xff", "sds.frame.cbor"),
        (b"\x00\x00\x00\x02\x01\x01", "sds.frame.cbor"),
        (b"\x00\x00\x00\x01\x01", "sds.frame.shape"),
        (body(), "sds.frame.shape"),
        (body("join"), "sds.frame.shape"),
        (body(True), "sds.frame.shape"),
        (body(99, "room"), "sds.frame.kind"),
        (body(2), "sds.frame.shape"),
        (body(2, "room", 1), "sds.frame.shape"),
        (body(2, ""), "sds.frame.shape"),
        (body(2, b"room"), "sds.frame.shape"),
        (body(4, "room", 1), "sds.frame.shape"),
        (body(6, "room", bytes(15), b"", False), "sds.frame.shape"),
        (body(1, "room", "waku", "alice", False, None, 0, {}), "sds.frame.shape"),
        (body(1, "room", "spec", "", False, None, 0, {}), "sds.frame.shape"),
        (body(1, "room", "spec", "alice", False, None, -1, {}), "sds.frame.shape"),
        (body(1, "room", "spec", "alice", False, None, 0, {"a": []}), "sds.frame.shape"),
        (body(9, "room", 0, [["a", None]]), "sds.frame.shape"),
        (body(12, "room", [[-1, "a"]]), "sds.frame.shape"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_code(data: bytes, code: str) -> None:
    with pytest.raises(FrameError) as raised:
        feed(wire.FrameReader(100), data)
    assert raised.value.code == code


def test_too_many_entries_are_refused() -> None:
    entries = [["a", None, None]] * (frames.MAX_ENTRIES + 1)
    with pytest.raises(FrameError) as raised:
        feed(wire.FrameReader(), body(9, "room", 0, entries))
    assert raised.value.code == "sds.frame.shape"


def test_a_frame_of_very_many_items_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = frames.Fetched("room", 1, ((b"wire", None),) * frames.MAX_WIRES, True)
    assert feed(wire.FrameReader(), wire.encode(largest)) == [largest]
    monkeypatch.setattr("cbor2.CBORDecoder", None)
    with pytest.raises(FrameError, match=r"cbor\.too_many_items") as raised:
        feed(wire.FrameReader(), body(8, [[]] * 5_000))
    assert raised.value.code == "sds.frame.cbor"


def test_a_length_beyond_the_bound_takes_no_memory_and_ends_the_stream() -> None:
    reader = wire.FrameReader(1_000)
    for data in ((1_001).to_bytes(4, "big"), wire.encode(FRAMES[0])):
        with pytest.raises(FrameError):
            feed(reader, data)
    assert reader.pending < 1_000


def test_what_came_before_a_fault_is_returned_and_the_fault_next() -> None:
    reader = wire.FrameReader()
    reader.feed(wire.encode(FRAMES[0]) + bytes(4))
    assert reader.next() == FRAMES[0]
    with pytest.raises(FrameError):
        reader.next()


@pytest.mark.parametrize("settings", [{"n" * 65: 1}, {"name": "t" * 257}, {"": 1}])
def test_a_setting_is_short(settings: dict[str, object]) -> None:
    data = body(1, "room", "spec", "alice", True, None, 0, settings)
    with pytest.raises(FrameError) as raised:
        feed(wire.FrameReader(), data)
    assert raised.value.code == "sds.frame.shape"
