"""Two edges with a real broker, and the Spark jobs that assemble what the edges produce."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.proof import prove
from culm_connectors.url import Url
from culm_infra.demo.bamboo.stage import (
    AUTHOR,
    BambooActor,
    BambooStage,
    author_log,
    noise,
    reading,
    signed,
    without_payload,
)
from culm_infra.demo.kit.report import SceneFigures, percentile
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.stack.ports import HOST, free_ports
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import Eagerness
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records.coverage import CoverageRecord, Runs, coverage_key
from culm_topics.logs.records.fragments import split_fragment_key
from culm_topics.readers.partitions import read_to_end
from culm_topics.records.keys import HEIGHTS_PEER_ID, log_key, split_flavoured_log_key

_SERVING: Final = "serving bamboo"
"""Printed by an edge once Bamboo peers may connect."""
_JOBS: Final = ("logs", "coverage")


@dataclass(frozen=True, slots=True)
class BambooBackbone:
    """Kafka between the two edges. `urls`: the address of each edge."""

    kafka: KafkaSettings
    urls: tuple[Url, Url]

    async def fragments(self, log: LogKey) -> set[int]:
        """Return the sequence numbers of a log on the topic `fragments`."""
        return await asyncio.to_thread(self._fragments, log)

    async def in_logs(self, log: LogKey) -> int:
        """Return the number of a log's records on the topic `logs`."""
        return await asyncio.to_thread(self._in_logs, log)

    async def coverage(self, log: LogKey) -> CoverageRecord | None:
        """Return the deployment's coverage of a log, written by the job `coverage`; None if there is none
        yet.
        """
        return await asyncio.to_thread(self._coverage, log)

    def _coverage(self, log: LogKey) -> CoverageRecord | None:
        wanted = coverage_key(HEIGHTS_PEER_ID, log_key(*log, YAMF))
        record = None
        for message in read_to_end(self.kafka, "coverage"):
            if message.key == wanted:
                record = CoverageRecord.decode(message.value)
        return record

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
async def backbone(stage: DemoStage) -> AsyncIterator[BambooBackbone]:
    """Start Kafka, topics, two connectors and two jobs; stop them at the end."""
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
        jobs = [stage.job(name, kafka=kafka, log=f"job-{name}", **few) for name in _JOBS]
        for process in (*jobs, *edges):
            process.start()
        await stage.serving(edges, _SERVING)
        yield BambooBackbone(kafka, urls)


_LIVE_ID: Final = 110
_SPARSE_ID: Final = 111
_LARGE_BYTES: Final = 3_000_000
_SPARSE_ENTRIES: Final = 1_000
_PROVEN: Final = 900
_LOOK_S: Final = 1.0


async def play(stage: BambooStage, figures: SceneFigures) -> None:
    """Connect a writer to the edge west over TCP and a reader to the edge east over QUIC."""
    async with (
        backbone(stage.stage) as between,
        stage.actor("edge-writer") as writer,
        stage.actor("edge-reader") as reader,
    ):
        await _live(stage, figures, between, writer, reader)
        pool = await _sparse(stage, figures, between, reader)
        await _jobs(stage, figures, between, pool)


async def _live(
    stage: BambooStage,
    figures: SceneFigures,
    between: BambooBackbone,
    writer: BambooActor,
    reader: BambooActor,
) -> None:
    log, count = author_log(_LIVE_ID), stage.size.live_entries
    west, east = between.urls
    await writer.peer.follow(FollowedLog(log, direction=Direction.BOTH))
    await reader.peer.follow(FollowedLog(log))
    published_s: dict[int, float] = {}
    async with writer.peer.connect(west), reader.peer.connect(east):
        for number in range(1, count + 1):
            published_s[number] = time.monotonic()
            await writer.peer.publish(AUTHOR, _LIVE_ID, reading(number))
            await stage.until_event(reader, ("payload", log, number), f"entry {number} at the other edge")
        latencies_ms = [
            (reader.at_s["payload", log, number] - at_s) * 1_000 for number, at_s in published_s.items()
        ]
        figures.equal("entries from peer to peer, each once", reader.counts["payload"], count)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            figures.show(f"from publishing to verified, {name}", percentile(latencies_ms, share) or 0.0, "ms")
        began_s = time.monotonic()
        await writer.peer.publish(AUTHOR, _LIVE_ID, noise(_LARGE_BYTES, _LIVE_ID))
        await stage.until_event(reader, ("payload", log, count + 1), "the large payload")
        figures.show(f"a payload of {_LARGE_BYTES:,} bytes, by `payloads`", time.monotonic() - began_s, "s")


