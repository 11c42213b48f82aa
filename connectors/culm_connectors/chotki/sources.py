"""The edge's own source: its number, its own object, and its claim in `chotki.sources` (reference 10, 10).

A source belongs to one owner forever; an edge is named by its key. The source is claimed at each start, once
the topics that name used sources are read. An earlier run of this edge that is still active then ends by
itself. A clean stop frees the source.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Collection
from typing import Final

from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.tlv import record
from culm_topics.chotki.errors import SourceRetired, SourceTaken
from culm_topics.chotki.records import SourceRecord, source_key
from culm_topics.chotki.sources import EDGE_KEY_SIZE, FREE, SOURCES_TOPIC, SourceFollower, read_sources
from culm_topics.kafka.clients import KafkaSettings

_LOTS: Final = 8
_LOOK_S: Final = 1.0
_EDGE: Final = re.compile(r"[0-9a-f]{64}")


class SourceClaim:
    """Claim of one run on a source, created by `claim`. `src` is the source of the run's own packets."""

    def __init__(
        self, producer: BatchProducer, kafka: KafkaSettings, src: int, owner: str, run: bytes
    ) -> None:
        self.src = src
        self._producer = producer
        self._kafka = kafka
        self._owner = owner
        self._run = run
        self._is_freed = False
        self.edges: set[int] = set()
        """Known sources of the deployment's edges."""

    async def watch(self) -> None:
        """Check regularly that the claim still holds, until cancelled.

        Raises `SourceTaken`, `SourceRetired`, `KafkaFailure`.
        """
        follower = await asyncio.to_thread(SourceFollower, self._kafka)
        try:
            while True:
                holders = await asyncio.to_thread(follower.poll)
                self.edges.update(
                    src for src, source_holder in holders.items() if is_edge(source_holder.owner)
                )
                holder = holders.get(self.src)
                if holder is not None and holder.state == "retired":
                    raise SourceRetired(f"source {self.src:x} was retired while it was in use")
                if holder is not None and holder.run != self._run and not self._is_freed:
                    raise SourceTaken(
                        f"source {self.src:x} was claimed by another run of this edge",
                        hint="an edge runs once: is its folder used twice?",
                    )
                await asyncio.sleep(_LOOK_S)
        finally:
            await asyncio.to_thread(follower.close)

    async def free(self) -> None:
        """Free the source, so that its owner may claim it again at once."""
        self._is_freed = True
        table = await asyncio.to_thread(read_sources, self._kafka)
        if (holder := table.holders.get(self.src)) is not None and holder.run == self._run:
            await _write_claim(self._producer, self._kafka, self.src, self._owner, FREE)


def is_edge(owner: str) -> bool:
    """Whether an owner is an edge, named by its key in hex."""
    return _EDGE.fullmatch(owner) is not None


async def claim(
    producer: BatchProducer,
    kafka: KafkaSettings,
    wanted: int | None,
    owner: str,
    edge: bytes,
    seen: Collection[int],
) -> SourceClaim:
    """Claim a source for this run of an edge: the `wanted` one, else the owner's, else a free one.

    `edge` is the edge's id in records; the claim begins with the part of it that is random for the run.
    `seen`: sources in vectors and packets; if they have no owner here, they belong to other replicas.
    Raises `SourceTaken`, `SourceRetired`.
    """
    drawn = edge[EDGE_KEY_SIZE:]
    run = drawn + secrets.token_bytes(len(FREE) - len(drawn))
    for _ in range(_LOTS):
        table = await asyncio.to_thread(read_sources, kafka)
        src = table.choose(wanted, owner, seen, take_over=True)
        holder = table.holders.get(src)
        if holder is not None and holder.run != FREE:
            await _write_claim(producer, kafka, src, owner, FREE)
        await _write_claim(producer, kafka, src, owner, run)
        winner = (await asyncio.to_thread(read_sources, kafka)).holders[src]
        if winner.run == run:
            return SourceClaim(producer, kafka, src, owner, run)
        # In a compacted topic the last record of a key stays, so the valid claim has to be the last one.
        await _produce(producer, kafka, src, winner)
        if wanted is not None:
            break
    raise SourceTaken(f"source {src:x} was claimed by another process at the same moment")


async def _write_claim(
    producer: BatchProducer, kafka: KafkaSettings, src: int, owner: str, run: bytes
) -> None:
    await _produce(producer, kafka, src, SourceRecord(owner, run, "allocated", int(time.time() * 1000)))


async def _produce(producer: BatchProducer, kafka: KafkaSettings, src: int, record: SourceRecord) -> None:
    await producer.send(
        kafka.topic(SOURCES_TOPIC), [ProducerRecord(key=source_key(src), value=record.encode())]
    )


def own_object(src: int, name: str) -> bytes:
    """Return the packet Y that names a replica (reference 2.6)."""
    body = (
        record("S", write_first(0, src, name.encode()))
        + record("V", b"")
        + record("S", write_first(0, src, b""))
    )
    return write_live("Y", Id(src, 0), ZERO_ID, body)
