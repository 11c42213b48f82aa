"""Two edges over a real broker, with the Spark jobs that put together what they bring."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from culm_connectors.transport.url import Url
from culm_infra.demo.kit.stage import Stage
from culm_infra.stack.ports import HOST, free_ports
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records.coverage import CoverageRecord, coverage_key
from culm_topics.logs.records.fragments import split_fragment_key
from culm_topics.readers.whole_topic import read_to_end
from culm_topics.records.keys import HEIGHTS_PEER_ID, log_key, split_flavoured_log_key

_SERVING: Final = "serving bamboo"
"""What an edge prints once peers of Bamboo may come."""
_JOBS: Final = ("logs", "coverage")


@dataclass(frozen=True, slots=True)
class BambooBackbone:
    """What there is between the two edges. `urls`: where each edge is called."""

    kafka: KafkaSettings
    urls: tuple[Url, Url]

    async def fragments(self, log: LogKey) -> set[int]:
        """Entries of a log on the topic `fragments`."""
        return await asyncio.to_thread(self._fragments, log)

    async def in_logs(self, log: LogKey) -> int:
        """Records of a log on the topic `logs`."""
        return await asyncio.to_thread(self._in_logs, log)

    async def coverage(self, log: LogKey) -> CoverageRecord | None:
        """What the deployment is known to hold of a log, by the job `coverage`."""
        return await asyncio.to_thread(self._coverage, log)

    def _coverage(self, log: LogKey) -> CoverageRecord | None:
        wanted = coverage_key(HEIGHTS_PEER_ID, log_key(*log, YAMF))
        found = None
        for message in read_to_end(self.kafka, "coverage"):
            if message.key == wanted:
                found = CoverageRecord.decode(message.value)
        return found

    def _fragments(self, log: LogKey) -> set[int]:
        keys = (split_fragment_key(message.key) for message in read_to_end(self.kafka, "fragments"))
        return {seq_num for _, of, seq_num in keys if of == log}

    def _in_logs(self, log: LogKey) -> int:
        return sum(_is_of(message.key, log) for message in read_to_end(self.kafka, "logs"))


def _is_of(key: bytes, log: LogKey) -> bool:
    try:
        return split_flavoured_log_key(key)[1] == log
    except RecordError:
        return False


@asynccontextmanager
async def backbone(stage: Stage) -> AsyncIterator[BambooBackbone]:
    """Kafka, topics, two connectors and two jobs; all that was started is stopped at the end."""
    async with stage.kafka() as kafka:
        stage.show("starting two edges and the Spark jobs logs and coverage")
        tcp_port, udp_port, *ports = free_ports(4)
        urls = (Url("tcp", HOST, tcp_port), Url("quic", HOST, udp_port))
        # The topics of a demo are small, and a micro-batch of a cold JVM costs by its tasks.
        few = {"CULM_JOB__STATE_PARTITIONS": "2"}
        edges = [
            stage.connector(
                name,
                port,
                kafka,
                folder=f"edge-{name}",
                CULM_CONNECTOR__BAMBOO__LISTEN=json.dumps([str(url)]),
            )
            for name, url, port in zip(("west", "east"), urls, ports, strict=True)
        ]
        jobs = [stage.job(name, kafka, log=f"job-{name}", **few) for name in _JOBS]
        for process in (*jobs, *edges):
            process.start()
        await stage.serving(edges, _SERVING)
        yield BambooBackbone(kafka, urls)
