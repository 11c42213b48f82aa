"""A live entry from peer to peer over two connectors, against bare produce and consume on the same broker."""

from __future__ import annotations

import asyncio
import os
import queue
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

from confluent_kafka import OFFSET_END, TopicPartition

from bench.harness import BenchSettings, Ratio, say
from bench.rig import Rig, cpu_used
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_infra.demo.p2panda.plan import SCHEMAS
from culm_models.bamboo.checks import SoundEntry
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings, consumer, producer

_GOAL = 3.0
_TIMEOUT_S = 30.0
_PAUSE_S = 0.01
_RECORD_BYTES = 500


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one entry at a time, alternating blocks of our entries and of bare records."""
    blocks, block = (2, 20) if settings.quick else (10, 60)
    with Rig() as rig:
        kafka = rig.topics("live.")
        bare_kafka = rig.topics("bare.", partitions=1)
        first, first_port = rig.connector("first", kafka)
        second, second_port = rig.connector("second", kafka)
        with cpu_used(first=first.pid, second=second.pid, broker=rig.broker_pid) as used:
            ours, bare = asyncio.run(_measure(rig, bare_kafka, (first_port, second_port), blocks, block))
    details = {
        "samples": len(ours),
        "ours_ms": percentiles(ours),
        "bare_ms": percentiles(bare),
        "cpu_s": used,
    }
    say(f"  ours {details['ours_ms']}, bare {details['bare_ms']}")
    limit_name = "bare produce to consume"
    return [
        Ratio(
            "d",
            f"live latency, {label}",
            1e6 * percentile(ours, percent),
            1e6 * percentile(bare, percent),
            "µs",
            f"{limit_name}, {label}",
            goal=goal,
            higher_is_better=False,
            details=details,
        )
        for label, percent, goal in (("p50", 50, _GOAL), ("p99", 99, None))
    ]


async def _measure(
    rig: Rig, kafka: KafkaSettings, ports: tuple[int, int], blocks: int, block: int
) -> tuple[list[float], list[float]]:
    async with live_peer(rig, "writer") as writer, live_peer(rig, "reader") as reader:
        for peer, port in zip((writer, reader), ports, strict=True):
            peer.dial(("127.0.0.1", port))
        pair = LivePair(writer, reader)
        await pair.settle()
        say("  both peers are live")
        return await by_turns(pair.once, kafka, blocks, block)


def live_peer(rig: Rig, name: str) -> ReferencePeer:
    key_pair = KeyPair.from_private_key(os.urandom(32))
    return ReferencePeer(rig.folder / name, key_pair=key_pair, schemas=SCHEMAS[:1], durable=False)


class LivePair:
    """Two peers at two connectors: one writes, the other waits for the entry."""

    def __init__(self, writer: ReferencePeer, reader: ReferencePeer) -> None:
        self._writer = writer
        self._arrived: dict[bytes, float] = {}
        self._news = asyncio.Event()
        self._document: bytes | None = None
        reader.stored_listeners.append(self._stored)

    def _stored(self, entries: Sequence[SoundEntry]) -> None:
        now_s = time.perf_counter()
        self._arrived.update((checked.hash, now_s) for checked in entries)
        self._news.set()

    async def settle(self) -> None:
        """Write until entries arrive; all sessions are live then."""
        for _ in range(20):
            await self.once()

    async def once(self) -> float:
        """Return the seconds from the call of publish to the other peer's store."""
        await asyncio.sleep(_PAUSE_S)
        draft = Draft(
            "create" if self._document is None else "update",
            SCHEMAS[0],
            {"name": "culm", "count": 7},
            document_id=self._document,
        )
        started_s = time.perf_counter()
        (checked,) = await self._writer.publish([draft])
        self._document = self._document or checked.hash
        async with asyncio.timeout(_TIMEOUT_S):
            while checked.hash not in self._arrived:
                self._news.clear()
                await self._news.wait()
        return self._arrived.pop(checked.hash) - started_s


class Echo:
    """One record through the broker, with the clients that connectors use."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._topic = kafka.topic("entries")
        self._producer = producer(kafka)
        self._consumer = consumer(kafka, group_id="bench-latency", start="latest")
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_END)])
        self._arrivals: queue.Queue[tuple[bytes, float]] = queue.Queue()
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()
        self._reach()

    def _reach(self) -> None:
        """Produce until the consumer, which starts at the end, has received a record."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not self._ready.wait(0.2):
            assert time.monotonic() < deadline_s, "the consumer does not hear the producer"
            self._producer.produce(self._topic, b"warm")
            self._producer.poll(0)
        self._producer.flush(_TIMEOUT_S)

    def _consume(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                value = message.value()
                self._arrivals.put((value if value is not None else b"", time.perf_counter()))
                self._ready.set()

    def once(self) -> float:
        """Return the seconds from produce to the consumer's receipt of the record."""
        time.sleep(_PAUSE_S)
        value = os.urandom(_RECORD_BYTES)
        started_s = time.perf_counter()
        self._producer.produce(self._topic, value)
        self._producer.poll(0)
        while True:
            arrived, at_s = self._arrivals.get(timeout=_TIMEOUT_S)
            if arrived == value:
                self._producer.poll(0)
                return at_s - started_s

    def close(self) -> None:
        """Stop consuming."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()
        self._producer.flush(_TIMEOUT_S)
        # Otherwise the client would keep trying to reach a broker that is about to stop.
        del self._producer


async def by_turns(
    once: Callable[[], Awaitable[float]], kafka: KafkaSettings, blocks: int, block: int
) -> tuple[list[float], list[float]]:
    """Return seconds of `once` and of an echo, in alternating blocks; a first block of both warms up."""
    ours: list[float] = []
    bare: list[float] = []
    echo = await asyncio.to_thread(Echo, kafka)
    try:
        for number in range(-1, blocks):
            taken = [await once() for _ in range(block)]
            echoed = [await asyncio.to_thread(echo.once) for _ in range(block)]
            if number >= 0:
                ours += taken
                bare += echoed
    finally:
        await asyncio.to_thread(echo.close)
    return ours, bare


def percentile(samples: list[float], percent: int) -> float:
    """Return one percentile of these samples."""
    return statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]


def percentiles(samples: list[float]) -> dict[str, float]:
    """Return the percentiles that are shown, in milliseconds, of samples in seconds."""
    return {f"p{percent}": round(1e3 * percentile(samples, percent), 2) for percent in (10, 50, 90, 99)}
