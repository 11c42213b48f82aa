"""What one record of a topic means for an edge's folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_connectors.dag.edge.edge_folder import EdgeFolder
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

_Take = Callable[[EdgeFolder, bytes | None, bytes | None], None]


def take_record(folder: EdgeFolder, topic: str, key: bytes | None, value: bytes | None) -> None:
    """Take a record of a topic, by its name in the catalogue. A `CulmError` says what is wrong with it."""
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
    """The job has come to something: whoever waits for the id looks again."""
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
