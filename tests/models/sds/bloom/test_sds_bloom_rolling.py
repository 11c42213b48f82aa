"""Our own filter: what it holds, how it starts over, and the values that it had."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.bloom import LAYOUTS, BloomShape, LayoutName, ReceivedFilter, RollingFilter, filter_of
from culm_models.sds.bloom import filters as bloom_filters
from culm_models.sds.errors import BloomForgottenError, BloomShapeError, BloomSnapshotError

layouts = st.sampled_from(tuple(LAYOUTS))
capacities = st.integers(2, 40)


def ids(count: int, start: int = 0) -> list[str]:
    return [hashlib.sha256(b"%d" % index).hexdigest() for index in range(start, start + count)]


def received(layout: LayoutName, value: bytes, capacity: int) -> ReceivedFilter:
    parsed = ReceivedFilter.parse(layout, value, capacity, 0.001)
    assert parsed is not None
    return parsed


def grown(layout: LayoutName, capacity: int, count: int) -> tuple[RollingFilter, list[bytes]]:
    """A filter of so many ids, and its value at each mark."""
    rolling = RollingFilter(layout, capacity, 0.001)
    values = [rolling.value()]
    for message_id in ids(count):
        rolling.add(message_id)
        values.append(rolling.value())
    return rolling, values


@given(layouts, capacities, st.integers(0, 150))
def test_every_held_id_is_found_and_the_fill_stays_within_the_design(
    layout: LayoutName, capacity: int, count: int
) -> None:
    rolling, _ = grown(layout, capacity, count)
    filter_now = received(layout, rolling.value(), capacity)
    newest = ids(count)[count - len(rolling) :]
    assert all(filter_now.contains(LAYOUTS[layout].hash_pair(message_id)) for message_id in newest)
    assert len(rolling) <= (capacity if layout != "nim" else capacity * 12 // 10)
    assert len(rolling) >= min(count, capacity // 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_however_many_ids_come_the_filter_stays_evidence(layout: LayoutName) -> None:
    rolling = RollingFilter(layout, 500, 0.001)
    for index, message_id in enumerate(ids(2_000)):
        rolling.add(message_id)
        if index % 50 == 49:
            assert received(layout, rolling.value(), 500).is_evidence


@given(layouts, capacities, st.integers(0, 150))
def test_the_value_is_that_of_a_filter_made_of_the_held_ids(
    layout: LayoutName, capacity: int, count: int
) -> None:
    rolling, _ = grown(layout, capacity, count)
    started_over = layout == "nim" and count > capacity * 12 // 10
    measure = capacity * 12 // 10 if started_over else capacity
    assert rolling.value() == filter_of(layout, ids(count)[count - len(rolling) :], measure, 0.001)


@given(layouts, capacities, st.integers(0, 120), st.data())
def test_a_former_value_comes_back_byte_for_byte(
    layout: LayoutName, capacity: int, count: int, data: st.DataObject
) -> None:
    rolling, values = grown(layout, capacity, count)
    for mark in data.draw(st.lists(st.integers(0, count), max_size=8)):
        assert rolling.value_at(mark) == values[mark]
    assert rolling.value() == values[-1]


@given(layouts, capacities, st.integers(0, 120), st.lists(st.integers(0, 120), max_size=4))
def test_packed_parts_make_the_same_filter_again(
    layout: LayoutName, capacity: int, count: int, cuts: list[int]
) -> None:
    rolling = RollingFilter(layout, capacity, 0.001)
    again = RollingFilter(layout, capacity, 0.001)
    for index, message_id in enumerate(ids(count)):
        rolling.add(message_id)
        if index in cuts:
            again.extend_packed(rolling.pack_since(again.mark))
    again.extend_packed(rolling.pack_since(again.mark))
    assert (again.mark, again.value(), len(again)) == (rolling.mark, rolling.value(), len(rolling))
    assert again.pack_since(0) == rolling.pack_since(0)
    again.add("one more")
    rolling.add("one more")
    assert again.value() == rolling.value()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forgotten_marks_are_refused_and_later_ones_stay_exact(layout: LayoutName) -> None:
    rolling, values = grown(layout, 100, 3_000)
    rolling.forget(2_950)
    assert rolling.mark == 3_000
    assert rolling.value_at(2_950) == values[2_950]
    assert rolling.value_at(3_000) == values[3_000]
    with pytest.raises(BloomForgottenError):
        rolling.value_at(100)
    with pytest.raises(BloomForgottenError):
        rolling.value_at(3_001)
    again = RollingFilter(layout, 100, 0.001)
    again.extend_packed(rolling.pack_since(0))
    assert (again.mark, again.value()) == (3_000, values[3_000])
    assert len(rolling.pack_since(0)) < len(grown(layout, 100, 3_000)[0].pack_since(0)) // 10


def test_forgetting_costs_no_copy_for_each_id() -> None:
    rolling, _ = grown("js", 100, 1_000)
    rolling.forget(900)
    assert len(rolling.pack_since(0)) == 8 + 8 * 1_000


def test_parts_that_are_cut_or_out_of_order_are_refused() -> None:
    rolling, _ = grown("js", 100, 30)
    again = RollingFilter("js", 100, 0.001)
    for broken in (b"", rolling.pack_since(0)[:-1], rolling.pack_since(0)[:7]):
        with pytest.raises(BloomSnapshotError):
            again.extend_packed(broken)
    again.extend_packed(rolling.pack_since(0))
    with pytest.raises(BloomSnapshotError):
        again.extend_packed(rolling.pack_since(29))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_filters_are_the_same_with_and_without_numpy(
    layout: LayoutName, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_numpy, _ = grown(layout, 1_000, 1_700)
    monkeypatch.setattr(bloom_filters, "_vectors", lambda: None)
    without, _ = grown(layout, 1_000, 1_700)
    assert without.value() == with_numpy.value()
    assert without.value_at(1_650) == with_numpy.value_at(1_650)
    words = without.value()[:1_800]
    one_by_one = bloom_filters.set_bit_count(words)
    pairs = [(words, words), (words, bytes(1_800)), (words, b"\xff" * 1_800), (bytes(1_800), words)]
    covered = [bloom_filters.covers(*pair) for pair in pairs]
    assert covered == [True, True, False, False]
    monkeypatch.undo()
    assert bloom_filters.set_bit_count(words) == one_by_one
    assert [bloom_filters.covers(*pair) for pair in pairs] == covered


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_rollover_of_nim_widens_the_filter_and_ours_keeps_its_size(layout: LayoutName) -> None:
    rolling, values = grown(layout, 100, 121)
    if layout == "nim":
        assert len(rolling) == 80
        assert len(values[120]) < len(values[121])
    else:
        assert len(rolling) == 50 + 121 - 101
        assert len(set(map(len, values))) == 1


@pytest.mark.parametrize(
    ("capacity", "error_rate"), [(0, 0.1), (-1, 0.1), (10, 0.0), (10, 1.0), (10**9, 0.001)]
)
def test_measures_that_give_no_filter_are_refused(capacity: int, error_rate: float) -> None:
    with pytest.raises(BloomShapeError) as refused:
        BloomShape.sized(capacity, error_rate)
    assert refused.value.code == "sds.bloom.shape"