async def _sparse(
    stage: BambooStage, figures: SceneFigures, between: BambooBackbone, reader: BambooActor
) -> int:
    """Send one entry and its pool to west, and prove it at east. Returns the number of entries."""
    log = author_log(_SPARSE_ID)
    west, east = between.urls
    entries = signed(_SPARSE_ID, (reading(number) for number in range(1, _SPARSE_ENTRIES + 1)))
    pool = {number for number in (*lower_pool(_PROVEN), *upper_pool(_PROVEN)) if number <= _SPARSE_ENTRIES}
    pool_entries = [entries[n - 1] if n == _PROVEN else without_payload(entries[n - 1]) for n in sorted(pool)]
    async with stage.actor("edge-carrier") as carrier, carrier.peer.connect(west) as at_west:
        await carrier.peer.add(pool_entries)
        upper = max(pool)
        offer = RequestedRange(
            *log,
            _PROVEN,
            lower=1,
            end=_PROVEN,
            upper=upper,
            eagerness=Eagerness.NOTIFY,
            direction=Direction.BOTH,
        )
        await at_west.propose(offer)
        async with reader.peer.connect(east) as at_east:
            # The payload may reach the edge after its entry: mandatory, so that it is not skipped.
            await reader.peer.ask(at_east, FollowedLog(log, _PROVEN, _PROVEN, mandatory=True))

            async def holds_all() -> bool:
                return await reader.peer.read(
                    lambda store: (
                        store.has_payload(log, _PROVEN) and set(store.held_between(log, 1, upper)) >= pool
                    )
                )

            await stage.until(holds_all, "the entry and its pool at the other edge")
            proof = await reader.peer.read(lambda store: prove(store, log, _PROVEN))
    seq_nums = await reader.peer.read(lambda store: set(store.held_between(log, 1, _SPARSE_ENTRIES)))
    figures.equal(f"a sparse log: entry {_PROVEN} and its pool", len(seq_nums), len(pool))
    figures.demand("proven at the other edge", holds=proof.is_proven and seq_nums == pool)
    figures.equal("records of it on `fragments`", len(await between.fragments(log)), len(pool) - 1)
    return len(pool)


async def _jobs(stage: BambooStage, figures: SceneFigures, between: BambooBackbone, pool: int) -> None:
    """Check the jobs' output: the complete live log on `logs`, and the coverage of the sparse log."""
    live, sparse, count = author_log(_LIVE_ID), author_log(_SPARSE_ID), stage.size.live_entries + 1

    async def is_in_logs() -> bool:
        return await between.in_logs(live) >= count

    async def is_covered() -> bool:
        record = await between.coverage(sparse)
        return record is not None and _count(record.entries) >= pool and _count(record.payloads) > 0

    await stage.stage.until(is_in_logs, "the job to put the log into `logs`", step_s=_LOOK_S)
    figures.equal("records of the live log on `logs`", await between.in_logs(live), count)
    await stage.stage.until(is_covered, "the job coverage to count the sparse log", step_s=_LOOK_S)
    covered = await between.coverage(sparse)
    assert covered is not None, "it was just there"
    figures.equal("entries of the sparse one, by the job coverage", _count(covered.entries), pool)
    is_provable = any(start <= _PROVEN < end for start, end in covered.provable)
    figures.demand(f"entry {_PROVEN} provable, says that job", holds=is_provable)


def _count(runs: Runs) -> int:
    return sum(end - start for start, end in runs)
