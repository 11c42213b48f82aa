"""The compact form of the messages of set reconciliation: its bytes, and what they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.errors import CulmError
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
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
from tests.support.p2panda_vectors import reconciliation_messages

AB = b"\xab" * 32
AB_BYTES = "5820" + "ab" * 32
CUT = (b"\xab\x12".ljust(32, b"\x00"), 0, 0)

VECTORS: tuple[tuple[ReconciliationMessage, str], ...] = (
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
def test_bytes(message: ReconciliationMessage, expected: str) -> None:
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
def test_it_is_never_longer(message: ReconciliationMessage) -> None:
    assert len(codec.encode(message, form="compact")) <= len(codec.encode(message))


@pytest.mark.parametrize("place", [[21, 0], [23, 0], [24, 0], [25, 0, b""], [22, 0, [AB, 0, 1], True]])
def test_zero_bytes_at_the_end_of_a_prefix_change_nothing(place: list[Any]) -> None:
    short, long = (codec.decode(cbor.dumps([*place, spelled])) for spelled in (b"\xab", b"\xab\x00\x00"))
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
def test_what_is_no_bound_and_no_item(items: list[Any], code: str) -> None:
    with pytest.raises(CulmError) as caught:
        MessageStream().feed(cbor.dumps(items))
    assert caught.value.code == f"p2panda.message.{code}"
