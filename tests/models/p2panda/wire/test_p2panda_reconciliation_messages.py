"""The messages of set reconciliation in both forms: their bytes by the grammar, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.errors import CulmError
from culm_models.p2panda.errors import FingerprintSizeError
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Message
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from tests.support.p2panda.vectors import reconciliation_messages

PK = bytes.fromhex("2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96")
KEY = PK.hex()

# The key of the vectors is 32 bytes ab: in CBOR 78 40 (text of 64 bytes), then the letters "ab" 32 times.
AB = b"\xab" * 32
AB_TEXT = "7840" + "6162" * 32
AB_BYTES = "5820" + "ab" * 32
BOUND = "83" + AB_TEXT + "0000"
ITEM = "83" + AB_TEXT + "0319012c"

VECTORS: tuple[tuple[Message, str], ...] = (
    (EmptySet(51, True), "83141833f5"),
    (EmptySet(0, False), "831400f4"),
    (LowerBound(51, (AB, 0, 0)), "83151833" + BOUND),
    (Payload(51, (AB, 3, 300)), "83161833" + ITEM),
    (Payload(51, (AB, 3, 300), True), "84161833" + ITEM + "f5"),
    (Payload(51, (AB, 3, 300), False), "84161833" + ITEM + "f4"),
    (Payload(51, (AB, 3, 300), True, (AB, 0, 0)), "85161833" + ITEM + "f5" + BOUND),
    (Payload(51, (AB, 3, 300), False, (AB, 3, 300)), "85161833" + ITEM + "f4" + ITEM),
    (EmptyPayload(51, (AB, 0, 0)), "83171833" + BOUND),
    (Done(51, (AB, 3, 300)), "8318181833" + ITEM),
    (Fingerprint(51, b"\x01\x02\x03\x04", (AB, 0, 0)), "84181918334401020304" + BOUND),
    (Fingerprint(51, b"", (AB, 0, 0)), "841819183340" + BOUND),
    (Fingerprint(51, bytes(64), (AB, 0, 0)), "84181918335840" + "00" * 64 + BOUND),
    (Terminal(51), "82181a1833"),
    (Terminal(2**64 - 1), "82181a1b" + "ff" * 8),
    (Done(0, (AB, 2**64 - 1, 2**64 - 1)), "83181800" + "83" + AB_TEXT + ("1b" + "ff" * 8) * 2),
)

CUT = (b"\xab\x12".ljust(32, b"\x00"), 0, 0)

COMPACT: tuple[tuple[ReconciliationMessage, str], ...] = (
    (EmptySet(51, True), "83141833f5"),
    (LowerBound(51, (bytes(32), 0, 0)), "8315183340"),
    (LowerBound(51, (AB, 0, 0)), "83151833" + AB_BYTES),
    (Payload(51, (AB, 3, 300)), "8316183383" + AB_BYTES + "0319012c"),
    # An item is no bound: its key is always whole.
    (Payload(51, CUT), "8316183383" + "5820ab12" + "00" * 30 + "0000"),
    (Payload(51, (AB, 3, 300), True, CUT), "8516183383" + AB_BYTES + "0319012cf542ab12"),
    (EmptyPayload(51, CUT), "8317183342ab12"),
    # A bound within an author's logs has no shorter spelling than its key.
    (EmptyPayload(51, (AB, 1, 0)), "8317183383" + AB_BYTES + "0100"),
    (Done(51, (CUT[0], 0, 1)), "8318181833835820ab12" + "00" * 30 + "0001"),
    (Fingerprint(51, b"\x01\x02", CUT), "8418191833420102" + "42ab12"),
    (Fingerprint(51, bytes(33), CUT), "84181918335821" + "00" * 33 + "42ab12"),
    (Terminal(51), "82181a1833"),
)

U64 = st.integers(0, 2**64 - 1)
KEYS = st.binary(min_size=32, max_size=32) | st.binary(max_size=32).map(
    lambda start: start.ljust(32, b"\x00")
)
BOUNDS = st.tuples(KEYS, st.just(0) | U64, st.just(0) | U64)
MESSAGES = reconciliation_messages(U64, BOUNDS)


@pytest.mark.parametrize(("message", "expected"), VECTORS)
@pytest.mark.parametrize("compat", ["spec", "aquadoggo"])
def test_bytes_of_the_grammar(message: Message, expected: str, compat: codec.Compat) -> None:
    assert codec.encode(message, compat).hex() == expected
    assert codec.decode(bytes.fromhex(expected)) == message


@pytest.mark.parametrize(("message", "expected"), VECTORS)
def test_a_key_of_32_bytes_is_read_as_well(message: Message, expected: str) -> None:
    assert codec.decode(bytes.fromhex(expected.replace(AB_TEXT, AB_BYTES))) == message


def test_messages_of_different_types_are_never_equal() -> None:
    bound = (PK, 0, 0)
    assert len({EmptyPayload(0, bound), Done(0, bound), LowerBound(0, bound)}) == 3


@pytest.mark.parametrize(("message", "expected"), VECTORS)
def test_what_is_cut_short_is_malformed(message: Message, expected: str) -> None:
    data = bytes.fromhex(expected)
    for end in range(len(data)):
        with pytest.raises(CulmError) as caught:
            codec.decode(data[:end])
        assert caught.value.code == "p2panda.message.malformed"


ONE = [KEY, 0, 1]
ZERO = [KEY, 0, 0]
# Every place of a bound or an item: what comes before it, and what after.
BOUND_PLACES: tuple[tuple[list[Any], list[Any]], ...] = (
    ([21, 0], []),
    ([22, 0, ONE, True], []),
    ([23, 0], []),
    ([24, 0], []),
    ([25, 0, b""], []),
)
PLACES = (*BOUND_PLACES, ([22, 0], []), ([22, 0], [True]), ([22, 0], [True, ZERO]))
WRONG_TRIPLES: tuple[tuple[Any, str], ...] = (
    (None, "item_kind"),
    (5, "item_kind"),
    (KEY, "item_kind"),
    ({}, "item_kind"),
    ([], "item_count"),
    ([KEY, 0], "item_count"),
    ([KEY, 0, 1, 2], "item_count"),
    ([5, 0, 1], "item_kind"),
    ([None, 0, 1], "item_kind"),
    ([KEY[:-1], 0, 1], "public_key"),
    ([KEY + "0", 0, 1], "public_key"),
    ([KEY.upper(), 0, 1], "public_key"),
    ([KEY[:-1] + "g", 0, 1], "public_key"),
    ([KEY[:-2] + "  ", 0, 1], "public_key"),
    ([KEY[:-1] + "\u0663", 0, 1], "public_key"),
    ([PK[:-1], 0, 1], "public_key"),
    ([PK + b"\x00", 0, 1], "public_key"),
    ([KEY.encode(), 0, 1], "public_key"),
    ([KEY, "0", 1], "item_kind"),
    ([KEY, True, 1], "item_kind"),
    ([KEY, -1, 1], "item_range"),
    ([KEY, 0, "1"], "item_kind"),
    ([KEY, 0, 1.0], "item_kind"),
    ([KEY, 0, None], "item_kind"),
    ([KEY, 0, -1], "item_range"),
)


def refusal(items: list[Any]) -> str:
    """The code that an array of items is refused with."""
    with pytest.raises(CulmError) as caught:
        codec.decode(cbor.dumps(items))
    return caught.value.code.removeprefix("p2panda.message.")


@pytest.mark.parametrize(("before", "after"), PLACES)
@pytest.mark.parametrize(("wrong", "code"), WRONG_TRIPLES)
def test_what_is_no_item_and_no_bound(before: list[Any], after: list[Any], wrong: Any, code: str) -> None:
    codec.decode(cbor.dumps([*before, ONE, *after]))
    assert refusal([*before, wrong, *after]) == code


@pytest.mark.parametrize(("before", "after"), BOUND_PLACES)
def test_a_bound_may_have_sequence_number_0(before: list[Any], after: list[Any]) -> None:
    codec.decode(cbor.dumps([*before, ZERO, *after]))


@pytest.mark.parametrize("end", [[], [True], [False, ZERO]])
def test_an_item_with_sequence_number_0_says_that_a_log_is_not_held(end: list[Any]) -> None:
    message = codec.decode(cbor.dumps([22, 0, ZERO, *end]))
    assert isinstance(message, Payload) and message.value == (PK, 0, 0)
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([20], "item_count"),
        ([20, 0], "item_count"),
        ([20, 0, True, True], "item_count"),
        ([20, 0, 1], "item_kind"),
        ([20, 0, None], "item_kind"),
        ([21, 0], "item_count"),
        ([21, 0, ZERO, ZERO], "item_count"),
        # A bound is an array of its own; spelled out flat it is too many items.
        ([21, 0, KEY, 0, 0], "item_count"),
        ([22, 0], "item_count"),
        ([22, 0, ONE, True, ZERO, True], "item_count"),
        # Optional items are left out, and from the end: neither null nor skipped.
        ([22, 0, ONE, None], "item_kind"),
        ([22, 0, ONE, None, None], "item_kind"),
        ([22, 0, ONE, True, None], "item_kind"),
        ([22, 0, ONE, None, ZERO], "item_kind"),
        ([22, 0, ONE, ZERO], "item_kind"),
        ([22, 0, ONE, ZERO, True], "item_kind"),
        ([22, 0, ONE, 1, ZERO], "item_kind"),
        ([23, 0], "item_count"),
        ([23, 0, ZERO, ZERO], "item_count"),
        ([24, 0], "item_count"),
        ([24, 0, ZERO, ZERO], "item_count"),
        ([25, 0, b""], "item_count"),
        ([25, 0, b"", ZERO, 0], "item_count"),
        ([25, 0, "00", ZERO], "item_kind"),
        ([25, 0, 7, ZERO], "item_kind"),
        ([25, 0, [b""], ZERO], "item_kind"),
        ([25, 0, None, ZERO], "item_kind"),
        ([25, 0, bytes(65), ZERO], "fingerprint_size"),
        ([25, 0, ZERO, b""], "item_kind"),
        ([26], "item_count"),
        ([26, 0, 0], "item_count"),
        ([19, 0], "unknown_type"),
        ([27, 0], "unknown_type"),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(items: list[Any], code: str) -> None:
    assert refusal(items) == code


@pytest.mark.parametrize("message", [message for message, _ in VECTORS])
@pytest.mark.parametrize(
    ("session_id", "code"),
    [("0", "item_kind"), (None, "item_kind"), (True, "item_kind"), (-1, "item_range")],
)
def test_a_session_id_is_a_number_from_0(message: Message, session_id: Any, code: str) -> None:
    items = cbor.loads(codec.encode(message))
    assert refusal([items[0], session_id, *items[2:]]) == code


NOISE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-1, 3),
        st.text(max_size=3),
        st.binary(max_size=70),
        st.sampled_from((KEY, PK, ONE, ZERO)),
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


@given(st.integers(20, 26), st.integers(0, 3), st.lists(NOISE, max_size=4))
def test_any_items_are_a_message_or_refused(message_type: int, session_id: int, rest: list[Any]) -> None:
    try:
        message = codec.decode(cbor.dumps([message_type, session_id, *rest]))
    except CulmError as error:
        assert error.code.startswith("p2panda.message.")
    else:
        assert codec.decode(codec.encode(message)) == message


def test_a_fingerprint_too_long_to_be_read_is_not_written() -> None:
    with pytest.raises(FingerprintSizeError):
        codec.encode(Fingerprint(0, bytes(65), (PK, 0, 0)))


@pytest.mark.assertions
def test_an_upper_bound_without_can_respond_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        Payload(0, (PK, 0, 1), None, (PK, 0, 0))


@pytest.mark.parametrize(("message", "expected"), COMPACT)
def test_bytes_of_the_compact_form(message: ReconciliationMessage, expected: str) -> None:
    assert codec.encode(message, form="compact").hex() == expected
    assert codec.decode(bytes.fromhex(expected)) == message
    assert MessageStream().feed(bytes.fromhex(expected)) == [message]


@given(st.lists(MESSAGES, max_size=8))
def test_both_forms_say_the_same(messages: list[ReconciliationMessage]) -> None:
    for form in ("hex", "compact"):
        wire = codec.encode_many(messages, form)
        assert wire == b"".join(codec.encode(message, form=form) for message in messages)
        assert MessageStream().feed(wire) == messages


@given(MESSAGES)
def test_numbers_and_lengths_are_as_short_as_they_can_be(message: ReconciliationMessage) -> None:
    for form in ("hex", "compact"):
        data = codec.encode(message, form=form)
        assert cbor.dumps(cbor.loads(data)) == data


@given(MESSAGES)
def test_the_compact_form_is_never_longer(message: ReconciliationMessage) -> None:
    assert len(codec.encode(message, form="compact")) <= len(codec.encode(message))


@pytest.mark.parametrize("head", [[21, 0], [23, 0], [24, 0], [25, 0, b""], [22, 0, [AB, 0, 1], True]])
def test_zero_bytes_at_the_end_of_a_prefix_change_nothing(head: list[Any]) -> None:
    short, long = (codec.decode(cbor.dumps([*head, spelled])) for spelled in (b"\xab", b"\xab\x00\x00"))
    assert short == long


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([21, 0, bytes(33)], "public_key"),
        ([24, 0, "ab"], "item_kind"),
        ([22, 0, AB], "item_kind"),
        ([22, 0, AB, True, AB], "item_kind"),
        ([25, 0, b"", [b"\xab", 0, 0]], "public_key"),
    ],
)
def test_what_is_no_bound_and_no_item_of_the_compact_form(items: list[Any], code: str) -> None:
    with pytest.raises(CulmError) as caught:
        MessageStream().feed(cbor.dumps(items))
    assert caught.value.code == f"p2panda.message.{code}"
