"""Values of the SDS topics: details, and bounds."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import RecordError
from culm_topics.sds.keys import is_id
from culm_topics.sds.records import MAX_DETAIL_ITEMS, MAX_DETAILS, SdsCommandRecord, SdsEventRecord, check_of
from tests.support.record_values import details


@pytest.mark.parametrize(
    "details",
    [
        {"b": 1, "a": 1},
        {"": 1},
        {"x" * 65: 1},
        {f"{number:02}": 1 for number in range(MAX_DETAILS + 1)},
        {"a": ["x"] * (MAX_DETAIL_ITEMS + 1)},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": -1},
        {"a": ["x", 1]},
        {"a": {"b": 1}},
    ],
)
def test_details_out_of_order_or_bounds_are_refused(details: dict[str, Any]) -> None:
    for items, decode in (
        ([1, 7, "lost", None, "id", 5, details, None], SdsEventRecord.decode),
        ([1, "join", "js", "ann", bytes(16), None, None, details], SdsCommandRecord.decode),
    ):
        with pytest.raises(RecordError):
            decode(cbor2.dumps(items))


def test_a_float_is_read_in_one_width_only() -> None:
    event = SdsEventRecord(7, "lost", None, "id", 5, {"a": 0.5})
    value = event.encode()
    half = value.replace(bytes.fromhex("fb3fe0000000000000"), bytes.fromhex("f93800"))
    assert cbor2.loads(half) == cbor2.loads(value)
    with pytest.raises(RecordError):
        SdsEventRecord.decode(half)


@given(details, st.randoms())
def test_equal_details_give_equal_bytes_in_whatever_order_they_were_put(known: Any, order: Any) -> None:
    shuffled = list(known.items())
    order.shuffle(shuffled)
    events = [SdsEventRecord(7, "lost", None, "id", 5, items) for items in (known, dict(shuffled))]
    assert events[0].encode() == events[1].encode()


def test_an_event_has_a_number_from_one() -> None:
    with pytest.raises(RecordError, match="number"):
        SdsEventRecord.decode(cbor2.dumps([1, 0, "lost", None, "id", 5, {}, None]))


def test_the_bound_of_an_id_counts_bytes_and_not_letters() -> None:
    assert is_id("é" * 512)
    assert not is_id("é" * 513)
    assert not is_id("")
    assert is_id("", empty=True)


def test_the_check_is_the_start_of_sha_256() -> None:
    assert check_of(b"") == bytes.fromhex("e3b0c442")
