"""Which logs cannot go on, and when a connector looks for their lost entries."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.kafka import OffsetLost, TopicReaders
from culm_connectors.logs.hub import Stored
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.lost_entries import watch
from culm_connectors.logs.lost_entries.sending import produce_again
from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_connectors.logs.lost_entries.survey import LostPart, find_lost
from culm_connectors.logs.lost_entries.watch import EntriesState, LostEntriesWatch
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.operation import CheckedOperation, peek
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import publish_positions, read_positions
from culm_topics.logs.records import LogRecord
from culm_topics.readers.batch import Partition
from culm_topics.records import log_key
from tests.support.kafka.topic_io import produce, produce_entries
from tests.support.p2panda.logs import author, make_log
from tests.support.process.waiting import while_working

PLACE = ("culm.entries", 0)
AFTER_S = 0.5
"""Edges wait for a part of it before they look."""


class World:
    """An index, the topics, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.start = self.end = self.read = 0
        self.heights: dict[LogKey, int] = {}
        self.lost: dict[LogKey, LostPart] = {}
        self.looked: list[Collection[LogKey] | None] = []
        self.produced: list[LostPart] = []
        store = SimpleNamespace(height=lambda *log: self.heights[log])
        self.watch = LostEntriesWatch(
            cast("Any", SimpleNamespace(store=store)),
            cast("Any", None),
            cast("Any", None),
            lambda: EntriesState({PLACE: self.start}, {PLACE: self.end}, {PLACE: self.read}),
            bytes(32),
            RepairSettings(after_s=AFTER_S),
            now_s=lambda: self.now_s,
        )
        monkeypatch.setattr(watch, "find_lost", self._find_lost)
        monkeypatch.setattr(watch, "produce_again", self._produce_again)
        monkeypatch.setattr("random.uniform", lambda *_: 0.0)

    async def _find_lost(
        self, index: object, topics: object, read: Mapping[Partition, int], *, only: Collection[LogKey] | None
    ) -> list[LostPart]:
        self.looked.append(only)
        return [part for log, part in self.lost.items() if only is None or log in only]

    async def _produce_again(self, parts: Sequence[LostPart], *_: object, **options: Any) -> None:
        assert all(map(options["is_wanted"], parts))
        self.produced += parts

    def store(self, entries: list[CheckedOperation]) -> None:
        self.heights[entries[-1].log] = entries[-1].entry.seq_num
        self.watch.on_stored(Stored(tuple(entries), ()))
        self.end += len(entries)

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / AFTER_S * 4)):
            self.now_s += AFTER_S / 4
            await self.watch.tick()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """After its first look, which a start leads to."""
    made = World(monkeypatch)
    await made.pass_time(2 * AFTER_S)
    assert made.looked == [None]
    made.looked.clear()
    return made


LOG = make_log(author("a"), 0, 4)


async def test_a_job_that_is_behind_or_away_for_an_hour_is_no_reason_to_look(world: World) -> None:
    world.store(LOG)
    await world.pass_time(100 * AFTER_S)
    for other in range(20):
        world.store(make_log(author("b"), other, 1))
        world.read += 1
        await world.pass_time(AFTER_S / 2)
    assert world.looked == []
    world.read = world.end
    world.watch.on_logs({LOG[0].log: 4, **{(author("b").public_key, log_id): 1 for log_id in range(20)}})
    await world.pass_time(10 * AFTER_S)
    assert world.looked == []


async def test_what_the_job_has_passed_by_is_produced_again_ever_more_rarely(world: World) -> None:
    world.lost[LOG[0].log] = LostPart(log_key(*LOG[0].log), 0, 1, 4, None)
    world.store(LOG)
    world.read = world.end
    await world.pass_time(1.5 * AFTER_S)
    assert world.looked == [[LOG[0].log]] and world.produced == [world.lost[LOG[0].log]]
    await world.pass_time(128 * AFTER_S)
    assert 5 <= len(world.produced) <= 8
    # It goes on: what has helped is not counted against the next time.
    count = len(world.produced)
    world.watch.on_logs({LOG[0].log: 3})
    await world.pass_time(1.5 * AFTER_S)
    assert len(world.produced) == count + 1
    world.watch.on_logs({LOG[0].log: 4})
    await world.pass_time(1_000 * AFTER_S)
    assert len(world.produced) == count + 1


async def test_records_that_were_removed_unread_are_a_reason_once(world: World) -> None:
    world.store(LOG)
    await world.pass_time(3 * AFTER_S)
    assert world.looked == []
    world.start = 2
    await world.pass_time(10 * AFTER_S)
    assert world.looked == [[LOG[0].log]]
    assert world.produced == []


