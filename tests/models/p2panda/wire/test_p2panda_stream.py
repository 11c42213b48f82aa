"""Messages out of a byte stream, wherever it is cut, and how a fault ends it.

What a stream reads by its shape is what the strict way gives, and so are all refusals.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.cbor import ItemScanner
from culm_models.errors import CulmError
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    Announce,
    EntryMessage,
    Have,
    Message,
    SyncDone,
    SyncRequest,
)
from culm_models.p2panda.wire.reconciliation_codec import FORMS as FORM_NAMES
from culm_models.reconciliation.messages import ReconciliationMessage
from tests.support.p2panda.logs import SCHEMA
from tests.support.p2panda.vectors import reconciliation_messages

NUMBERS = st.sampled_from((0, 1, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1))
KEYS = st.binary(min_size=32, max_size=32) | st.binary(max_size=4).map(lambda key: key.ljust(32, b"\x00"))
BOUNDS = st.tuples(KEYS, NUMBERS, NUMBERS) | KEYS.map(lambda key: (key, 0, 0))
OCTETS = st.integers(0, 600).map(bytes)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    reconciliation_messages(NUMBERS, BOUNDS),
    st.builds(EntryMessage, NUMBERS, OCTETS, OCTETS),
    st.builds(SyncDone, NUMBERS, st.booleans()),
    st.builds(Have, NUMBERS, st.just(((b"\x07" * 32, 1, 2),))),
)
FORMS: st.SearchStrategy[codec.Form] = st.sampled_from(FORM_NAMES)
WIRES = st.lists(st.tuples(MESSAGES, FORMS), max_size=6).map(
    lambda messages: b"".join(codec.encode(message, form=form) for message, form in messages)
)
LIMITS = st.sampled_from((1, 5, 40, 80, 100, 150, 700, MAX_MESSAGE_BYTES))


def pieces(wire: bytes, cuts: list[int]) -> list[bytes]:
    """The wire, cut at these places."""
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


def strictly(wire: bytes, limit: int) -> tuple[list[Message], str | None]:
    """The messages of a wire and the code of what ends it, item by item."""
    scanner = ItemScanner(limit)
    messages: list[Message] = []
    try:
        messages.extend(map(codec.decode, scanner.feed(wire)))
    except cbor.CborError as error:
        return messages, _code(error)
    except CulmError as error:
        return messages, error.code
    return messages, None if scanner.error is None else _code(scanner.error)


def _code(error: cbor.CborError) -> str:
    too_large = error.code == "cbor.too_large"
    return "p2panda.message.too_large" if too_large else "p2panda.message.malformed"


def by_stream(parts: list[bytes], limit: int) -> tuple[list[Message], str | None]:
    """The same by a `MessageStream`."""
    stream = MessageStream(limit)
    messages: list[Message] = []
    for part in parts:
        try:
            messages += stream.feed(part)
        except CulmError:
            break
    return messages, None if stream.error is None else stream.error.code


@given(WIRES, st.lists(st.integers(0, 3000), max_size=5), LIMITS)
def test_sound_messages_are_those_of_the_strict_way(wire: bytes, cuts: list[int], limit: int) -> None:
    messages, code = by_stream(pieces(wire, cuts), limit)
    assert (messages, code) == strictly(wire, limit)
    assert code in {None, "p2panda.message.too_large"}


@given(WIRES, st.lists(st.integers(0, 3000), max_size=3), LIMITS, st.data())
def test_damaged_messages_are_judged_strictly(
    wire: bytes, cuts: list[int], limit: int, data: st.DataObject
) -> None:
    damaged = bytearray(wire)
    for _ in range(data.draw(st.integers(1, 3))):
        if damaged:
            at = data.draw(st.integers(0, len(damaged) - 1))
            if data.draw(st.booleans()):
                damaged[at] = data.draw(st.integers(0, 255))
            else:
                del damaged[at]
    assert by_stream(pieces(bytes(damaged), cuts), limit) == strictly(bytes(damaged), limit)


HEADS = (
    st.sampled_from(
        [
            bytes.fromhex(text)
            for text in (
                *("82", "83", "84", "85", "9803", "81", "a1", "80", "bf", "c1", "1f"),
                *(
                    "00",
                    "02",
                    "14",
                    "15",
                    "16",
                    "17",
                    "1814",
                    "1815",
                    "1818",
                    "1819",
                    "181a",
                    "181b",
                    "190018",
                ),
                *("05", "1805", "1818", "190100", "1a00000001", "1b0000000000000001", "20", "f4", "f5", "f6"),
                *("40", "42ab12", "4100", "581100", "590001aa", "60", "6161", "7820", "fb3ff0000000000000"),
            )
        ]
    )
    | st.just(b"\x58\x20" + b"\xab" * 32)
    | st.just(b"\x83\x58\x20" + b"\xab" * 32)
    | st.just(b"\x78\x40" + b"ab" * 32)
    | st.just(b"\x83\x78\x40" + b"ab" * 32)
    | st.just(b"\x83\x78\x40" + b"AB" * 32)
    | st.just(b"\x83\x78\x40" + b"\xff" * 64)
)


@given(st.lists(HEADS, max_size=14).map(b"".join), LIMITS)
@example(bytes.fromhex("82181a18"), 700)
@example(bytes.fromhex("821a00"), 5)
@example(bytes.fromhex("8419001840814000"), 5)
@example(bytes.fromhex("831818" + "00" + "5820" + "ab" * 31), 700)
@example(bytes.fromhex("841819" + "00" + "5841" + "00" * 65 + "40"), 700)
@example(bytes.fromhex("831818" + "00" + "5821" + "00" * 33), 700)
@example(bytes.fromhex("831814" + "00" + "f5"), 700)
def test_anything_that_looks_like_messages(wire: bytes, limit: int) -> None:
    assert by_stream([wire], limit) == strictly(wire, limit)


@given(WIRES, st.lists(st.integers(0, 3000), max_size=5))
def test_bytes_are_counted_by_session(wire: bytes, cuts: list[int]) -> None:
    stream = MessageStream()
    for part in pieces(wire, cuts):
        stream.feed(part)
    expected: dict[int, int] = {}
    for item in ItemScanner(MAX_MESSAGE_BYTES).feed(wire):
        message = codec.decode(item)
        if isinstance(message, ReconciliationMessage):
            expected[message.session_id] = expected.get(message.session_id, 0) + len(item)
    assert stream.reconciliation_bytes == expected


@given(MESSAGES)
def test_messages_are_frozen(message: Message) -> None:
    (decoded,) = MessageStream().feed(codec.encode(message))
    assert type(decoded) is type(message)
    assert hash(decoded) == hash(message)
    with pytest.raises(FrozenInstanceError):
        decoded.session_id = 5  # type: ignore[misc, union-attr]


EACH: tuple[Message, ...] = (
    Announce(1, 1_700_000_000, (SCHEMA,)),
    SyncRequest(0, 0, (SCHEMA,)),
    Have(0, ((b"\x07" * 32, 300, 70_000),)),
    EntryMessage(0, bytes(170), bytes(300)),
    EntryMessage(1000, bytes(2), b""),
    SyncDone(0, True),
)
WHOLE = b"".join(map(codec.encode, EACH))


@pytest.mark.parametrize("compat", ["spec", "aquadoggo"])
def test_split_at_every_byte(compat: codec.Compat) -> None:
    wire = b"".join(codec.encode(message, compat) for message in EACH)
    for cut in range(len(wire) + 1):
        stream = MessageStream()
        assert [*stream.feed(wire[:cut]), *stream.feed(wire[cut:])] == list(EACH)
        assert stream.pending == 0


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12), st.integers(1, 4))
def test_a_bounded_number_of_messages_is_decoded_at_once_and_none_is_lost(
    cuts: list[int], limit: int
) -> None:
    stream = MessageStream()
    received: list[Message] = []
    for start, end in pairwise([0, *sorted(cuts), len(WHOLE)]):
        received += stream.feed(WHOLE[start:end], limit)
    while stream.is_left:
        received += stream.feed(b"", limit)
    assert received == list(EACH)


def test_a_long_run_of_small_messages_is_decoded_in_parts() -> None:
    small = codec.encode(SyncDone(0, True))
    stream = MessageStream()
    assert len(stream.feed(small * 1_000, 300)) == 300
    assert stream.is_left
    assert len(stream.feed(b"", 300)) == 300
    assert len(stream.feed(small)) == 401
    assert not stream.is_left


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (b"\xff", "p2panda.message.malformed"),
        (b"\x9f", "p2panda.message.malformed"),
        (b"\x00", "p2panda.message.malformed"),
        (b"\x82\x04\x00", "p2panda.message.unknown_type"),
        (b"\x5a\xff\xff\xff\xff", "p2panda.message.too_large"),
        (b"\x9b" + b"\xff" * 8, "p2panda.message.too_large"),
    ],
)
def test_a_fault_ends_the_stream_after_what_came_before_it(fault: bytes, code: str) -> None:
    stream = MessageStream()
    assert stream.feed(WHOLE + fault + WHOLE) == list(EACH)
    assert stream.error is not None and stream.error.code == code
    for _ in range(2):
        with pytest.raises(CulmError) as caught:
            stream.feed(WHOLE)
        assert caught.value.code == code


def test_a_fault_without_anything_before_it_is_raised_at_once() -> None:
    with pytest.raises(CulmError):
        MessageStream().feed(b"\xff")


def test_the_limit_is_on_one_message_and_not_on_the_stream() -> None:
    data = codec.encode_entry_message(0, bytes(50), bytes(50))
    stream = MessageStream(len(data))
    assert len(stream.feed(data * 100)) == 100
    with pytest.raises(CulmError) as caught:
        MessageStream(len(data) - 1).feed(data)
    assert caught.value.code == "p2panda.message.too_large"
