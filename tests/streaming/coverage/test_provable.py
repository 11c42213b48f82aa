"""Which entries their certificate pools prove, and the bytes that the state of the job `coverage` keeps."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.bamboo import lipmaa, needs_skiplink
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.range_set import RangeSet
from culm_streaming.coverage.held_log import HeldLog, decode_row, encode_row, has_fragments
from culm_streaming.coverage.payloads import HASHES, payloads_step
from culm_streaming.coverage.provable import EntryLinks, provable_entries
from culm_streaming.coverage.rows import PayloadChunkRow, PayloadRows, WantRow, range_set
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.state import decode_block, encode_block, encode_shard
from culm_streaming.stateful.job_state import MemoryState


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def links(number: int, *, broken: bool = False) -> EntryLinks:
    backlink = b"another entry's." if broken else name(number - 1) if number > 1 else b""
    return EntryLinks(name(number), backlink, name(lipmaa(number)) if needs_skiplink(number) else b"")


def by_definition(height: int, fragments: dict[int, EntryLinks]) -> set[int]:
    """Every entry, by every element of its pool."""
    present = {*range(1, height + 1), *fragments}
    top = max(present, default=0)

    def is_sound(number: int) -> bool:
        wrong = number in fragments and fragments[number].backlink == b"another entry's."
        return number in present and not (wrong and number - 1 in present)

    return {
        number
        for number in present
        if all(needed > top or is_sound(needed) for needed in (*lower_pool(number), *upper_pool(number)))
    }


def found(height: int, fragments: dict[int, EntryLinks]) -> set[int]:
    joined, present = RangeSet(), RangeSet()
    joined.add(1, height + 1)
    present.add(1, height + 1)
    for number in fragments:
        present.add(number, number + 1)
    named = {number: name(number) for number in (lower_pool(height) if height else ())}
    proven = provable_entries(present, joined, named, fragments)
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
    fragments = {number: links(number, broken=number in broken) for number in numbers if number > height}
    assert found(height, fragments) == by_definition(height, fragments)


def test_exactly_the_pool_of_an_entry_of_a_long_log_proves_it() -> None:
    number = 100_000
    pool = {*lower_pool(number), *upper_pool(number)}
    fragments = {needed: links(needed) for needed in pool}
    assert number in found(0, fragments)
    for missing in pool - {max(pool)}:
        assert number not in found(0, {needed: links(needed) for needed in pool - {missing}})


def test_the_proof_of_a_chain_ends_where_its_path_upwards_has_a_gap() -> None:
    whole = found(50, {})
    assert whole == set(range(1, 51))
    beyond = found(50, {100: links(100)})
    assert beyond == by_definition(50, {100: links(100)}) and 50 not in beyond


# The state of the job `coverage` keeps its bytes: later programs read the checkpoints of today.


ROW = HeldLog(
    range_set((1, 4, 7, 8)),
    range_set((1, 3)),
    range_set((1, 4)),
    range_set((1, 4)),
    {1: b"1" * 16, 3: b"3" * 16},
    {7: EntryLinks(b"7" * 16, b"6" * 16, b"4" * 16), 9: EntryLinks(b"9" * 16, b"8" * 16, b"")},
)


def u64s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def test_a_row_is_its_counts_its_runs_and_its_hashes() -> None:
    row, fragments = encode_row(ROW)
    counts = struct.pack("<5I", 4, 2, 2, 2, 2)
    runs = u64s(1, 4, 7, 8) + u64s(1, 3) + u64s(1, 4) + u64s(1, 4) + u64s(1, 3)
    assert row == bytes((1, 1, 0, 0)) + counts + runs + b"1" * 16 + b"3" * 16
    seventh = u64s(7) + b"\x03" + b"7" * 16 + b"6" * 16 + b"4" * 16
    ninth = u64s(9) + b"\x01" + b"9" * 16 + b"8" * 16 + bytes(16)
    assert fragments == b"\x01" + seventh + ninth
    assert has_fragments(row) and decode_row(row, fragments) == ROW
    empty, nothing = encode_row(HeldLog())
    assert (empty, nothing) == (b"\x01" + bytes(23), None)
    assert not has_fragments(empty) and decode_row(empty, None) == HeldLog()


def test_blocks_and_shards_have_their_format_first() -> None:
    keys = [b"k" * 73, b"j" * 73]
    block = encode_block(dict(zip(keys, (b"row", b"another"), strict=True)))
    sizes = struct.pack("<II", 7, 3)
    assert block == bytes((1, 0, 0, 0, 2, 0, 0, 0)) + keys[1] + keys[0] + sizes + b"another" + b"row"
    assert decode_block(block) == {keys[0]: b"row", keys[1]: b"another"}
    assert decode_block(encode_block({})) == decode_block(None) == {}
    assert encode_shard(16, 64, 2) == struct.pack("<BxxxIIQ", 1, 16, 64, 2)


def test_a_payload_is_sixteen_bytes_when_it_is_whole() -> None:
    store = MemoryState()
    layout = CoverageLayout(shards=1, blocks=1)
    log, whole, waited_for = bytes(41), b"w" * 16, b"x" * 16
    rows = PayloadRows(
        [PayloadChunkRow(whole, 0, 1, 0, 0), PayloadChunkRow(waited_for, 1, 3, 0, 1)],
        [WantRow(waited_for, log, 5)],
    )
    payloads_step(store, rows, layout)
    waiting = b"\x83\x03\x82\x01\x02\xa1\x58\x29" + log + b"\x81\x05"
    assert store.of(HASHES) == {0: b"\x82\x01\xa2\x50" + whole + b"\x00\x50" + waited_for + waiting}
