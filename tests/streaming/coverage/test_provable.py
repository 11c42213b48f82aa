"""Which entries their certificate pools prove: the quick way says what the definition does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.bamboo import lipmaa, needs_skiplink
from culm_models.bamboo.proofs import lower_pool, upper_pool
from culm_models.bamboo.range_set import RangeSet
from culm_streaming.coverage.provable import Links, provable_entries


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def links(number: int, *, broken: bool = False) -> Links:
    backlink = b"another entry's." if broken else name(number - 1) if number > 1 else b""
    return Links(name(number), backlink, name(lipmaa(number)) if needs_skiplink(number) else b"")


def by_definition(height: int, fragments: dict[int, Links]) -> set[int]:
    """Every entry, by every element of its pool."""
    held = {*range(1, height + 1), *fragments}
    top = max(held, default=0)

    def is_sound(number: int) -> bool:
        wrong = number in fragments and fragments[number].backlink == b"another entry's."
        return number in held and not (wrong and number - 1 in held)

    return {
        number
        for number in held
        if all(one > top or is_sound(one) for one in (*lower_pool(number), *upper_pool(number)))
    }


def found(height: int, fragments: dict[int, Links]) -> set[int]:
    joined, held = RangeSet(), RangeSet()
    joined.add(1, height + 1)
    held.add(1, height + 1)
    for number in fragments:
        held.add(number, number + 1)
    named = {number: name(number) for number in (lower_pool(height) if height else ())}
    proven = provable_entries(held, joined, named, fragments)
    return {number for start, end in proven for number in range(start, end)}


@given(
    height=st.integers(0, 130),
    gaps=st.sets(st.integers(1, 400), max_size=60),
    pools_of=st.sets(st.integers(1, 400), max_size=3),
    broken=st.sets(st.integers(2, 400), max_size=3),
)
@settings(max_examples=400, deadline=None)
def test_what_is_provable_is_what_the_definition_of_pools_says(
    height: int, gaps: set[int], pools_of: set[int], broken: set[int]
) -> None:
    numbers = {*gaps}
    for number in pools_of:
        numbers.update(lower_pool(number), upper_pool(number))
    fragments = {one: links(one, broken=one in broken) for one in numbers if one > height}
    assert found(height, fragments) == by_definition(height, fragments)


def test_exactly_the_pool_of_an_entry_of_a_long_log_proves_it() -> None:
    number = 100_000
    pool = {*lower_pool(number), *upper_pool(number)}
    fragments = {one: links(one) for one in pool}
    assert number in found(0, fragments)
    for missing in pool - {max(pool)}:
        assert number not in found(0, {one: links(one) for one in pool - {missing}})


def test_the_proof_of_a_chain_ends_where_its_path_upwards_has_a_gap() -> None:
    whole = found(50, {})
    assert whole == set(range(1, 51))
    beyond = found(50, {100: links(100)})
    assert beyond == by_definition(50, {100: links(100)}) and 50 not in beyond
