"""Applies records of the topics to an edge's folder, whichever program wrote them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import Message

from culm_connectors.dag.edge.edge_folder import EdgeFolder
from culm_connectors.dag.edge.service import EdgeDagService
from culm_connectors.edge.feed import RefusedRecord, apply_each
from culm_models.dag.blocks.cid import Cid
from culm_topics.dag.records import (
    PublishedRecord,
    decode_blocked,
    decode_node_record,
    decode_publish_record,
    decode_shard_chunk,
    id_of_key,
    split_shard_chunk_key,
)
from culm_topics.readers.batch import Partition

FOLLOWED: Final = ("dag.blocked", "dag.nodes", "dag.publishes", "dag.shards", "dag.published")
_LOGGER = logging.getLogger(__name__)
_Take = Callable[[EdgeFolder, bytes | None, bytes | None], None]


class DagApplier:
    """Applies records to the folder of one service. Implements `Applier`."""

    def __init__(self, service: EdgeDagService) -> None:
        self._service = service

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return the offsets in the folder; a topic that has to be read again begins at its start."""
        tables = self._service.folder.tables

        def step(_: object) -> Mapping[Partition, int]:
            if tables.begin_again(name, topic):
                _LOGGER.info("%s is read again from its start", topic)
            return tables.topics.kept()

        return await self._service.work(step)

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Validate and keep records in one step; returns those that were refused."""
        folder = self._service.folder

        def step(_: object) -> Sequence[RefusedRecord]:
            refused = apply_each(
                records, lambda record: take_record(folder, name, record.key(), record.value())
            )
            if offsets is not None:
                folder.tables.topics.keep(offsets)
            return refused

        return await self._service.work(step)

    async def lost(self, topic: str) -> None:
        """Forget the offsets of a topic, so that it is read from its start when the folder is opened next."""
        await self._service.work(lambda _: self._service.folder.tables.topics.forget(topic))


def take_record(folder: EdgeFolder, topic: str, key: bytes | None, value: bytes | None) -> None:
    """Apply a record of a topic, by its catalogue name. Raises `CulmError` if it breaks a rule."""
    _TAKES[topic](folder, key, value)


def _take_node(folder: EdgeFolder, key: bytes | None, value: bytes | None) -> None:
    if value is not None:
        space, _, record = decode_node_record(key, value)
        folder.follow_node(space, record.data)


def _take_publish(folder: EdgeFolder, key: bytes | None, value: bytes | None) -> None:
    if value is not None:
        id, record = decode_publish_record(key, value)
        folder.follow_publish(id, record)


def _take_chunk(folder: EdgeFolder, key: bytes | None, value: bytes | None) -> None:
    if value is None:
        folder.follow_dropped(split_shard_chunk_key(key)[0])
        return
    shard, offset, record = decode_shard_chunk(key, value)
    folder.follow_chunk(record.space, shard, record.size, offset, bytes(record.data))


def _take_blocked(folder: EdgeFolder, key: bytes | None, value: bytes | None) -> None:
    what, record = decode_blocked(key, value)
    raw = what.raw if isinstance(what, Cid) else what
    folder.follow_blocked(raw, None if record is None else record.reason)


def _take_published(folder: EdgeFolder, key: bytes | None, value: bytes | None) -> None:
    """Apply a result of the job: wake everything that watches the id."""
    id = id_of_key("dag.published", key)
    if value is not None:
        PublishedRecord.decode(value)
        folder.follow_published(id)


_TAKES: Final[dict[str, _Take]] = {
    "dag.blocked": _take_blocked,
    "dag.nodes": _take_node,
    "dag.publishes": _take_publish,
    "dag.shards": _take_chunk,
    "dag.published": _take_published,
}
