"""Statements of replicas about an id: from a folder, from an edge's HTTP door, from the job's topics."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from culm_connectors.dag.store.folder import DagFolder
from culm_infra.demo.dag.stage import DagEdgeProcess
from culm_infra.demo.dag.writer import DagWriter
from culm_topics.dag.orders import KnownOrder, read_orders
from culm_topics.dag.records import HeadsRecord, PublishedRecord
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end
from culm_topics.records.rejected import RejectedRecord

_SHORT = 8


@dataclass(frozen=True, slots=True)
class ReplicaStatement:
    """One replica's statement. CIDs are texts; None if the replica does not report the value."""

    name: str
    place: str
    order: tuple[str, ...]
    tip: str | None
    heads: tuple[str, ...] | None
    complete: str | None

    def as_row(self) -> dict[str, Any]:
        """Return all fields, and short digests of order and heads."""
        heads = None if self.heads is None else short_digest(self.heads)
        return asdict(self) | {"order_digest": short_digest(self.order), "heads_digest": heads}


def short_digest(texts: Iterable[str]) -> str:
    """Return the first digits of the SHA-256 of these texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_SHORT]


async def ask_writer(writer: DagWriter, location: str) -> ReplicaStatement:
    """Return the statement of a replica's folder."""

    def step(folder: DagFolder) -> ReplicaStatement:
        published = folder.published(writer.space)
        latest = published.latest_complete
        return ReplicaStatement(
            writer.name,
            location,
            tuple(publish.cid.text for publish in published.order),
            published.tip.cid.text if published.tip is not None else None,
            tuple(cid.text for cid in folder.dag_heads(writer.space)),
            None if latest is None else latest.cid.text,
        )

    return await writer.peer.work(step)


async def ask_edge(edge: DagEdgeProcess, id: bytes) -> ReplicaStatement:
    """Return the statement of an edge's HTTP door."""
    published = (await edge.door.get(f"/published/{id.hex()}")).json()
    log = (await edge.door.get(f"/published/{id.hex()}/log")).json()["log"]
    tip, latest = published["tip"], published["latest_complete"]
    return ReplicaStatement(
        f"edge {edge.name}",
        "its HTTP door",
        tuple(publish["cid"] for publish in log),
        tip and tip["cid"],
        None,
        latest and latest["cid"],
    )


async def ask_topics(kafka: KafkaSettings, id: bytes) -> ReplicaStatement:
    """Return the job's statement from `dag.order`, `dag.published` and `dag.heads`; empty before its first
    batch.
    """

    def read() -> ReplicaStatement:
        order = read_orders(kafka, (id,))[0].get(id, KnownOrder())
        published = _last(kafka, "dag.published", id)
        heads = _last(kafka, "dag.heads", id)
        record = None if published is None else PublishedRecord.decode(published)
        latest = None if record is None else record.complete
        return ReplicaStatement(
            "the job dag",
            "topics of Kafka",
            tuple(cid.text for cid in order.links),
            None if record is None else record.tip.text,
            None if heads is None else tuple(cid.text for cid in HeadsRecord.decode(heads).heads.links),
            None if latest is None else latest.cid.text,
        )

    return await asyncio.to_thread(read)


def _last(kafka: KafkaSettings, topic: str, key: bytes) -> bytes | None:
    value: bytes | None = None
    for message in read_to_end(kafka, topic):
        if message.key == key:
            value = message.value
    return value


def agree(witnesses: Iterable[ReplicaStatement]) -> bool:
    """Whether all statements have the same order, tip, latest complete publish and heads."""
    statements = list(witnesses)
    heads = {statement.heads for statement in statements if statement.heads is not None}
    return (
        len({(statement.order, statement.tip, statement.complete) for statement in statements}) == 1
        and len(heads) <= 1
    )


async def rejected_codes(kafka: KafkaSettings) -> Counter[str]:
    """Count the codes on `rejected`."""

    def read() -> Counter[str]:
        return Counter(
            RejectedRecord.decode(message.value).code for message in read_to_end(kafka, "rejected")
        )

    return await asyncio.to_thread(read)
