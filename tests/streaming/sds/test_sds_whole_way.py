"""SDS the whole way: full participants, and clients of hosted ones, at two connectors, Kafka and the jobs.

The jobs run in this process, on the Spark that the other tests have warmed; `tests/e2e/sds/test_demo_sds.py`
has them as a process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

import pytest

from culm_connectors.sds.participants.client import FROM_THE_BEGINNING, SdsClient
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address, TransportSettings
from culm_models.keys import KeyPair
from culm_models.sds.frames.messages import EventFrame
from culm_models.sds.settings import SdsSettings
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.sds.job import SdsJobSettings
from culm_topics.catalogue.jobs import jobs_of
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.records import SdsMessageRecord
from tests.support.connectors.edge import connector, running
from tests.support.kafka.topic_io import read_all
from tests.support.process.waiting import while_working, work_done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Job = Future[None]
DEADLINE_S = 240.0
ROUNDS = 3


@pytest.fixture
def deployment(
    spark: SparkSession, tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> Iterator[tuple[KafkaSettings, Job]]:
    """Topics, and the jobs at work on them until the test is over."""
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(kafka)
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(tmp_path / "checkpoints"),
        jobs=jobs_of("sds"),
        job_settings={"sds": SdsJobSettings(interval_ms=200)},
    )
    stop = Flag()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(run_jobs, spark, settings, stop=stop)
        try:
            yield kafka, job
        finally:
            stop.set()
    job.result()


def key(name: str) -> KeyPair:
    return KeyPair.from_private_key(name.encode().ljust(32, b"-"))


@contextlib.asynccontextmanager
async def full(folder: Path, name: str, *edges: Address) -> AsyncIterator[SdsPeer]:
    async with SdsPeer(
        folder / name,
        "room",
        key_pair=key(name),
        participant_id=name,
        settings=SdsSettings(resend_unacknowledged_ms=2_000, sync_floor_ms=1_000, sync_spread_ms=1_000),
        durable=False,
        transport=TransportSettings(datagram_bytes="auto"),
    ) as peer:
        for address in edges:
            peer.dial(address)
        yield peer


@contextlib.asynccontextmanager
async def hosted(
    name: str, *edges: Address, **options: Any
) -> AsyncIterator[tuple[SdsClient, list[EventFrame]]]:
    heard: list[EventFrame] = []
    async with SdsClient(
        "room",
        key_pair=key(name),
        participant_id=name,
        settings={"resend_unacknowledged_ms": 2_000, "sync_floor_ms": 1_000, "sync_spread_ms": 1_000},
        **options,
    ) as client:
        client.listeners.append(heard.append)
        for address in edges:
            client.dial(address)
        yield client, heard


async def until(job: Job, condition: Callable[[], Any], what: Callable[[], object]) -> None:
    def running() -> None:
        if job.done():
            job.result()
            raise AssertionError("the jobs have ended")

    async with while_working(limit_s=DEADLINE_S, progress=lambda: (work_done(), str(what()))):
        while not condition():
            running()
            await asyncio.sleep(0.05)


def log_of(peer: SdsPeer) -> list[tuple[int, str]]:
    return list(peer.status().log)


def has(read_list: Callable[[], list[Any]], count: int) -> bool:
    return len(read_list()) == count


def contents(heard: list[EventFrame], kind: str) -> list[bytes]:
    return [event.content or b"" for event in heard if event.kind == kind]


async def test_full_and_hosted_participants_hold_the_same_log_and_know_that_they_were_heard(
    tmp_path: Path, deployment: tuple[KafkaSettings, Job]
) -> None:
    kafka, job = deployment
    async with (
        running(connector(tmp_path / "west", kafka)) as west,
        running(connector(tmp_path / "east", kafka)) as east,
    ):
        assert west.address is not None and east.address is not None
        async with (
            full(tmp_path, "alice", west.address) as alice,
            full(tmp_path, "carol", east.address) as carol,
            hosted("bob", east.address) as (bob, bob_heard),
            hosted("dora", west.address) as (dora, dora_heard),
        ):
            await until(job, lambda: contents(bob_heard, "joined"), lambda: bob_heard)
            sent: dict[str, list[str]] = {"alice": [], "carol": [], "bob": [], "dora": []}
            for number in range(ROUNDS):
                for name, speaker in (("alice", alice), ("bob", bob), ("carol", carol), ("dora", dora)):
                    sent[name].append(await speaker.send(f"{name} {number}".encode()))
            everything = {message_id for ids in sent.values() for message_id in ids}
            logs = [partial(log_of, peer) for peer in (alice, carol)]
            for log_now in logs:
                await until(job, partial(has, log_now, len(everything)), log_now)
            assert alice.status().log == carol.status().log
            assert {message_id for _, message_id in alice.status().log} == everything
            for heard in (bob_heard, dora_heard):
                delivered = partial(contents, heard, "delivered")
                await until(job, partial(has, delivered, len(everything)), delivered)
                numbers = [event.number for event in heard if event.number is not None]
                assert numbers == sorted(set(numbers))
            async with while_working(limit_s=DEADLINE_S):
                for name, speaker in (("alice", alice), ("bob", bob), ("carol", carol), ("dora", dora)):
                    for message_id in sent[name]:
                        assert await speaker.acknowledged(message_id), (name, message_id)
            stored = [SdsMessageRecord.decode(value) for _, value in read_all(kafka, "sds.messages")]
            assert {record.message_id for record in stored} == everything
            log = list(alice.status().log)
        # Whoever comes later, as either, gets the same.
        async with (
            full(tmp_path, "late", east.address) as late,
            hosted("thin", west.address, position=FROM_THE_BEGINNING) as (_, thin_heard),
        ):
            await until(job, lambda: list(late.status().log) == log, lambda: late.status())
            await until(
                job,
                lambda: len(contents(thin_heard, "delivered")) == len(log),
                lambda: contents(thin_heard, "delivered"),
            )
