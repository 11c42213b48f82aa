"""The newest ids of a log against another participant's filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.bloom import LayoutName, ReceivedFilter, filter_of
from culm_models.sds.delivery.log import Recent

ids = st.integers(0, 60).map("message {}".format)


@given(
    st.sampled_from(["spec", "js", "nim"]),
    st.lists(ids, unique=True, max_size=50),
    st.sets(ids),
    st.sets(ids),
    st.integers(1, 40),
    st.integers(0, 40),
)
def test_exactly_what_a_filter_does_not_hold_is_absent(
    layout: LayoutName, added: list[str], gone: set[str], others: set[str], most: int, but: int
) -> None:
    recent = Recent(layout, most)
    expected: list[str] = []
    found = ReceivedFilter.parse(layout, filter_of(layout, others, 1_000, 0.0001), 1_000, 0.0001)
    assert found is not None
    for message_id in added:
        recent.add(message_id)
        expected = [*expected, message_id][-most:]
        if message_id in gone:
            assert recent.absent(found) == [one for one in expected if one not in others]
            recent.drop(message_id)
            expected.remove(message_id)
    assert recent.ids() == expected
    asked = expected[: max(len(expected) - but, 0)]
    assert recent.absent(found, but=but) == [one for one in asked if one not in others]
    again = Recent(layout, most)
    again.extend(recent.ids())
    assert again.absent(found) == recent.absent(found)


@pytest.mark.parametrize("held", [1, 511, 512, 10_000])
def test_no_more_ids_are_kept_than_filters_hold(held: int) -> None:
    recent = Recent("js", held)
    recent.extend(str(number) for number in range(2_000))
    assert len(recent.ids()) == recent.most == min(held, 512)
