"""The step of the job `blocks`, without Spark: heights, counts and fingerprints against brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_streaming.blocks.packing import pack_log_records
from culm_streaming.blocks.rows import Source
from culm_streaming.blocks.state import CHUNKS, SUMMARIES
from tests.support.heights import LAYOUT, SCHEMAS, TOPIC, Told, World, arrow, cut, expect, placed, told


@settings(deadline=None)
@given(st.lists(told, max_size=150), st.lists(st.integers(0, 150), max_size=6))
def test_blocks_are_what_brute_force_says_however_the_input_is_cut(
    records: list[Told], places: list[int]
) -> None:
    records = placed(records)
    worlds = [World(), World()]
    for batch in cut(records, places):
        worlds[0].take_logs([one.record() for one in batch])
    # One micro-batch of as many batches of Arrow.
    worlds[1].take_logs(*([one.record() for one in batch] for batch in cut(records, places)))
    for world in worlds:
        expect(world, records)


@pytest.mark.parametrize("block_bits", [0, 1, 8, 9, 16])
def test_every_number_of_block_bits_cuts_keys_at_the_same_place_as_readers_do(block_bits: int) -> None:
    chance = random.Random(block_bits)
    keys = [chance.randbytes(32) for _ in range(60)] + [bytes(32), b"\xff" * 32]
    records = placed(Told(key, 0, chance.randint(1, 9), "") for key in keys for _ in range(2))
    world = World(replace(LAYOUT, block_bits=block_bits))
    for batch in cut(records, [40]):
        world.take_logs([one.record() for one in batch])
    expect(world, records)


@settings(deadline=None)
@given(st.lists(told, min_size=1, max_size=120), st.integers(0, 120))
def test_a_replay_changes_nothing_and_writes_progress_alone(records: list[Told], place: int) -> None:
    records = placed(records)
    world = World()
    for batch in cut(records, [place]):
        world.take_logs([one.record() for one in batch])
    before = {shard: (store.of(SUMMARIES), store.of(CHUNKS)) for shard, store in world.stores.items()}
    again = world.take_logs([one.record() for one in records])
    assert before == {shard: (store.of(SUMMARIES), store.of(CHUNKS)) for shard, store in world.stores.items()}
    assert all(len(output.records[Source.LOGS]) == 1 for output in again)
    expect(world, records)


@settings(deadline=None)
@given(st.lists(told, min_size=1, max_size=120), st.integers(0, 120), st.randoms(use_true_random=False))
def test_a_micro_batch_that_is_run_again_writes_the_same_bytes(
    records: list[Told], place: int, chance: random.Random
) -> None:
    first, *rest = cut(placed(records), [place])
    packed = [
        packed
        for batch in rest
        for packed in pack_log_records(arrow([one.record() for one in batch]), LAYOUT, TOPIC)
    ]
    outputs = []
    for _ in range(2):
        world = World()
        world.take_logs([one.record() for one in first])
        chance.shuffle(packed)  # Spark promises no order
        outputs.append([output.records for output in world.take(packed)])
    assert outputs[0] == outputs[1]


def test_every_shard_says_how_far_it_has_come_even_when_it_has_nothing_to_do() -> None:
    world = World()
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 2, 41).record()])
    assert world.table().blocks().applied == {2: 42}
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 5, 6).record()])
    assert world.table().blocks().applied == {2: 42, 5: 7}
