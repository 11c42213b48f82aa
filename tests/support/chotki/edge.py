"""What connections of a Chotki edge share, without Kafka: a store in a folder, and a producer that waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.feed.packet_tail import PacketTail
from culm_connectors.chotki.host import EdgeShared, EdgeSource
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.chotki.publisher import Partitions
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.spool import SpoolFolder
from culm_connectors.chotki.storage_limits import StorageLimits
from culm_connectors.chotki.warnings.packet_ids import PacketIds
from culm_connectors.edge.fair_turns import LoopTurns
from culm_connectors.kafka import ProducerRecord
from culm_models.chotki import events
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin

ORIGIN = Origin("cluster", {"culm.chotki.state": "topic"})
EDGE = b"edge".ljust(32, b".")
OWN_SOURCE = 0xED6E
Report = Callable[[ReplicaConnection, events.SessionEvent], None]


class NoKafka:
    """A producer that nothing is acknowledged by."""

    async def send(self, *_: object) -> int:
        await asyncio.Event().wait()
        return 0


class Acknowledging:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.produced: list[tuple[str, ProducerRecord]] = []

    async def send(self, topic: str, records: list[ProducerRecord], partition: int | None = None) -> int:
        self.produced += [(topic, record) for record in records]
        return len(self.produced)

    def of(self, name: str) -> list[bytes]:
        return [record["value"] or b"" for topic, record in self.produced if topic == "culm." + name]


@contextlib.contextmanager
def edge_shared(
    folder: Path,
    *,
    settings: ChotkiEdgeSettings | None = None,
    producer: object = None,
    report: Report = lambda connection, event: None,
    metrics: ChotkiMetrics | None = None,
) -> Iterator[EdgeShared]:
    """The parts of an edge that serves from an empty store."""
    store = ChotkiStore.open(folder, ORIGIN, map_size_bytes=1 << 24, max_size_bytes=1 << 26)
    settings = settings or ChotkiEdgeSettings(ping_wait_ms=50)
    try:
        yield EdgeShared(
            store=store,
            tail=PacketTail(
                PacketIds(1_000, store), SpoolFolder(folder / "tail", 1 << 22), max_memory_bytes=1 << 20
            ),
            source=EdgeSource(OWN_SOURCE),
            producer=cast(Any, producer or NoKafka()),
            kafka=KafkaSettings(bootstrap="nowhere:1", prefix="culm."),
            partitions=Partitions(2, 2, 2),
            spools=SpoolFolder(folder / "spool", 1 << 22),
            limits=StorageLimits(store, settings.max_record_bytes),
            settings=settings,
            turns=LoopTurns(),
            edge=EDGE,
            report=report,
            metrics=metrics or ChotkiMetrics(),
        )
    finally:
        store.close()
