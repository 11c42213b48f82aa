"""What of an index is damage by the word of `blocks`, and what is only newer or not read yet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.logs.warm_start.block_heights import by_schema
from culm_connectors.logs.warm_start.heights import HeightTable, log_column
from culm_connectors.logs.warm_start.verification import Verification, verify
from culm_models.p2panda.wire.messages import LogHeight
from tests.support.bamboo.blocks import told_blocks
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA

VERSION = ((0, 100), (1, 50))
READ = {0: 100, 1: 50}


def key(first: int) -> bytes:
    return bytes([first]) + bytes(31)


TOLD: list[LogHeight] = [(key(0x00), 0, 5), (key(0x01), 7, 3), (key(0x10), 0, 9), (key(0xFF), 2**64 - 1, 1)]


def compare(heights: list[LogHeight], positions: dict[int, int] | None = None) -> Verification:
    expected = by_schema(told_blocks({SCHEMA: TOLD}, VERSION))
    return verify(expected.values(), {SCHEMA: HeightTable.from_heights(heights)}, positions or READ)


def test_an_index_that_holds_what_was_told_differs_nowhere() -> None:
    assert compare(TOLD) == Verification(1, 3, 4)


def test_a_log_that_is_missing_or_behind_is_damage_in_its_block_alone() -> None:
    verification = compare([(key(0x00), 0, 2), TOLD[2], TOLD[3]])
    (difference,) = verification.differences
    assert (difference.block, difference.logs) == (0, 2)
    assert (difference.missing, difference.behind, difference.ahead) == (1, 1, 0)
    assert difference.is_damage
    assert [row[:2] for row in verification.damaged] == [(key(0x00), 0), (key(0x01), 7)]


def test_what_is_newer_than_what_was_told_is_no_damage() -> None:
    verification = compare([(key(0x00), 0, 6), *TOLD[1:], (key(0x02), 1, 1)])
    (difference,) = verification.differences
    assert (difference.ahead, difference.missing, difference.behind, difference.is_damage) == (2, 0, 0, False)
    assert verification.is_sound


def test_a_block_whose_input_has_not_been_read_yet_says_nothing() -> None:
    verification = compare(TOLD[2:], {0: 100, 1: 49})
    assert verification.is_sound
    (difference,) = verification.differences
    assert (difference.missing, difference.pending, difference.is_damage) == (2, True, False)


def test_a_log_that_contradicts_itself_is_damage_whatever_was_told() -> None:
    expected = by_schema(told_blocks({SCHEMA: TOLD}, VERSION))
    strange = HeightTable.from_heights([TOLD[0], (key(0x77), 3, 0)])
    verification = verify(expected.values(), {SCHEMA: HeightTable.from_heights(TOLD)}, {}, {SCHEMA: strange})
    assert [
        (difference.block, difference.other, difference.is_damage) for difference in verification.differences
    ] == [
        (0, 1, True),
        (7, 1, True),
    ]
    assert len(verification.damaged) == 2


def test_schemas_are_compared_each_with_its_own() -> None:
    expected = by_schema(told_blocks({SCHEMA: TOLD[:1], OTHER_SCHEMA: TOLD[2:]}, VERSION))
    verification = verify(expected.values(), {SCHEMA: HeightTable.from_heights(TOLD)}, READ)
    schema_ids = {difference.schema_id for difference in verification.differences if difference.missing}
    assert schema_ids == {OTHER_SCHEMA}
    assert list(verification.damaged) == TOLD[2:]


LOG = st.tuples(st.integers(0, 255).map(key), st.integers(0, 3))
HEIGHTS = st.dictionaries(LOG, st.integers(1, 5), max_size=40)


@given(HEIGHTS, HEIGHTS, st.integers(0, 16))
def test_damage_is_every_log_below_what_was_told_and_no_other(
    expected: dict[tuple[bytes, int], int], held_heights: dict[tuple[bytes, int], int], bits: int
) -> None:
    rows = [(*log, height) for log, height in expected.items()]
    schemas = by_schema(told_blocks({SCHEMA: rows} if rows else {}, VERSION, bits))
    table = HeightTable.from_heights((*log, height) for log, height in held_heights.items())
    verification = verify(schemas.values(), {SCHEMA: table}, READ)
    wanted = {log: height for log, height in expected.items() if held_heights.get(log, 0) < height}
    assert {row[:2]: row[2] for row in verification.damaged} == wanted
    missing = sum(difference.missing for difference in verification.differences)
    behind = sum(difference.behind for difference in verification.differences)
    assert missing + behind == len(wanted)
    assert missing == len(wanted.keys() - held_heights.keys())


@given(st.lists(st.tuples(st.binary(min_size=32, max_size=32), st.integers(0, 2**64 - 1), st.integers(1, 9))))
def test_a_table_is_sorted_and_has_each_log_once_at_its_height(rows: list[LogHeight]) -> None:
    table = HeightTable.from_heights(rows)
    wanted: dict[tuple[bytes, int], int] = {}
    for public_key, log_id, height in rows:
        wanted[public_key, log_id] = max(height, wanted.get((public_key, log_id), 0))
    assert list(table) == sorted((*log, height) for log, height in wanted.items())
    half = HeightTable.from_heights(rows[::2]).merged(HeightTable.from_heights(rows[1::2]))
    assert list(half) == list(table)
    logs = log_column(public_key + log_id.to_bytes(8, "big") for public_key, log_id, _ in rows)
    assert table.of(logs).tolist() == [wanted[row[:2]] for row in rows]
    assert table.of(log_column([b"\x00" * 39 + b"\x09"])).tolist() == [wanted.get((bytes(32), 9), 0)]
