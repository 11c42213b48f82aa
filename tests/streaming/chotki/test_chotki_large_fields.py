"""Fields larger than a record of Kafka: the job stores them, and counts no sync that lacks a piece."""

from __future__ import annotations

import cbor2
import pytest

from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.rdx import merge, parse_text, parse_vector, write_vector
from culm_models.chotki.rdx.first import write_element
from culm_streaming.chotki import state as shard_state
from culm_streaming.chotki.epochs import count_epoch
from culm_streaming.chotki.output_records import OutputStage, OutputTopic
from culm_streaming.chotki.rows import CommitRow, EpochRows, InputTopic, MarkRow, PieceRow
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.state import BLOBS, Kept, KeptPieces, open_buckets
from culm_streaming.chotki.step import restore_shard
from culm_streaming.errors import JobError
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.chotki.records import (
    CommitRecord,
    EpochRecord,
    FieldJoiner,
    RecordOrigin,
    is_piece_key,
    received,
    session_key,
)
from culm_topics.records import RejectedRecord
from culm_topics.topic_spec import MAX_MESSAGE_BYTES
from tests.streaming.chotki.test_chotki_epochs import NORTH, of_state
from tests.support.chotki.job import ChotkiJob, ChotkiTopics

AT = Id.make(0xC, 1)
KEY = object_key(Id.make(0xC, 1, 1), "E")
PLACE = InputTopic.FIELDS
BRINGER = RecordOrigin(NORTH.edge, 0xC, 1)


def element(letter: str, count: int) -> bytes:
    return parse_text("E", f'{{"{letter * count}"}}')


def commit(topics: ChotkiTopics, at: Id, after: int, origin: RecordOrigin = BRINGER) -> None:
    vector = write_vector({at.src: at.pro})
    topics.operand(origin, vector_key(at), vector)
    topics.commit(CommitRecord(origin, at, vector, write_vector({at.src: after}), topics.ends()))


def test_a_field_of_many_records_is_merged_and_its_vector_counts() -> None:
    topics = ChotkiTopics()
    job = ChotkiJob(topics)
    operands = [element(letter, MAX_MESSAGE_BYTES) for letter in "ab"]
    for seq, operand in enumerate(operands, 1):
        topics.operand(BRINGER, KEY, operand)
        commit(topics, Id.make(0xC, seq), Id.make(0xC, seq - 1).pro if seq > 1 else 0)
        job.run()
        assert job.values()[KEY] == merge("E", operands[:seq])
        assert job.vector[0xC] == Id.make(0xC, seq).pro
    assert not job.rejected
    assert all(len(output.value or b"") < MAX_MESSAGE_BYTES for output in job.written)
    # The pieces of the first value are gone, after the head of the second was written.
    kept = [key for key in job.state if is_piece_key(key)]
    assert len(kept) == 3
    tombstones = [
        output for output in job.written if output.topic is OutputTopic.STATE and output.value is None
    ]
    assert len(tombstones) == 2 and {tombstone.stage for tombstone in tombstones} == {OutputStage.VECTORS}


def test_a_job_without_its_checkpoint_goes_on_with_large_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ChotkiTopics()
    job = ChotkiJob(topics)
    first, second = element("a", MAX_MESSAGE_BYTES), element("b", 1)
    topics.operand(BRINGER, KEY, first)
    job.run()
    job.restore(of_state(job))
    topics.operand(BRINGER, KEY, second)
    job.run()
    assert job.values()[KEY] == merge("E", [first, second])
    gone = next(key for key in job.state if is_piece_key(key))
    with pytest.raises(JobError, match="not all pieces"):
        restore_shard(MemoryState(), [(key, value) for key, value in job.state.items() if key != gone])


def test_a_field_is_joined_in_whatever_order_its_records_are_left_by_compaction() -> None:
    topics = ChotkiTopics()
    job = ChotkiJob(topics)
    value = element("a", MAX_MESSAGE_BYTES)
    topics.operand(BRINGER, KEY, value)
    written = [output for output in job.run() if output.key[:18] == KEY]
    head, pieces = written[-1], written[:-1]
    joiner = FieldJoiner()
    # The micro-batch ran again and died before its head: of the pieces those behind the first head stay.
    assert joiner.take(0, head.key, head.value or b"") is None
    assert (joiner.held_from, list(joiner.incomplete)) == (0, [KEY])
    joiner.end_epoch()
    assert joiner.take(2, pieces[0].key, pieces[0].value or b"") is None
    joiner.end_epoch()
    whole = joiner.take(4, pieces[1].key, pieces[1].value or b"")
    assert whole is not None and value in whole[1]
    assert (joiner.held_from, list(joiner.incomplete)) == (None, [])
    # Pieces of a value that was never finished are forgotten at the next mark.
    joiner.take(5, pieces[0].key, pieces[0].value or b"")
    assert joiner.held_from == 5
    joiner.end_epoch()
    assert joiner.held_from is None


