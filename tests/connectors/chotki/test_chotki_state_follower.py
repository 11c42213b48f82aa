"""The follower of `chotki.state`: whole epochs only, in whatever order partitions are read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.chotki.errors import StateUnreadable, StoreIncomplete
from culm_connectors.chotki.local_state.state_follower import MAX_STAGED_BYTES, StateFollower
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.kafka import OffsetLost, TopicReaders, ask_origin
from culm_connectors.local_store.errors import StoreDamaged
from culm_models.chotki.log0 import common_store
from culm_streaming.chotki.output_records import OutputStage, StagedRecord
from culm_streaming.chotki.rows import InputTopic
from culm_topics.chotki.records import EpochRecord, epoch_key, field_records, large_fields
from culm_topics.kafka.clients import admin
from tests.connectors.chotki.test_chotki_store import MIB, field, held, key_of, mark, opened
from tests.streaming.chotki.test_chotki_epochs import story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.chotki.state_feed import FedTopic
from tests.support.connectors.edge import topics
from tests.support.kafka.topic_io import write_records
from tests.support.process.waiting import ended, until

PLACES = [(source, number) for source in InputTopic for number in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChotkiStore]:
    opened_store = opened(tmp_path)
    yield opened_store
    opened_store.close()


@contextlib.asynccontextmanager
async def following(
    store: ChotkiStore, topic: Any, on_epoch: Callable[[EpochRecord], None] = lambda _: None, **bounds: Any
) -> AsyncIterator[StateFollower]:
    follower = StateFollower(store, on_epoch, **bounds)
    running = asyncio.ensure_future(follower.run(topic))
    try:
        yield follower
    finally:
        running.cancel()
        await asyncio.wait({running})
        follower.close()
    assert running.cancelled()
    assert not follower.ready.is_set()


def write_epoch(topic: FedTopic, epoch: int, *fields: tuple[int, int, bytes], marks: int = 3) -> EpochRecord:
    """Fields (partition, number, value), and the marks of the first partitions."""
    for partition, number, value in fields:
        topic.write(partition, *field(number, value))
    end = mark(epoch, epoch)
    for partition in range(marks):
        topic.write(partition, epoch_key(partition), end.encode())
    return end


def job_epochs(seed: int, batches: list[dict[int, int]]) -> tuple[list[list[StagedRecord]], dict[int, Any]]:
    """What the job writes, epoch by epoch, and what is to be held at each of them."""
    chotki = ChotkiTopics()
    story(chotki, seed)
    job = ChotkiJob(chotki)
    written = [job.run({PLACES[partition]: limit for partition, limit in batch.items()}) for batch in batches]
    written.append(job.run())
    replay = ChotkiJob(chotki)
    expected: dict[int, Any] = {0: common_store()}
    for records in written:
        replay.take(records)
        if replay.marks:
            expected[replay.marks[0].epoch] = replay.values()
    return [records for records in written if records], expected


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1_000),
    batches=st.lists(st.dictionaries(st.integers(0, 8), st.integers(1, 9)), max_size=8),
    restarts=st.sets(st.integers(0, 8)),
    repeats=st.dictionaries(st.integers(0, 8), st.integers(0, 40)),
    compactions=st.sets(st.integers(0, 8)),
    staged_bytes=st.sampled_from([0, 2_000, MAX_STAGED_BYTES]),
    whole_bytes=st.sampled_from([large_fields.MAX_WHOLE_BYTES, 20]),
)
async def test_whatever_order_partitions_are_read_in_the_store_is_at_one_epoch(
    seed: int,
    batches: list[dict[int, int]],
    restarts: set[int],
    repeats: dict[int, int],
    compactions: set[int],
    staged_bytes: int,
    whole_bytes: int,
) -> None:
    """With kills of the edge, repeated micro-batches, compaction, and fields in pieces."""
    with patch.multiple(large_fields, MAX_WHOLE_BYTES=whole_bytes, STATE_PIECE_BYTES=8):
        written, expected = job_epochs(seed, batches)
    topic = FedTopic(seed=seed)
    compacted = False
    with tempfile.TemporaryDirectory() as folder:
        store = opened(Path(folder), map_size_bytes=16 * MIB)

        def look(_: EpochRecord) -> None:
            if not compacted:
                assert held(store.snapshot()) == expected[store.epoch]

        async with contextlib.AsyncExitStack() as stack:
            follower = await stack.enter_async_context(
                following(store, topic, look, max_staged_bytes=staged_bytes)
            )
            for number, records in enumerate(written):
                # A job that was killed has written a part of its epoch; then it writes all of it.
                topic.take(records[: repeats.get(number, 0)])
                topic.take(records)
                if number in restarts:
                    await stack.aclose()
                    if number in compactions:
                        topic.compact()
                        compacted = True
                    follower = await stack.enter_async_context(
                        following(store, topic, look, max_staged_bytes=staged_bytes)
                    )
                if number % 2:
                    await topic.idle.wait()
                    assert follower.ready.is_set()
                    assert held(store.snapshot()) == expected[store.epoch]
            await topic.idle.wait()
            assert follower.ready.is_set()
            assert store.epoch == max(expected) and held(store.snapshot()) == expected[store.epoch]
        store.close()


def in_pieces(number: int, value: bytes) -> list[tuple[bytes, bytes]]:
    """The records of a field: its pieces, then its head."""
    with patch.multiple(large_fields, MAX_WHOLE_BYTES=1, STATE_PIECE_BYTES=4):
        return list(field_records(key_of(number), value, None))


async def test_a_field_that_lacks_pieces_is_waited_for_also_by_the_next_run(store: ChotkiStore) -> None:
    topic = FedTopic()
    *pieces, head = in_pieces(1, b"0 large value")
    for key, value in (pieces[0], head):
        topic.write(0, key, value)
    write_epoch(topic, 1, (0, 2, b"0small"))
    async with following(store, topic) as follower:
        await topic.idle.wait()
        assert not follower.ready.is_set()
    # The micro-batch ran again and died; of the first run compaction has left the head.
    async with following(store, topic) as follower:
        await topic.idle.wait()
        assert not follower.ready.is_set()
        for key, value in pieces[1:]:
            topic.write(0, key, value)
        write_epoch(topic, 2)
        await until(follower.ready.is_set)
    assert held(store.snapshot())[key_of(1)] == b"0 large value"
    assert held(store.snapshot())[key_of(2)] == b"0small"


async def test_a_served_store_never_goes_to_an_epoch_that_lacks_pieces(store: ChotkiStore) -> None:
    topic = FedTopic()
    follower = StateFollower(store, lambda _: None)
    running = asyncio.ensure_future(follower.run(cast(Any, topic)))
    await until(follower.ready.is_set)
    for key, value in in_pieces(1, b"0 large value")[1:]:
        topic.write(0, key, value)
    write_epoch(topic, 1)
    with pytest.RaisesGroup(pytest.RaisesExc(StateUnreadable, match="pieces of a field are missing")):
        await running
    follower.close()
    assert store.epoch == 0


async def test_an_empty_topic_is_ready_at_once_with_what_a_fresh_replica_holds(store: ChotkiStore) -> None:
    async with following(store, FedTopic()) as follower:
        await follower.ready.wait()
        assert store.epoch == 0 and held(store.snapshot()) == common_store()


async def test_nothing_of_an_epoch_is_seen_before_its_mark_is_in_every_partition(store: ChotkiStore) -> None:
    topic, epochs = FedTopic(), list[int]()
    async with following(store, topic, lambda snapshot: epochs.append(snapshot.epoch)) as follower:
        await follower.ready.wait()
        first = write_epoch(topic, 1, (0, 1, b"0a"), (2, 2, b"0b"), marks=2)
        await topic.idle.wait()
        assert (store.epoch, epochs) == (0, []) and follower.ready.is_set()
        topic.write(2, epoch_key(2), first.encode())
        await topic.idle.wait()
        assert (store.epoch, epochs) == (1, [1])
        assert store.snapshot().get(key_of(1)) == b"0a" and store.snapshot().get(key_of(2)) == b"0b"


async def test_nobody_is_served_before_an_epoch_beyond_the_ends_of_the_start(store: ChotkiStore) -> None:
    topic = FedTopic()
    write_epoch(topic, 1, (0, 1, b"0a"))
    # The job is in the middle of its second epoch.
    write_epoch(topic, 2, (0, 1, b"0b"), marks=0)
    async with following(store, topic) as follower:
        await topic.idle.wait()
        assert store.epoch == 1 and not follower.ready.is_set()
        write_epoch(topic, 2, (0, 1, b"0b"))
        await topic.idle.wait()
        assert store.epoch == 2 and follower.ready.is_set()


async def test_older_marks_that_compaction_took_are_not_waited_for(store: ChotkiStore) -> None:
    topic = FedTopic()
    write_epoch(topic, 1, (0, 1, b"0a"), (1, 2, b"0b"))
    write_epoch(topic, 2, (1, 3, b"0c"))
    topic.compact()
    async with following(store, topic) as follower:
        await topic.idle.wait()
        assert store.epoch == 2 and follower.ready.is_set()


async def test_an_end_behind_what_a_reader_sees_is_reached(store: ChotkiStore) -> None:
    topic = FedTopic()
    write_epoch(topic, 1, (0, 1, b"0a"))
    topic.skip()
    async with following(store, topic) as follower:
        await follower.ready.wait()
        assert store.epoch == 1


async def test_a_mark_that_comes_twice_leaves_nothing_staged(store: ChotkiStore) -> None:
    topic = FedTopic()
    write_epoch(topic, 1, (0, 1, b"0a"))
    async with following(store, topic) as follower:
        await topic.idle.wait()
    topic.write(0, *field(1, b"0a"))
    topic.write(0, epoch_key(0), mark(1, 1).encode())
    async with following(store, topic) as follower:
        await topic.idle.wait()
        assert follower.ready.is_set() and store.state_offsets[0] == topic.ends[0]


async def test_an_epoch_that_is_too_large_to_stage_is_built_and_dropped_nowhere(
    store: ChotkiStore, caplog: pytest.LogCaptureFixture
) -> None:
    topic = FedTopic()
    fields = [(number % 3, number, b"0" * 500) for number in range(100)]
    async with following(store, topic, max_staged_bytes=10_000) as follower:
        await follower.ready.wait()
        write_epoch(topic, 1, *fields, marks=0)
        await topic.idle.wait()
        assert not follower.ready.is_set() and "no new replica is served" in caplog.text
        with pytest.raises(StoreIncomplete):
            store.snapshot()
    # What was built is kept, and not read again.
    assert sum(store.state_offsets.values()) > 50
    write_epoch(topic, 1)
    async with following(store, topic, max_staged_bytes=10_000) as follower:
        await follower.ready.wait()
        snapshot = store.snapshot()
        assert all(snapshot.get(key_of(number)) == value for _, number, value in fields)


async def test_who_falls_behind_compaction_serves_nobody_until_the_end_is_reached(
    store: ChotkiStore, caplog: pytest.LogCaptureFixture
) -> None:
    topic = FedTopic()
    served: list[bool] = []
    async with following(store, topic, lambda _: served.append(follower.ready.is_set())) as follower:
        await follower.ready.wait()
        write_epoch(topic, 1, (0, 1, b"0a"))
        await topic.idle.wait()
        topic.write(0, *field(1, b"0b"), age_s=2_000.0)
        write_epoch(topic, 2)
        await until(lambda: topic.opened == 2 and follower.ready.is_set())
        assert served == [True, False] and "no replica is served" in caplog.text
        assert store.epoch == 2
        assert store.snapshot().get(key_of(1)) == b"0b"


async def test_a_job_that_began_anew_is_followed(
    store: ChotkiStore, caplog: pytest.LogCaptureFixture
) -> None:
    topic = FedTopic()
    write_epoch(topic, 7, (0, 1, b"0a"))
    async with following(store, topic):
        await topic.idle.wait()
        with caplog.at_level(logging.WARNING):
            write_epoch(topic, 3, (0, 1, b"0b"))
            await topic.idle.wait()
        assert store.epoch == 3 and store.snapshot().get(key_of(1)) == b"0b"
        assert "epoch 3 comes behind epoch 7" in caplog.text


@pytest.mark.parametrize(
    "record",
    [
        (None, b""),
        (key_of(1), None),
        (epoch_key(1), mark(1, 1).encode()),
        (epoch_key(0), b"\x00"),
        (key_of(1), b"\x00"),
    ],
    ids=["no key", "no value", "another partition's mark", "no mark", "no field"],
)
async def test_what_cannot_be_read_ends_the_follower_and_is_served_to_nobody(
    store: ChotkiStore, record: tuple[bytes | None, bytes | None]
) -> None:
    topic = FedTopic()
    topic.write(0, *record)
    write_epoch(topic, 1)
    follower = StateFollower(store, lambda _: None)
    with pytest.RaisesGroup(StateUnreadable):
        await follower.run(cast(Any, topic))
    assert store.epoch == 0 and not follower.ready.is_set()
    follower.close()


async def test_offsets_that_the_topic_has_lost_have_the_store_rebuilt(tmp_path: Path) -> None:
    class Lost(FedTopic):
        def next_batch(self, positions: object) -> Any:
            raise OffsetLost("gone")

    store = opened(tmp_path)
    store.apply([field(1, b"0a")], mark(1, 1), {0: 5})
    follower = StateFollower(store, lambda _: None)
    with pytest.RaisesGroup(OffsetLost):
        await follower.run(cast(Any, Lost()))
    follower.close()
    store.close()
    store = opened(tmp_path)
    assert store.epoch == 0
    store.close()


async def test_damage_that_a_reader_met_ends_the_flushing(store: ChotkiStore) -> None:
    follower = StateFollower(store, lambda _: None, flush_interval_s=0.01)
    flushing = asyncio.ensure_future(follower.flush_now_and_then())
    store._file.damage = StoreDamaged("met")
    with pytest.raises(StoreDamaged, match="met"):
        await flushing
    follower.close()


@pytest.mark.kafka
async def test_what_the_job_wrote_is_followed_on_a_real_broker(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = topics(kafka_bootstrap, topic_prefix, partitions=3)
    written, expected = job_epochs(5, [{0: 9, 1: 4, 2: 3}, {0: 2, 1: 3, 2: 9}])

    def produce(records: list[StagedRecord]) -> None:
        state = [
            record
            for record in records
            if record.partition is not None and record.stage is not OutputStage.TOLD
        ]
        write_records(
            kafka, "chotki.state", [(record.partition or 0, record.key, record.value) for record in state]
        )

    origin = ask_origin(admin(kafka), [kafka.topic("chotki.state")])
    readers = TopicReaders(kafka, f"{topic_prefix}reader")
    produce(written[0])
    store = opened(tmp_path, origin)
    async with following(store, readers) as follower:
        await ended(follower.ready.wait())
        assert store.epoch == 1 and held(store.snapshot()) == expected[1]
        for records in written[1:]:
            produce(records)
        await until(lambda: store.epoch == max(expected))
        assert held(store.snapshot()) == expected[store.epoch]
    store.close()
    # From where it was.
    store = opened(tmp_path, origin)
    assert store.epoch == max(expected)
    async with following(store, readers) as follower:
        await ended(follower.ready.wait())
        assert held(store.snapshot()) == expected[store.epoch]
    store.close()
