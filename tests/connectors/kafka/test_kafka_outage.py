"""A broker that dies and comes back: nothing is lost, nothing counts as stored before it is."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from pathlib import Path

import pytest

from culm_connectors.connector import Connector
from culm_infra.stack import Stack
from tests.support.edge import connector, reference_peer, running, topics, write_document
from tests.support.logs import SCHEMA
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


def scrape(edge: Connector) -> dict[str, float]:
    """A value of every metric that has one, by name."""
    return {sample.name: sample.value for metric in edge.collector.collect() for sample in metric.samples}


async def test_entries_wait_for_a_broker_that_is_away_and_probes_say_so(
    tmp_path: Path, topic_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "culm_connectors")
    stack = Stack(tmp_path / "stack")
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
        async with (
            running(connector(tmp_path / "edge-1", kafka, schemas=(SCHEMA,))) as first,
            running(connector(tmp_path / "edge-2", kafka, schemas=(SCHEMA,))) as second,
            reference_peer(tmp_path, "a") as a,
            reference_peer(tmp_path, "b") as b,
        ):
            assert first.address is not None
            assert second.address is not None
            a.dial(first.address)
            b.dial(second.address)
            before = await write_document(a, 5)
            await b.wait_until_holding({before[0].log: 6}, 30)
            await asyncio.to_thread(stack.kill)
            meanwhile = await write_document(a, 30)
            await until(lambda: first.driver.metrics.staged > 0)
            assert first.index.store.height(*meanwhile[0].log) == 0
            assert first.is_ready
            await until(lambda: first.health.why_not_ready())
            (reason,) = first.health.why_not_ready()
            assert reason.startswith("Kafka has not answered for ")
            scraped = scrape(first)
            assert scraped["culm_kafka_up"] == scraped["culm_connector_ready"] == 0
            assert "culm_topic_lag_records" not in scraped, "it is unknown, not zero"
            progress_s = scraped["culm_last_progress_timestamp_seconds"]
            await asyncio.to_thread(stack.up, quick_start=True)
            await b.wait_until_holding({meanwhile[0].log: 31}, 60)
            after = await write_document(b, 5)
            await a.wait_until_holding({after[0].log: 6}, 60)
            await until(lambda: not first.health.why_not_ready())
            scraped = scrape(first)
            assert scraped["culm_kafka_up"] == scraped["culm_connector_ready"] == 1
            assert "culm_topic_lag_records" in scraped
            assert scraped["culm_last_progress_timestamp_seconds"] > progress_s
            lines = [record for record in caplog.records if record.name.startswith("culm_connectors.kafka.")]
            begun = sum(record.msg == "Kafka does not answer: %s" for record in lines)
            ended = sum(record.msg.startswith("Kafka answers again") for record in lines)
            assert 1 <= ended <= begun <= ended + 2, "once a connector, until it answers again"
            errors = [
                record.created for record in lines if record.name == "culm_connectors.kafka.topic_readers"
            ]
            assert all(later - earlier >= 1 for earlier, later in pairwise(errors))
    finally:
        await asyncio.to_thread(stack.down)
