"""The step of the job `blocks`, without Spark: heights, counts and fingerprints against brute force."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import cbor2
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.lifts import ADD128, XOR64, Lift
from culm_streaming.errors import StateLayoutError
from culm_streaming.heights.packing import highest, in_pieces, marks_of, pack_log_records, pack_receipts
from culm_streaming.heights.rows import ROW, Rows, Source, unpack_rows
from culm_streaming.heights.settings import HeightsSettings
from culm_streaming.heights.step import Output, step
from culm_streaming.heights.store import MemoryHeightsStore, Place
from culm_topics.blocks import BlockTable
from culm_topics.reading import TopicMessage
from culm_topics.records import LogRecord, RejectedRecord, block_of, log_key

LAYOUT = HeightsSettings(block_bits=3, shards=3, lifts=("add128", "xor64"), chunk_rows=5, recent_rows=4)
SCHEMAS = ("schema_definition_v1", "wörter_0020" + "ab" * 32)
PEERS = (bytes([1] * 32), bytes([7] * 32))
TOPIC = "culm.logs"


@dataclass(frozen=True)
class Told:
    """One record of `logs`: which log, how high, in which schema, and where it stands."""

    public_key: bytes
    log_id: int
    seq_num: int
    schema_id: str
    partition: int = 0
    offset: int = 0

    def record(self) -> tuple[bytes, bytes, int, int]:
        value = LogRecord(self.seq_num, b"entry", b"operation" * 40, bytes(34), self.schema_id)
        return log_key(self.public_key, self.log_id), value.encode(), self.partition, self.offset


public_keys = st.sampled_from([random.Random(n).randbytes(32) for n in range(40)] + [bytes(32), b"\xff" * 32])
told = st.builds(Told, public_keys, st.integers(0, 1), st.integers(1, 300), st.just(SCHEMAS[0]))


def placed(records: Iterable[Told]) -> list[Told]:
    """A log belongs to one schema and one partition; offsets grow."""
    return [
        replace(
            one,
            schema_id=SCHEMAS[(one.public_key[3] + one.log_id) % 2],
            partition=one.public_key[4] % 2,
            offset=offset,
        )
        for offset, one in enumerate(records)
    ]


@dataclass
class World:
    """All shards, and what they have written."""

    layout: HeightsSettings = LAYOUT
    stores: dict[int, MemoryHeightsStore] = field(default_factory=dict)
    written: dict[Source, list[tuple[bytes, bytes | None]]] = field(
        default_factory=lambda: {source: [] for source in Source}
    )
    refused: list[tuple[bytes, bytes]] = field(default_factory=list)

    def take(self, packed: Iterable[object]) -> list[Output]:
        """One micro-batch."""
        by_shard: dict[int, list[tuple[bytes, bytes]]] = {}
        for one in packed:
            by_shard.setdefault(one.shard, []).append((one.rows, one.rest))  # type: ignore[attr-defined]
        outputs = []
        for shard, rows in sorted(by_shard.items()):
            store = self.stores.setdefault(shard, MemoryHeightsStore())
            output = step(store, shard, unpack_rows(rows), self.layout)
            for source, records in output.records.items():
                self.written[source] += records
            self.refused += output.refused
            outputs.append(output)
        return outputs

    def take_logs(self, *batches: Sequence[tuple[bytes | None, bytes | None, int, int]]) -> list[Output]:
        return self.take(
            packed
            for batch in batches
            if batch
            for packed in pack_log_records(arrow(batch), self.layout, TOPIC)
        )

    def table(self, source: Source = Source.LOGS) -> BlockTable:
        table = BlockTable()
        for key, value in self.written[source]:
            table.add(TopicMessage(key, value or b"", 0, 0, 0))
        return table


class Watched(MemoryHeightsStore):
    """Remembers which blocks were loaded."""

    def __init__(self, store: MemoryHeightsStore) -> None:
        super().__init__()
        self.shard, self.summaries, self.chunks = store.shard, store.summaries, store.chunks
        self.loaded: list[Place] = []

    def load_summary(self, place: Place) -> bytes | None:
        self.loaded.append(place)
        return super().load_summary(place)


def arrow(
    records: Sequence[tuple[bytes | None, bytes | None, int, int]],
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    keys, values, partitions, offsets = zip(*records, strict=True)
    return (
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
    )


def expect(world: World, records: Sequence[Told], *, lifts: Sequence[Lift] = (ADD128, XOR64)) -> None:
    """The topic says of every block what a plain dictionary says."""
    highest_told: dict[tuple[str, int], dict[tuple[bytes, int], Told]] = {}
    for one in records:
        place = one.schema_id, block_of(one.public_key, world.layout.block_bits)
        logs = highest_told.setdefault(place, {})
        known = logs.get((one.public_key, one.log_id))
        if known is None or one.seq_num > known.seq_num:
            logs[one.public_key, one.log_id] = one
    found = world.table().blocks(world.layout.block_bits)
    assert not found.torn
    assert {(block.schema_id, block.block) for block in found} == set(highest_told)
    for block in found:
        logs = highest_told[block.schema_id, block.block]
        rows = [(key, log_id, one.seq_num) for (key, log_id), one in sorted(logs.items())]
        assert block.heights == b"".join(
            log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows
        )
        assert block.log_count == len(rows)
        assert block.entry_count == sum(seq_num for _, _, seq_num in rows)
        assert {name: bytes(value) for name, value in block.fingerprints.items()} == {
            lift.name: lift.fingerprint(rows)[1:] for lift in lifts
        }
        assert dict(block.version) == {
            partition: max(one.offset for one in logs.values() if one.partition == partition) + 1
            for partition in {one.partition for one in logs.values()}
        }


def cut(records: Sequence[Told], places: Sequence[int]) -> list[list[Told]]:
    ends = sorted({place % (len(records) + 1) for place in places} | {0, len(records)})
    return [list(records[start:end]) for start, end in pairwise(ends)]


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
    before = {shard: (dict(store.summaries), dict(store.chunks)) for shard, store in world.stores.items()}
    again = world.take_logs([one.record() for one in records])
    assert before == {shard: (store.summaries, store.chunks) for shard, store in world.stores.items()}
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


def test_a_long_block_goes_into_chunks_and_growing_a_little_rewrites_its_summary_alone() -> None:
    layout = HeightsSettings(block_bits=0, shards=1, chunk_rows=100, recent_rows=4)
    world = World(layout)
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, "") for n in range(1_000))
    records = [replace(one, schema_id=SCHEMAS[0]) for one in records]
    world.take_logs([one.record() for one in records])
    assert len(world.stores[0].chunks) == 10
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


def test_every_shard_says_how_far_it_has_come_even_when_it_has_nothing_to_do() -> None:
    world = World()
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 2, 41).record()])
    assert world.table().blocks().applied == {2: 42}
    world.take_logs([Told(bytes(32), 0, 1, SCHEMAS[0], 5, 6).record()])
    assert world.table().blocks().applied == {2: 42, 5: 7}


def test_malformed_records_are_refused_with_a_code_and_counted_as_read() -> None:
    good = Told(bytes(32), 0, 1, SCHEMAS[0]).record()
    world = World()
    world.take_logs(
        [
            good,
            (None, None, 0, 1),
            (good[0], b"junk", 0, 2),
            (good[0][:-1], good[1], 0, 3),
            (good[0], good[1] + b"\0", 0, 4),
            (good[0], good[1][:-1] + b"\xff", 0, 5),  # a schema id that is no text
            (good[0], b"", 1, 6),
        ]
    )
    refused = [RejectedRecord.decode(value) for _, value in world.refused]
    assert {record.code for record in refused} == {"topics.record"}
    assert sorted(record.source or () for record in refused) == [
        *((TOPIC, 0, offset) for offset in range(1, 6)),
        (TOPIC, 1, 6),
    ]
    assert sorted(key for key, _ in world.refused) == [b"", b"", *[good[0]] * 4]
    found = world.table().blocks()
    assert [block.log_count for block in found] == [1]
    assert found.applied == {0: 6, 1: 7}


@given(st.integers(0, 2**16), st.binary(max_size=3), st.booleans())
def test_a_record_is_taken_exactly_when_its_decoder_takes_it(
    place: int, change: bytes, cut_off: bool
) -> None:
    key, value, _, _ = Told(bytes(32), 0, 300, SCHEMAS[1]).record()
    at = place % (len(value) + 1)
    other = value[:at] + change + (b"" if cut_off else value[at + len(change) :])
    try:
        expected = LogRecord.decode(other)
    except ValueError:
        expected = None
    except Exception as error:
        assert getattr(error, "code", None) == "topics.record"
        expected = None
    world = World()
    world.take_logs([(key, other, 0, 0), (key, value, 0, 1)])
    assert len(world.refused) == (expected is None)
    if expected is not None and expected.schema_id != SCHEMAS[1]:
        assert expected.schema_id in {block.schema_id for block in world.table().blocks()}


@given(st.sampled_from([1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, 2**64 - 1]))
def test_every_size_of_number_is_read(seq_num: int) -> None:
    world = World()
    world.take_logs([Told(b"\xff" * 32, 2**64 - 1, seq_num, SCHEMAS[0]).record()])
    expect(world, [Told(b"\xff" * 32, 2**64 - 1, seq_num, SCHEMAS[0])])


def test_a_batch_that_is_a_slice_of_another_is_read_at_its_place() -> None:
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, "") for n in range(20))
    columns = arrow([one.record() for one in records])
    sliced = tuple(column.slice(5, 9) for column in columns)
    world = World()
    world.take(pack_log_records(sliced, LAYOUT, TOPIC))
    expect(world, records[5:14])


def test_logs_that_collide_in_the_quick_order_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros(6, ROW)
    rows["log"] = [log_key(bytes(31) + bytes((n % 3,)), 0) for n in range(6)]
    rows["seq_num"] = [1, 1, 1, 2, 3, 1]
    rows["next_offset"] = range(1, 7)
    # Logs that differ only in words that the quick order does not look at.
    keys = [bytes(8) + bytes((n % 3,)) + bytes(31) for n in range(6)]
    rows["log"] = keys
    found = highest(rows)
    assert sorted(
        zip(found["log"], found["seq_num"].tolist(), found["next_offset"].tolist(), strict=True)
    ) == [
        (keys[0].rstrip(b"\0"), 2, 4),
        (keys[1].rstrip(b"\0"), 3, 5),
        (keys[2].rstrip(b"\0"), 1, 3),
    ]


def test_what_peers_hold_becomes_a_vector_by_block() -> None:
    world = World()
    chance = random.Random(5)
    keys = [chance.randbytes(32) for _ in range(50)]
    held: dict[bytes, dict[tuple[bytes, int], int]] = {peer: {} for peer in PEERS}
    for number in range(4):
        receipts = []
        for offset in range(6):
            peer = chance.choice(PEERS)
            heights = tuple((key, 0, chance.randrange(9)) for key in chance.sample(keys, 10))
            for key, log_id, seq_num in heights:
                known = held[peer].get((key, log_id), 0)
                if seq_num > known:
                    held[peer][key, log_id] = seq_num
            receipts.append((peer, heights, 0, number * 6 + offset))
        marks = marks_of(
            Source.RECEIPTS, pa.array([0] * 6, pa.int32()), pa.array(range(number * 6, number * 6 + 6))
        )
        world.take(pack_receipts(receipts, marks, LAYOUT))
    found = world.table(Source.RECEIPTS).blocks()
    assert found.applied == {0: 24}
    for peer in PEERS:
        rows = sorted((*log, seq_num) for log, seq_num in held[peer].items())
        assert b"".join(block.heights for block in found if block.peer_id == peer) == b"".join(
            log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows
        )
        lanes = ADD128.total(
            ADD128.read_value(block.fingerprints["add128"]) for block in found if block.peer_id == peer
        )
        assert ADD128.value(lanes) == ADD128.fingerprint(rows)[1:]
    assert not world.written[Source.LOGS]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_receipts_are_packed_in_pieces_of_a_bounded_size(sizes: list[int]) -> None:
    receipts = [(PEERS[0], [(bytes(32), 0, 1)] * size, 0, offset) for offset, size in enumerate(sizes)]
    pieces = list(in_pieces(receipts, most=5))
    assert [receipt for piece in pieces for receipt in piece] == receipts
    assert all(sum(len(receipt[1]) for receipt in piece[:-1]) < 5 for piece in pieces)


@pytest.mark.parametrize("other", [replace(LAYOUT, block_bits=4), replace(LAYOUT, shards=4)])
def test_state_of_another_layout_is_refused(other: HeightsSettings) -> None:
    store = MemoryHeightsStore()
    rows = Rows(np.empty(0, ROW), [], [(0, 0, 1)])
    step(store, 0, rows, LAYOUT)
    with pytest.raises(StateLayoutError):
        step(store, 0, rows, other)


def test_state_of_a_later_format_is_refused() -> None:
    store = MemoryHeightsStore()
    store.shard = cbor2.dumps((2, 3, 3, {}))
    with pytest.raises(StateLayoutError):
        step(store, 0, Rows(np.empty(0, ROW), [], []), LAYOUT)
