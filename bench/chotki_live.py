"""A live edit from replica to replica over two edges of Chotki, against bare produce and consume."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from bench import chotki_material as material
from bench.harness import BenchSettings, Ratio, say
from bench.latency import by_turns, percentile, percentiles
from bench.rig import Rig, cpu_used
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.stack.ports import free_ports
from culm_models.chotki import events
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.log0 import common_store
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_int
from culm_topics.kafka.clients import KafkaSettings

_GOAL = 3.0
_TIMEOUT_S = 30.0
_READY_TIMEOUT_S = 90.0
_PAUSE_S = 0.01
_WRITING_SRC, _READING_SRC = 0xA, 0xB


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one edit at a time, alternating blocks of our edits and of bare records."""
    blocks, block = (2, 20) if settings.quick else (10, 60)
    with Rig() as rig:
        kafka = rig.topics("live.")
        bare_kafka = rig.topics("bare.", partitions=1)
        (first, first_port), (second, second_port) = (_edge(rig, name, kafka) for name in ("first", "second"))
        with cpu_used(first=first.pid, second=second.pid, broker=rig.broker_pid) as used:
            ours, bare = asyncio.run(_measure(bare_kafka, (first_port, second_port), blocks, block))
    details = {
        "samples": len(ours),
        "ours_ms": percentiles(ours),
        "bare_ms": percentiles(bare),
        "cpu_s": used,
    }
    say(f"  ours {details['ours_ms']}, bare {details['bare_ms']}")
    return [
        Ratio(
            "chotki-live",
            f"live edit, {label}",
            1e6 * percentile(ours, percent),
            1e6 * percentile(bare, percent),
            "µs",
            f"bare produce to consume, {label}",
            goal=goal,
            higher_is_better=False,
            details=details,
        )
        for label, percent, goal in (("p50", 50, _GOAL), ("p99", 99, None))
    ]


def _edge(rig: Rig, name: str, kafka: KafkaSettings) -> tuple[CulmProcess, int]:
    (port,) = free_ports(1)
    url = f"tcp://127.0.0.1:{port}"
    edge = rig.culm(name, "chotki", "listen", url, "--dir", str(rig.folder / name), kafka=kafka)
    edge.wait_for_log("serving", _READY_TIMEOUT_S)
    return edge, port


async def _measure(
    kafka: KafkaSettings, ports: tuple[int, int], blocks: int, block: int
) -> tuple[list[float], list[float]]:
    # New replicas have only live packets, so no job is needed.
    writer, reader = (
        ReplicaPeer(Replica(src, MemoryStore(common_store()))) for src in (_WRITING_SRC, _READING_SRC)
    )
    async with _joined(writer, ports[0]), _joined(reader, ports[1]):
        pair = _Pair(writer, reader)
        for _ in range(block):
            await pair.once()
        say("  both replicas are live")
        return await by_turns(pair.once, kafka, blocks, block)


@contextlib.asynccontextmanager
async def _joined(peer: ReplicaPeer, port: int) -> AsyncIterator[None]:
    """Hold a session that is live."""
    live = asyncio.Event()
    heard: set[type] = set()

    def listen(_: str, event: events.SessionEvent) -> None:
        heard.add(type(event))
        if {events.PeerKnown, events.SyncCommitted} <= heard:
            live.set()

    peer.listeners.append(listen)
    channel = await connect_tcp(("127.0.0.1", port), TcpSettings())
    task = asyncio.create_task(peer.run_session(channel))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await live.wait()
        yield
    finally:
        channel.abort()
        await asyncio.gather(task, return_exceptions=True)


class _Pair:
    """Two replicas at two edges: one writes, the other waits for it."""

    def __init__(self, writer: ReplicaPeer, reader: ReplicaPeer) -> None:
        self._writer = writer
        self._arrived: dict[Id, float] = {}
        self._news = asyncio.Event()
        class_id = writer.commit("C", ZERO_ID, material.class_body())
        self._object = writer.commit("O", class_id, material.object_body())
        self._edits = 0
        reader.listeners.append(self._heard)

    def _heard(self, _: str, event: events.SessionEvent) -> None:
        if isinstance(event, events.PacketApplied):
            self._arrived[event.id] = time.perf_counter()
            self._news.set()

    async def once(self) -> float:
        """Return the seconds from the call of commit to the other replica's store."""
        await asyncio.sleep(_PAUSE_S)
        self._edits += 1
        value = record("I", write_first(2 * self._edits, 0, pack_int(self._edits)))
        started_s = time.perf_counter()
        id = self._writer.commit("E", self._object, record("f", b"\x02") + value)
        async with asyncio.timeout(_TIMEOUT_S):
            while id not in self._arrived:
                self._news.clear()
                await self._news.wait()
        return self._arrived.pop(id) - started_s
