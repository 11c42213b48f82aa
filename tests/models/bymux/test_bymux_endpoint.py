"""Two ends of bymux in any order: nothing is lost, credit is kept to and conserved, control never waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bymux import (
    CONTROL,
    DATA,
    MAX_WRITE_BYTES,
    Endpoint,
    Frame,
    FrameType,
    decode_frame,
    encode_frame,
)

NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 300)
TYPES_WITH_AMOUNT = (FrameType.CREDIT, FrameType.WRITE)


@given(st.sampled_from(FrameType), NUMBERS, NUMBERS)
def test_frames_survive_every_split(frame_type: FrameType, stream: int, amount: int) -> None:
    frame = Frame(frame_type, stream, amount if frame_type in TYPES_WITH_AMOUNT else None)
    encoded = encode_frame(frame)
    assert decode_frame(encoded + b"\xff") == (frame, len(encoded))
    assert all(decode_frame(encoded[:size]) is None for size in range(len(encoded)))


@given(st.integers(0, 40), st.data())
def test_any_order_brings_all_of_it_within_the_credit_that_was_given(
    window: int, data: st.DataObject
) -> None:
    sender, receiver = Endpoint(), Endpoint(window)
    there, back = bytearray(), bytearray()
    written: dict[int, bytes] = {CONTROL: b"", DATA: b""}
    came: dict[int, bytes] = {CONTROL: b"", DATA: b""}
    consumed = 0

    def carry(size: int) -> None:
        there.extend(sender.take())
        back.extend(receiver.take())
        for stream, chunk in receiver.receive(bytes(there[:size])):
            came[stream] += chunk
        sender.receive(bytes(back[:size]))
        del there[:size], back[:size]

    for step in data.draw(st.lists(st.sampled_from(("control", "data", "carry", "consume")), max_size=60)):
        match step:
            case "control" | "data":
                stream = CONTROL if step == "control" else DATA
                content = data.draw(st.binary(max_size=60))
                sender.write(stream, content)
                written[stream] += content
            case "carry":
                carry(data.draw(st.integers(1, 100)))
            case _:
                amount = data.draw(st.integers(0, len(came[DATA]) - consumed))
                receiver.consumed(DATA, amount)
                consumed += amount
        # What came and is not consumed is never more than was granted at a time.
        assert len(came[DATA]) - consumed <= window
        assert all(written[stream].startswith(came[stream]) for stream in came)
    # With a window of one byte each byte takes two rounds: its own, and that of the credit behind it.
    for _ in range(2 * len(written[DATA]) + len(written[CONTROL]) + 10):
        carry(100_000)
        receiver.consumed(DATA, len(came[DATA]) - consumed)
        consumed = len(came[DATA])
    assert came[CONTROL] == written[CONTROL]
    if window:
        assert came[DATA] == written[DATA]
        # As much may come now as at the beginning, but for what is not worth a frame yet.
        assert window // 2 <= sender.capacity <= window
    assert sender.dropped is None and receiver.dropped is None


@given(st.binary(max_size=80), st.lists(st.integers(1, 20), max_size=20))
def test_any_bytes_come_to_the_same_however_they_are_split(content: bytes, sizes: list[int]) -> None:
    whole, split = Endpoint(50), Endpoint(50)
    expected = b"".join(chunk for stream, chunk in whole.receive(content) if stream == DATA)
    came, rest = b"", content
    for size in [*sizes, len(content)]:
        came += b"".join(chunk for stream, chunk in split.receive(rest[:size]) if stream == DATA)
        rest = rest[size:]
    assert came == expected
    assert type(split.dropped) is type(whole.dropped)


def test_control_goes_before_data_and_no_frame_is_longer_than_a_turn() -> None:
    sender, receiver = Endpoint(), Endpoint(2**64 - 1)
    sender.receive(receiver.take())
    sender.write(DATA, bytes(3 * MAX_WRITE_BYTES))
    waiting = Endpoint()
    waiting.write(DATA, b"waits for credit")
    waiting.write(CONTROL, b"goes at once")
    assert b"goes at once" in waiting.take()
    sent, at, frames = sender.take(), 0, 0
    while at < len(sent):
        decoded = decode_frame(sent, at)
        assert decoded is not None
        if decoded[0].type is FrameType.WRITE:
            assert (decoded[0].amount or 0) <= MAX_WRITE_BYTES
            frames += 1
        at = decoded[1] + (decoded[0].amount or 0 if decoded[0].type is FrameType.WRITE else 0)
    assert frames == 3


@pytest.mark.parametrize("amount", [1, 100])
def test_credit_that_was_not_given_is_not_used(amount: int) -> None:
    endpoint = Endpoint()
    endpoint.take()
    endpoint.write(DATA, bytes(1_000))
    assert endpoint.take() == b""
    endpoint.receive(encode_frame(Frame(FrameType.CREDIT, DATA, amount)))
    assert endpoint.take() == encode_frame(Frame(FrameType.WRITE, DATA, amount)) + bytes(amount)
