"""Packed records behave as a sorted mapping, within their memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm_infra.console.tables.packed import Match, PackedRecords, TableMemory, above

keys = st.binary(min_size=1, max_size=3)
changes = st.lists(st.tuples(keys, st.binary(max_size=3)), max_size=40)
ALL = b"\xff" * 8


def applied(*batches: list[tuple[bytes, bytes]]) -> tuple[PackedRecords, dict[bytes, bytes]]:
    records, model = PackedRecords(TableMemory(1 << 20)), dict[bytes, bytes]()
    for batch in batches:
        records.apply(batch)
        for key, value in batch:
            model[key] = value
            if not value:
                del model[key]
    return records, model


@given(changes, changes, keys, keys)
def test_ranges_are_those_of_a_sorted_mapping(
    first: list[tuple[bytes, bytes]], second: list[tuple[bytes, bytes]], low: bytes, high: bytes
) -> None:
    records, model = applied(first, second)
    expected = [(key, model[key]) for key in sorted(model) if low <= key < high]
    assert records.select(low, high) == expected
    assert records.select(low, high, limit=2) == expected[:2]
    assert records.keys(low, high) == [key for key, _ in expected]
    assert records.count(low, high) == len(expected)
    assert records.get(low) == model.get(low)


@given(changes, keys, st.integers(0, 2), st.booleans())
def test_keys_are_found_by_their_parts(
    batch: list[tuple[bytes, bytes]], part: bytes, at: int, anywhere: bool
) -> None:
    records, model = applied(batch)
    expected = [
        key for key in sorted(model) if (part in key[at:] if anywhere else key[at : at + len(part)] == part)
    ]
    assert records.keys(b"", ALL, match=Match(part, at, anywhere=anywhere)) == expected
    ends = sorted({key[at:] for key in model})
    assert records.distinct(b"", ALL, at) == ends
    assert [key for key, _ in records.among(b"", ALL, at, ends[:3])] == [
        key for key in sorted(model) if key[at:] in ends[:3]
    ]


@given(keys, changes)
def test_above_a_prefix_there_is_none_of_its_keys(prefix: bytes, batch: list[tuple[bytes, bytes]]) -> None:
    records, model = applied(batch)
    assert records.keys(prefix, above(prefix)) == [key for key in sorted(model) if key.startswith(prefix)]


def test_records_beyond_the_memory_are_left_out_and_counted() -> None:
    budget = TableMemory(256 * 1024)
    first, second = PackedRecords(budget), PackedRecords(budget)
    value = bytes(100)
    for start in range(0, 10_000, 1_000):
        first.apply([(number.to_bytes(4, "big"), value) for number in range(start, start + 1_000)])
    held = first.count(b"", ALL)
    assert 0 < held < 10_000
    assert first.left_out == 10_000 - held
    assert first.size_bytes <= budget.max_bytes + 200 * 1_000
    # Values of present keys are replaced all the same, and other records of this budget have no room either.
    first.apply([(bytes(4), b"new")])
    assert first.get(bytes(4)) == b"new"
    second.apply([(b"key", value)])
    assert second.left_out == 1
    first.clear()
    second.apply([(b"key", value)])
    assert second.get(b"key") == value
    assert first.left_out == 0
