"""The step of the job `blocks`, without Spark: heights, counts and fingerprints against brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import cbor2
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.lifts import ADD128
from culm_streaming.blocks.packing import in_pieces, marks_of, pack_log_records, pack_receipts
from culm_streaming.blocks.rows import ROW, HeightRows, HeightSource
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import CHUNKS, SHARD, SUMMARIES
from culm_streaming.blocks.step import step
from culm_streaming.errors import StateLayoutError
from culm_streaming.stateful.job_state import Key, MemoryState, Value, Variable
from culm_topics.records import log_key
from tests.support.bamboo.blocks_job import (
    LAYOUT,
    PEERS,
    SCHEMAS,
    TOPIC,
    Told,
    World,
    arrow,
    cut,
    expect,
    placed,
    told,
)


@settings(deadline=None)
@given(st.lists(told, max_size=150), st.lists(st.integers(0, 150), max_size=6))
def test_blocks_are_what_brute_force_says_however_the_input_is_cut(
    records: list[Told], places: list[int]
) -> None:
    records = placed(records)
    worlds = [World(), World()]
    for batch in cut(records, places):
        worlds[0].take_logs([record.record() for record in batch])
    # One micro-batch of as many batches of Arrow.
    worlds[1].take_logs(*([record.record() for record in batch] for batch in cut(records, places)))
    for world in worlds:
        expect(world, records)


@pytest.mark.parametrize("block_bits", [0, 1, 8, 9, 16])
def test_every_number_of_block_bits_cuts_keys_at_the_same_place_as_readers_do(block_bits: int) -> None:
    chance = random.Random(block_bits)
    keys = [chance.randbytes(32) for _ in range(60)] + [bytes(32), b"\xff" * 32]
    records = placed(Told(key, 0, chance.randint(1, 9), "") for key in keys for _ in range(2))
    world = World(replace(LAYOUT, block_bits=block_bits))
    for batch in cut(records, [40]):
        world.take_logs([record.record() for record in batch])
    expect(world, records)


@settings(deadline=None)
@given(st.lists(told, min_size=1, max_size=120), st.integers(0, 120))
def test_a_replay_changes_nothing_and_writes_progress_alone(records: list[Told], cut_at: int) -> None:
    records = placed(records)
    world = World()
    for batch in cut(records, [cut_at]):
        world.take_logs([record.record() for record in batch])
    before = {shard: (store.of(SUMMARIES), store.of(CHUNKS)) for shard, store in world.stores.items()}
    again = world.take_logs([record.record() for record in records])
    assert before == {shard: (store.of(SUMMARIES), store.of(CHUNKS)) for shard, store in world.stores.items()}
    assert all(len(output.records[HeightSource.LOGS]) == 1 for output in again)
    expect(world, records)


@settings(deadline=None)
@given(st.lists(told, min_size=1, max_size=120), st.integers(0, 120), st.randoms(use_true_random=False))
def test_a_micro_batch_that_is_run_again_writes_the_same_bytes(
    records: list[Told], cut_at: int, chance: random.Random
) -> None:
    first, *rest = cut(placed(records), [cut_at])
    packed = [
        packed
        for batch in rest
        for packed in pack_log_records(arrow([record.record() for record in batch]), LAYOUT, TOPIC)
    ]
    outputs = []
    for _ in range(2):
        world = World()
        world.take_logs([record.record() for record in first])
        chance.shuffle(packed)  # Spark promises no order
        outputs.append([output.records for output in world.take(packed)])
    assert outputs[0] == outputs[1]


def test_every_shard_says_how_far_it_has_come_even_when_it_has_nothing_to_do() -> None:
    world = World()
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 2, 41).record()])
    assert world.table().blocks().applied == {2: 42}
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 5, 6).record()])
    assert world.table().blocks().applied == {2: 42, 5: 7}


# What the job `blocks` keeps: what a change loads and writes, lifts of later, layouts and formats.


class Watched(MemoryState):
    """Remembers which blocks were loaded."""

    def __init__(self, store: MemoryState) -> None:
        super().__init__()
        self.values = store.values
        self.loaded: list[Key] = []

    def load(self, variable: Variable[Value], key: Key = ()) -> Value | None:
        if variable == SUMMARIES:
            self.loaded.append(key)
        return super().load(variable, key)


def test_a_long_block_goes_into_chunks_and_growing_a_little_rewrites_its_summary_alone() -> None:
    layout = HeightsSettings(block_bits=0, shards=1, chunk_rows=100, recent_rows=4)
    world = World(layout)
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, "") for n in range(1_000))
    records = [replace(record, schema_id=SCHEMAS[0]) for record in records]
    world.take_logs([record.record() for record in records])
    assert len(world.stores[0].of(CHUNKS)) == 10
    grown = replace(records[17], seq_num=2, offset=5_000)
    world.stores[0].saves = 0
    (output,) = world.take_logs([grown.record()])
    assert len(output.records[HeightSource.LOGS]) == 2  # summary and progress
    assert world.stores[0].saves == 2
    expect(world, [*records, grown], lifts=(ADD128,))


def test_only_touched_blocks_are_loaded_and_written() -> None:
    world = World(HeightsSettings(block_bits=8, shards=1))
    records = [
        replace(record, schema_id=SCHEMAS[0])
        for record in placed(Told(bytes((n,)) * 32, 0, 1, "") for n in range(256))
    ]
    world.take_logs([record.record() for record in records])
    store = Watched(world.stores[0])
    world.stores[0] = store
    (output,) = world.take_logs([replace(records[3], seq_num=9, offset=999).record()])
    assert store.loaded == [(HeightSource.LOGS, SCHEMAS[0].encode(), 3)]
    assert [key[:4] for key, _ in output.records[HeightSource.LOGS]] == [
        bytes((0, 8, 0, 3)),
        bytes((2, 8, 0, 0)),
    ]


def test_a_lift_that_is_added_later_is_computed_from_all_heights() -> None:
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, "") for n in range(60))
    world = World(replace(LAYOUT, lifts=("add128",)))
    world.take_logs([record.record() for record in records])
    expect(world, records, lifts=(ADD128,))
    world.layout = LAYOUT
    more = [replace(record, seq_num=5, offset=100 + record.offset) for record in records]
    world.take_logs([record.record() for record in more])
    expect(world, [*records, *more])


@pytest.mark.parametrize("other", [replace(LAYOUT, block_bits=4), replace(LAYOUT, shards=4)])
def test_state_of_another_layout_is_refused(other: HeightsSettings) -> None:
    store = MemoryState()
    rows = HeightRows(np.empty(0, ROW), [], [(0, 0, 1)])
    step(store, 0, rows, LAYOUT)
    with pytest.raises(StateLayoutError):
        step(store, 0, rows, other)


def test_state_of_a_later_format_is_refused() -> None:
    store = MemoryState()
    store.save(SHARD, (), cbor2.dumps((2, 3, 3, {})))
    with pytest.raises(StateLayoutError):
        step(store, 0, HeightRows(np.empty(0, ROW), [], []), LAYOUT)


# Receipts in the job `blocks`: what every peer holds, by block.


def test_what_peers_hold_becomes_a_vector_by_block() -> None:
    world = World()
    chance = random.Random(5)
    keys = [chance.randbytes(32) for _ in range(50)]
    highest: dict[bytes, dict[tuple[bytes, int], int]] = {peer: {} for peer in PEERS}
    for number in range(4):
        receipts = []
        for offset in range(6):
            peer = chance.choice(PEERS)
            heights = tuple((key, 0, chance.randrange(9)) for key in chance.sample(keys, 10))
            for key, log_id, seq_num in heights:
                known = highest[peer].get((key, log_id), 0)
                if seq_num > known:
                    highest[peer][key, log_id] = seq_num
            receipts.append((peer, heights, 0, number * 6 + offset))
        marks = marks_of(
            HeightSource.RECEIPTS, pa.array([0] * 6, pa.int32()), pa.array(range(number * 6, number * 6 + 6))
        )
        world.take(pack_receipts(receipts, marks, LAYOUT))
    blocks = world.table(HeightSource.RECEIPTS).blocks()
    assert blocks.applied == {0: 24}
    for peer in PEERS:
        rows = sorted((*log, seq_num) for log, seq_num in highest[peer].items())
        assert b"".join(block.heights for block in blocks if block.peer_id == peer) == b"".join(
            log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows
        )
        lanes = ADD128.total(
            ADD128.read_value(block.fingerprints["add128"]) for block in blocks if block.peer_id == peer
        )
        assert ADD128.value(lanes) == ADD128.fingerprint(rows)[1:]
    assert not world.written[HeightSource.LOGS]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_receipts_are_packed_in_pieces_of_a_bounded_size(sizes: list[int]) -> None:
    receipts = [(PEERS[0], [(bytes(32), 0, 1)] * size, 0, offset) for offset, size in enumerate(sizes)]
    pieces = list(in_pieces(receipts, min_heights=5))
    assert [receipt for piece in pieces for receipt in piece] == receipts
    assert all(sum(len(receipt[1]) for receipt in piece[:-1]) < 5 for piece in pieces)