async def test_logs_that_are_too_many_to_be_remembered_are_looked_for_among_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_MAX_LOGS", 1)
    world.store(LOG)
    world.store(make_log(author("b"), 0, 1))
    world.read = world.end
    await world.pass_time(3 * AFTER_S)
    assert world.looked[0] is None


async def test_what_retention_overtakes_is_read_another_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = 0
    again = asyncio.Event()

    async def tick() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 1:
            raise OffsetLost("culm.entries/0: offset 1 is outside of 5..9")
        again.set()

    monkeypatch.setattr(world.watch, "tick", tick)
    running = asyncio.create_task(world.watch.run())
    async with while_working():
        await again.wait()
    running.cancel()


async def test_nothing_is_done_where_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made = World(monkeypatch)
    made.watch._settings = RepairSettings(enabled=False)
    await made.watch.run()


async def test_a_log_of_another_flavour_that_misses_an_entry_is_passed_over() -> None:
    index, publisher = SimpleNamespace(store=SimpleNamespace(log_info=lambda *_: None)), SimpleNamespace()
    missing = LostPart(log_key(*LOG[0].log, YAMF), 0, 1, 0, 1)
    await produce_again([missing], cast("Any", index), cast("Any", publisher), bytes(32))


PARTITIONS = 1


@pytest.mark.kafka
async def test_only_what_the_job_can_get_from_nowhere_is_lost(tmp_path: Path, kafka: KafkaSettings) -> None:
    names = ("expired", "to be read", "waits", "whole", "torn", "elsewhere", "of others", "expired, too")
    logs = {name: make_log(author(name), 0, 9) for name in names}
    keys = {name: log_key(*log[0].log) for name, log in logs.items()}
    store = LmdbLogStore(peek, tmp_path / "index")
    heights = {"expired": 6, "to be read": 6, "waits": 6, "whole": 4, "torn": 4, "expired, too": 2}
    for name, height in heights.items():
        store.append(logs[name][:height])

    on_logs = [
        *((name, 2) for name in ("expired", "to be read", "waits", "torn", "of others")),
        ("whole", 4),
    ]
    truth = [entry for name, height in on_logs for entry in logs[name][:height]]
    produce(
        kafka,
        "logs",
        [
            (
                log_key(*entry.log),
                LogRecord(
                    entry.entry.seq_num, entry.entry_bytes, entry.payload_bytes, entry.hash, entry.schema_id
                ).encode(),
            )
            for entry in truth
        ],
    )
    read = [*logs["waits"][2:6], *logs["expired"][4:6], logs["torn"][7], logs["elsewhere"][2]]
    produce_entries(kafka, [*read, *logs["to be read"][2:6], *logs["of others"][2:4]])

    readers = TopicReaders(kafka, f"{reader_group_prefix(kafka)}test")
    positions = {(kafka.topic("entries"), 0): len(read)}
    lost = await find_lost(store, readers, positions, others=True)
    expected = {
        "expired": LostPart(keys["expired"], 2, 3, 6, None),
        "expired, too": LostPart(keys["expired, too"], 0, 1, 2, None),
        "waits": LostPart(keys["waits"], 2, 1, 6, None),
        "torn": LostPart(keys["torn"], 2, 3, 4, 5),
        "elsewhere": LostPart(keys["elsewhere"], 0, 1, 0, 1),
    }
    assert {part.key: part for part in lost} == {part.key: part for part in expected.values()}

    own = await find_lost(store, readers, positions)
    assert {part.key for part in own} == {keys[name] for name in expected if name in heights}
    lost_of_two = await find_lost(
        store, readers, positions, only=[logs["waits"][0].log, logs["whole"][0].log]
    )
    assert lost_of_two == [expected["waits"]]
    for unknown in ({}, {(kafka.topic("entries"), 0): 1_000}):
        # How far the job has read is not known: what is on `entries` may still be read.
        own = await find_lost(store, readers, unknown)
        assert {part.key for part in own} == {keys[name] for name in ("expired", "expired, too", "torn")}
    store.close()


@pytest.mark.kafka
def test_the_position_of_a_job_is_for_everybody_to_see(kafka: KafkaSettings) -> None:
    partition, other = (kafka.topic("entries"), 0), (kafka.topic("entries"), 1)
    assert read_positions(kafka, "logs", [partition]) == {}
    publish_positions(kafka, "logs", {partition: 7})
    assert read_positions(kafka, "logs", [partition, other]) == {partition: 7}
    assert read_positions(kafka, "blocks", [partition]) == {}
