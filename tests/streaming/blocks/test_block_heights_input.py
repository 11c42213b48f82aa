"""What the job `blocks` reads of records: all that their decoders take, nothing else, in any batch."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from culm_streaming.blocks.packing import highest, pack_log_records
from culm_streaming.blocks.rows import ROW
from culm_topics.logs.records import LogRecord
from culm_topics.records import RejectedRecord
from tests.support.bamboo.bare_logs import make_bare_log, texts
from tests.support.bamboo.blocks_job import LAYOUT, SCHEMAS, TOPIC, Told, World, arrow, expect, placed
from tests.support.p2panda.logs import author


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
    blocks = world.table().blocks()
    assert [block.log_count for block in blocks] == [1]
    assert blocks.applied == {0: 6, 1: 7}


def test_bare_logs_are_passed_over_quietly_and_counted_as_read() -> None:
    logs = [Told(bytes([n]) * 32, 0, n, SCHEMAS[0]) for n in (1, 2, 3)]
    bare = Told(bytes([9]) * 32, 0, 1, "").record()
    yamf = make_bare_log(author("alice"), 0, texts(1))[0]
    long_head = yamf.key[:40], LogRecord(1, bytes(70_000), b"", yamf.hash, "").encode()
    world = World()
    world.take_logs(
        [
            logs[0].record(),
            (bare[0], bare[1], 0, 1),
            (yamf.key, yamf.log_record().encode(), 0, 2),
            (*long_head, 0, 3),
            (*logs[1].record()[:2], 0, 4),
            (bare[0], bare[1], 1, 0),
            (*logs[2].record()[:2], 0, 5),
        ]
    )
    assert world.refused == []
    blocks = world.table().blocks()
    assert {block.schema_id for block in blocks} == {SCHEMAS[0]}
    assert sum(block.log_count for block in blocks) == 3
    assert blocks.applied == {0: 6, 1: 1}


@given(st.integers(0, 2**16), st.binary(max_size=3), st.booleans())
def test_a_record_is_taken_exactly_when_its_decoder_takes_it(
    position: int, change: bytes, cut_off: bool
) -> None:
    key, value, _, _ = Told(bytes(32), 0, 300, SCHEMAS[1]).record()
    at = position % (len(value) + 1)
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
    if expected is not None and expected.schema_id not in ("", SCHEMAS[1]):
        assert expected.schema_id in {block.schema_id for block in world.table().blocks()}


@given(st.sampled_from([1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, 2**64 - 1]))
def test_every_size_of_number_is_read(seq_num: int) -> None:
    world = World()
    world.take_logs([Told(b"\xff" * 32, 2**64 - 1, seq_num, SCHEMAS[0]).record()])
    expect(world, [Told(b"\xff" * 32, 2**64 - 1, seq_num, SCHEMAS[0])])


def test_a_batch_that_is_a_slice_of_another_is_read_at_its_place() -> None:
    records = placed(Told(random.Random(n).randbytes(32), 0, 1, SCHEMAS[0]) for n in range(20))
    columns = arrow([record.record() for record in records])
    sliced = tuple(column.slice(5, 9) for column in columns)
    world = World()
    world.take(pack_log_records(sliced, LAYOUT, TOPIC))
    expect(world, records[5:14])


def test_logs_that_collide_in_the_quick_order_are_still_told_apart() -> None:
    rows = np.zeros(6, ROW)
    rows["seq_num"] = [1, 1, 1, 2, 3, 1]
    rows["next_offset"] = range(1, 7)
    # Logs that differ only in words that the quick order does not look at.
    keys = [bytes(8) + bytes((n % 3,)) + bytes(31) for n in range(6)]
    rows["log"] = keys
    heights = highest(rows)
    assert sorted(
        zip(heights["log"], heights["seq_num"].tolist(), heights["next_offset"].tolist(), strict=True)
    ) == [
        (keys[0].rstrip(b"\0"), 2, 4),
        (keys[1].rstrip(b"\0"), 3, 5),
        (keys[2].rstrip(b"\0"), 1, 3),
    ]
