"""What the job `blocks` keeps: what a change loads and writes, lifts of later, layouts and formats."""

from __future__ import annotations

import random
from dataclasses import replace

import cbor2
import numpy as np
import pytest

from culm_models.lifts import ADD128
from culm_streaming.blocks.rows import ROW, Rows, Source
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import CHUNKS, SHARD, SUMMARIES
from culm_streaming.blocks.step import step
from culm_streaming.errors import StateLayoutError
from culm_streaming.stateful.job_state import Key, MemoryState, Value, Variable
from tests.support.heights import LAYOUT, SCHEMAS, Told, World, expect, placed


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
    records = [replace(one, schema_id=SCHEMAS[0]) for one in records]
    world.take_logs([one.record() for one in records])
    assert len(world.stores[0].of(CHUNKS)) == 10
    one = replace(records[17], seq_num=2, offset=5_000)
    world.stores[0].saves = 0
    (output,) = world.take_logs([one.record()])
    assert len(output.records[Source.LOGS]) == 2  # summary and progress
    assert world.stores[0].saves == 2
    expect(world, [*records, one], lifts=(ADD128,))


def test_only_touched_blocks_are_loaded_and_written() -> None:
    world = World(HeightsSettings(block_bits=8, shards=1))
    records = [
        replace(one, schema_id=SCHEMAS[0])
        for one in placed(Told(bytes((n,)) * 32, 0, 1, "") for n in range(256))
    ]
    world.take_logs([one.record() for one in records])
    store = Watched(world.stores[0])
    world.stores[0] = store
    (output,) = world.take_logs([replace(records[3], seq_num=9, offset=999).record()])
    assert store.loaded == [(Source.LOGS, SCHEMAS[0].encode(), 3)]
    assert [key[:4] for key, _ in output.records[Source.LOGS]] == [bytes((0, 8, 0, 3)), bytes((2, 8, 0, 0))]


def test_a_lift_that_is_added_later_is_computed_from_all_heights() -> None:
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, "") for n in range(60))
    world = World(replace(LAYOUT, lifts=("add128",)))
    world.take_logs([one.record() for one in records])
    expect(world, records, lifts=(ADD128,))
    world.layout = LAYOUT
    more = [replace(one, seq_num=5, offset=100 + one.offset) for one in records]
    world.take_logs([one.record() for one in more])
    expect(world, [*records, *more])


@pytest.mark.parametrize("other", [replace(LAYOUT, block_bits=4), replace(LAYOUT, shards=4)])
def test_state_of_another_layout_is_refused(other: HeightsSettings) -> None:
    store = MemoryState()
    rows = Rows(np.empty(0, ROW), [], [(0, 0, 1)])
    step(store, 0, rows, LAYOUT)
    with pytest.raises(StateLayoutError):
        step(store, 0, rows, other)


def test_state_of_a_later_format_is_refused() -> None:
    store = MemoryState()
    store.save(SHARD, (), cbor2.dumps((2, 3, 3, {})))
    with pytest.raises(StateLayoutError):
        step(store, 0, Rows(np.empty(0, ROW), [], []), LAYOUT)
