"""Filters from elsewhere: read on their bytes, ignored when they cannot be read, not believed when full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.bloom import LAYOUTS, LayoutName, ReceivedFilter, RollingFilter, filter_of
from culm_models.sds.delivery.log import Recent

layouts = st.sampled_from(["spec", "js", "nim"])
ids = st.text(st.characters(codec="utf-8"), max_size=12)
MEASURES = 40, 0.01


@given(layouts, st.sets(ids, max_size=40), st.sets(ids, max_size=20))
def test_what_was_put_in_is_found_and_what_was_not_is_seldom(
    layout: LayoutName, inside: set[str], outside: set[str]
) -> None:
    received = ReceivedFilter.parse(layout, filter_of(layout, inside, *MEASURES), *MEASURES)
    assert received is not None
    assert all(received.contains(LAYOUTS[layout].hash_pair(message_id)) for message_id in inside)
    wrong = [
        message_id
        for message_id in outside - inside
        if received.contains(LAYOUTS[layout].hash_pair(message_id))
    ]
    assert len(wrong) <= 5


@given(st.sampled_from(["spec", "js"]), st.integers(0, 200))
def test_a_filter_of_another_length_says_nothing(layout: LayoutName, size: int) -> None:
    right = len(filter_of(layout, [], *MEASURES))
    parsed = ReceivedFilter.parse(layout, bytes(size), *MEASURES)
    assert (parsed is not None) == (size == right)


@given(layouts, st.binary(max_size=120))
def test_any_bytes_are_read_or_ignored(layout: LayoutName, value: bytes) -> None:
    parsed = ReceivedFilter.parse(layout, value, *MEASURES)
    if parsed is not None:
        parsed.contains(LAYOUTS[layout].hash_pair("x"))


@pytest.mark.parametrize("layout", ["spec", "js", "nim"])
def test_a_filter_at_its_capacity_is_evidence_and_an_overfull_one_is_not(layout: LayoutName) -> None:
    def of(count: int) -> ReceivedFilter:
        value = filter_of(layout, [str(number) for number in range(count)], 1_000, 0.001)
        parsed = ReceivedFilter.parse(layout, value, 1_000, 0.001)
        assert parsed is not None
        return parsed

    assert of(0).is_evidence
    assert of(1_200).is_evidence
    assert not of(1_500).is_evidence


def test_a_filter_of_ones_is_no_evidence() -> None:
    size = len(filter_of("js", [], 10_000, 0.001))
    full = ReceivedFilter.parse("js", b"\xff" * size, 10_000, 0.001)
    assert full is not None
    assert full.contains(LAYOUTS["js"].hash_pair("anything"))
    assert not full.is_evidence


def varint(number: int) -> bytes:
    return bytes((number & 0x7F | 0x80,)) + varint(number >> 7) if number > 0x7F else bytes((number,))


def container(words: bytes = bytes(16), hash_count: int = 3, bit_count: int = 100, **more: bytes) -> bytes:
    numbers = (10, 10_000, hash_count, bit_count)
    fields = b"".join(bytes((at << 3,)) + varint(number) for at, number in enumerate(numbers, 2))
    return b"\x0a" + varint(len(words)) + words + fields + more.get("behind", b"")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        container(bytes(8)),
        container(bytes(24)),
        container(b"", bit_count=0),
        container(hash_count=0),
        container(hash_count=65),
        container(bit_count=1 << 63),
        container()[:-2],
        container()[18:],
        container(behind=b"\x28"),
        container(behind=b"\x28" + b"\xff" * 10 + b"\x01"),
        container(behind=b"\x2a\x00"),
        container(behind=b"\x32\x05ab"),
        container(behind=b"\x33"),
        container(behind=b"\x00\x00"),
        container(behind=b"\x35abc"),
        container(behind=b"\x30\x00" * 32),
    ],
)
def test_a_container_whose_measures_do_not_fit_says_nothing(value: bytes) -> None:
    assert ReceivedFilter.parse("nim", value, *MEASURES) is None


@pytest.mark.parametrize(
    "behind", [b"\x30\x07", b"\x32\x02ab", b"\x35abcd", b"\x31abcdefgh", b"\x28\x64", b"\x82\x01\x00"]
)
def test_unknown_fields_of_a_container_are_skipped_and_the_last_of_one_kind_counts(behind: bytes) -> None:
    assert ReceivedFilter.parse("nim", container(behind=behind), *MEASURES) is not None


def test_a_container_of_another_capacity_is_read_by_its_own_measures() -> None:
    wider = filter_of("nim", ["a", "b"], 12_000, 0.001)
    received = ReceivedFilter.parse("nim", wider, 10_000, 0.001)
    assert received is not None
    assert [received.contains(LAYOUTS["nim"].hash_pair(message_id)) for message_id in ("a", "b", "c")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("layout", ["spec", "js", "nim"])
def test_a_filter_covers_another_of_its_measures_that_has_no_other_ids(layout: LayoutName) -> None:
    small, large, other = (RollingFilter(layout, 100, error_rate) for error_rate in (0.01, 0.01, 0.001))
    for number in range(20):
        large.add(f"m{number}")
        if number % 2:
            small.add(f"m{number}")
            other.add(f"m{number}")
    filters = {
        name: ReceivedFilter.parse(layout, filter.value(), 100, 0.001 if name == "other" else 0.01)
        for name, filter in {"small": small, "large": large, "other": other}.items()
    }
    assert filters["small"] is not None and filters["large"] is not None and filters["other"] is not None
    assert small.within(filters["large"]) and small.within(filters["small"])
    assert not large.within(filters["small"])
    assert not small.within(filters["other"])


# The newest drawn_ids of a log against another participant's filter.


drawn_ids = st.integers(0, 60).map("message {}".format)


@given(
    st.sampled_from(["spec", "js", "nim"]),
    st.lists(drawn_ids, unique=True, max_size=50),
    st.sets(drawn_ids),
    st.sets(drawn_ids),
    st.integers(1, 40),
    st.integers(0, 40),
)
def test_exactly_what_a_filter_does_not_hold_is_absent(
    layout: LayoutName, added: list[str], gone: set[str], others: set[str], limit: int, but: int
) -> None:
    recent = Recent(layout, limit)
    expected: list[str] = []
    received = ReceivedFilter.parse(layout, filter_of(layout, others, 1_000, 0.0001), 1_000, 0.0001)
    assert received is not None
    for message_id in added:
        recent.add(message_id)
        expected = [*expected, message_id][-limit:]
        if message_id in gone:
            assert recent.absent(received) == [
                message_id for message_id in expected if message_id not in others
            ]
            recent.drop(message_id)
            expected.remove(message_id)
    assert recent.ids() == expected
    asked = expected[: max(len(expected) - but, 0)]
    assert recent.absent(received, but=but) == [
        message_id for message_id in asked if message_id not in others
    ]
    again = Recent(layout, limit)
    again.extend(recent.ids())
    assert again.absent(received) == recent.absent(received)


@pytest.mark.parametrize("limit", [1, 511, 512, 10_000])
def test_no_more_ids_are_kept_than_filters_hold(limit: int) -> None:
    recent = Recent("js", limit)
    recent.extend(str(number) for number in range(2_000))
    assert len(recent.ids()) == recent.limit == min(limit, 512)
