"""Which partitions are followed, on a real broker: what opposite wishes cost, and what is followed then."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from culm_connectors.kafka.partition_follower import FollowedRecord, PartitionFollower
from culm_topics.kafka import clients as kafka_clients
from culm_topics.kafka.clients import KafkaSettings
from tests.support.process.waiting import ended, until

PARTITIONS = 4


class Counting:
    """Makes consumers that count what they ask of the broker and of the client."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.calls: Counter[str] = Counter()
        self._settings = settings

    def __call__(self) -> Any:
        return _Counted(
            kafka_clients.consumer(
                self._settings,
                group_id=f"{self._settings.prefix}follow",
                start="latest",
                defaults={"enable.partition.eof": "true"},
            ),
            self.calls,
        )


class _Counted:
    def __init__(self, inner: Consumer, calls: Counter[str]) -> None:
        self._inner = inner
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        self._calls[name] += 1
        return getattr(self._inner, name)(*args, **named)


@contextlib.asynccontextmanager
async def following(
    settings: KafkaSettings, **how: Any
) -> AsyncIterator[tuple[PartitionFollower, list[FollowedRecord], Counter[str]]]:
    heard: list[FollowedRecord] = []

    def deliver(records: Sequence[FollowedRecord]) -> None:
        heard.extend(records)

    consumers = Counting(settings)
    new_following = PartitionFollower(consumers, {settings.topic("sds.in"): "sds.in"}, deliver, **how)
    try:
        yield new_following, heard, consumers.calls
    finally:
        await new_following.close()


def say(settings: KafkaSettings, partition: int, value: bytes) -> None:
    client = kafka_clients.producer(settings)
    client.produce(settings.topic("sds.in"), value, b"key", partition=partition)
    assert client.flush(30) == 0


@pytest.mark.kafka
async def test_following_and_leaving_in_a_loop_asks_the_broker_once(kafka: KafkaSettings) -> None:
    async with following(kafka) as (follower, heard, calls):
        for _ in range(300):
            await follower.follow(0)
            follower.unfollow(0)
        await follower.follow(1)
        assert calls["incremental_assign"] + calls["incremental_unassign"] <= 2
        say(kafka, 1, b"heard")
        await until(lambda: [record.value for record in heard] == [b"heard"])


@pytest.mark.kafka
async def test_wishes_that_were_taken_back_before_they_were_granted_are_not_granted(
    kafka: KafkaSettings,
) -> None:
    async with following(kafka) as (follower, _, calls):
        wishes = [asyncio.ensure_future(follower.follow(number % PARTITIONS)) for number in range(1_000)]
        await asyncio.sleep(0)
        for wish in wishes:
            wish.cancel()
        await asyncio.wait(wishes)
        await follower.follow(1)
        assert calls["incremental_assign"] <= PARTITIONS
        assert set(follower.positions) >= {("sds.in", 1)}


class _LateEnd:
    """Stands for a client whose broker tells the end of partition 0 at once, of 1 when asked again."""

    def __init__(self) -> None:
        self.all_assigned = threading.Event()
        self._ready = {0}

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        offsets = [
            TopicPartition(partition.topic, partition.partition, 5)
            for partition in asked
            if partition.partition in self._ready
        ]
        self._ready.add(1)
        return offsets

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        if any(topic_partition.partition == 1 for topic_partition in places):
            self.all_assigned.set()

    def consume(self, count: int, timeout: float) -> list[Any]:
        return []

    def close(self) -> None:
        pass


async def test_requests_that_a_busy_loop_hears_of_together_are_all_granted() -> None:
    client = _LateEnd()
    follower = PartitionFollower(
        lambda: cast(Consumer, client), {"all.sds.in": "sds.in"}, lambda records: None
    )
    wishes = asyncio.gather(follower.follow(0), follower.follow(1))
    await asyncio.sleep(0)
    # The loop turns once both are assigned, and not before.
    assert client.all_assigned.wait(30)
    await ended(wishes)
    assert follower.positions == {("sds.in", 0): 5, ("sds.in", 1): 5}
    await follower.close()