@pytest.mark.parametrize("lost", [1, 2])
def test_a_sync_of_which_a_piece_is_missing_does_not_count(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "MAX_PIECE_BYTES", 10)
    topics = ChotkiTopics()
    job = ChotkiJob(topics)
    topics.operand(BRINGER, KEY, element("a", 30))
    (input_partition,) = (input_partition for input_partition, records in topics.records.items() if records)
    del topics.records[input_partition][lost]
    commit(topics, AT, 0)
    job.run()
    assert KEY not in job.values() and 0xC not in job.vector
    [refusal] = [RejectedRecord.decode(value) for value in job.rejected]
    assert refusal.code == "chotki.gap" and "pieces" in refusal.detail
    # The next session brings it all.
    again = BRINGER._replace(session=2)
    topics.operand(again, KEY, element("a", 30))
    commit(topics, AT, 0, again)
    job.run()
    assert job.values()[KEY] == element("a", 30) and job.vector[0xC] == AT.pro


def test_operands_beyond_those_that_may_be_open_are_given_up_and_their_syncs_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(received, "MAX_PIECE_BYTES", 10)
    topics = ChotkiTopics(1)
    job = ChotkiJob(topics, ChotkiStateSettings(shards=1, max_open_operands=2))
    rest = {}
    input_partition = (PLACE, 0)
    for session in range(3):
        origin = BRINGER._replace(session=session)
        topics.operand(origin, KEY, element("abc"[session], 20))
        rest[session] = topics.records[input_partition][-1]
        del topics.records[input_partition][-1]
        job.run()
    for session in range(3):
        topics.records[input_partition].append(rest[session])
        at = Id.make(0xC0 + session, 1)
        commit(topics, at, 0, BRINGER._replace(session=session))
        job.run()
    assert job.values()[KEY] == merge("E", [element(letter, 20) for letter in "bc"])
    assert set(job.vector) == {0, 0xC1, 0xC2}


def test_a_list_is_appended_to_up_to_its_limit_and_what_is_left_out_is_reported() -> None:
    topics = ChotkiTopics()
    key = object_key(Id.make(0xC, 1, 1), "L")
    job = ChotkiJob(topics, ChotkiStateSettings(shards=3, max_list_bytes=40))
    operands = [write_element(ord("S"), 0, 0, letter * 20) for letter in (b"a", b"b", b"c")]
    for operand in operands:
        topics.operand(BRINGER, key, operand)
        job.run()
    assert job.values()[key] == operands[0]
    assert {RejectedRecord.decode(value).code for value in job.rejected} == {"chotki.record_size"}


def test_large_values_have_blobs_of_their_own_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_state, "LARGE_BYTES", 10)
    monkeypatch.setattr(shard_state, "_BLOB_BYTES", 4)
    state = MemoryState()
    for value in (bytes(12), b"short", bytes(20), bytes(11)):
        (bucket,) = open_buckets(state, [KEY])
        bucket.put(KEY, Kept(value, b"seen"))
        bucket.flush()
        (bucket,) = open_buckets(state, [KEY])
        assert bucket.get(KEY) == Kept(value, b"seen")
        assert len(state.values) == 1 + (-(-len(value) // 4) if len(value) > 10 else 0)


def test_a_small_change_does_not_write_the_long_values_of_its_neighbours() -> None:
    state = MemoryState()
    keys = [object_key(Id.make(0xC, seq, 1), "E") for seq in range(1, 60)]

    def put(key: bytes, value: bytes) -> None:
        (bucket,) = open_buckets(state, [key])
        bucket.put(key, Kept(value, b"seen"))
        bucket.flush()

    for key in keys:
        put(key, key * 10_000)
    before = state.saved_bytes
    put(KEY, b"short")
    assert state.saved_bytes - before < 1_100_000
    assert [_kept(state, key) for key in keys[1:]] == [key * 10_000 for key in keys[1:]]
    for key in keys:
        put(key, b"short")
    assert len(state.values) == 1
    assert [_kept(state, key) for key in keys] == [b"short"] * len(keys)


def _kept(state: MemoryState, key: bytes) -> bytes | None:
    (bucket,) = open_buckets(state, [key])
    kept = bucket.get(key)
    return None if kept is None else kept.value


def test_pieces_that_an_earlier_format_kept_go_on() -> None:
    state = MemoryState()
    state.save(BLOBS, b"P", cbor2.dumps({b"name": [b"ab", b"cd"]}))
    pieces = KeptPieces(state, 2)
    assert pieces.take(b"name", 2, 3, b"ef") == b"abcdef"
    pieces.save()
    assert not state.values


@pytest.mark.parametrize("number", [2, 3, 4])
def test_an_operand_that_was_open_in_a_format_without_counts_goes_on(number: int) -> None:
    state = MemoryState()
    name = KEY + session_key(NORTH.edge, 1)
    rest: list[object] = [{name: [0, 0, 0]}, 0]
    state.save(BLOBS, b"E", cbor2.dumps([number, 1, {}, [{0: 0}, {0: 1}, {}], [], *rest[: number - 2]]))
    vector = write_vector({AT.src: AT.pro})
    rows = EpochRows(
        commits=[CommitRow(vector, b"", ((0, 3),), session_key(NORTH.edge, 1), 0, 0)],
        marks=[MarkRow(int(PLACE), 0, 3, 0)],
        pieces=[PieceRow(name, piece, 3, 0, piece) for piece in (1, 2)],
    )
    written = list(count_epoch(state, rows, 0, ChotkiStateSettings(shards=1)))
    (mark,) = [
        EpochRecord.decode(output.value or b"") for output in written if output.stage is OutputStage.MARKS
    ]
    assert parse_vector(mark.vector) == {AT.src: AT.pro}
