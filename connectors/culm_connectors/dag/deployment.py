"""Operator's commands for the DAGs of a whole deployment: its topics, not one folder (reference 9, R33).

An export, or a search for shards that nothing needs, reads all topics once into a folder. An import, a drop
or a block writes records.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.dag.edge.edge_folder import NO_SPACE, EdgeFolder, open_edge_folder
from culm_connectors.dag.edge.from_topics import take_record
from culm_connectors.dag.edge.settings import EdgeQuotas
from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.store.exporting import ImportedDags, exported_rules, import_dags
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import DagBlockKind
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_models.errors import CulmError
from culm_topics.dag.records import (
    BlockedRecord,
    NodeRecord,
    PublishRecord,
    ShardChunkRecord,
    blocked_key,
    cid_partition,
    node_key,
    shard_chunk_key,
    split_shard_chunk_key,
    split_shard_index_key,
)
from culm_topics.dag.validation_rules import agree_on_rules, read_rules
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.partitions import offsets_of, read_to_end

# Blocked keys come first, so that no blocked shard is assembled in vain.
_SOURCES: Final = ("dag.blocked", "dag.nodes", "dag.publishes", SHARDS_TOPIC)
_COMMIT_EVERY: Final = 256
_LOGGER = logging.getLogger(__name__)
_FLUSH_S: Final = 60.0
_QUEUE: Final = {"queue.buffering.max.kbytes": str(64 * 1024)}
"""Chunks of shards are large: this limits how many are in memory."""
_BY_KEY: Final = -1
"""The hash of the key chooses the partition."""
_KEYED: Final = {"dag.shards": split_shard_chunk_key, "dag.shard-index": split_shard_index_key}
_Record = tuple[str, Cid | None, bytes, bytes | None]
"""Topic, the CID that determines the partition (None: the key does), key, value."""


@contextmanager
def read_deployment(kafka: KafkaSettings) -> Iterator[EdgeFolder]:
    """Read all topics, validated by the deployment's settings, into a folder that lasts for the context.

    The time of a shard's file is that of the newest record of its chunks. A malformed record is skipped.
    Raises `TopicMissing`, `KafkaFailure`, `RulesMalformed`. Blocks.
    """
    verdict = read_rules(kafka) or DEFAULT_RULES
    with scratch_folder(verdict) as folder:
        came_ms: dict[Cid, int] = {}
        for name in _SOURCES:
            passed_over = PassedOver(name)
            for number, message in enumerate(read_to_end(kafka, name), 1):
                try:
                    take_record(folder, name, message.key, message.value or None)
                    if name == SHARDS_TOPIC and message.value:
                        shard, _ = split_shard_chunk_key(message.key)
                        came_ms[shard] = max(came_ms.get(shard, 0), message.timestamp_ms)
                except CulmError as error:
                    passed_over.add(message, error)
                if not number % _COMMIT_EVERY:
                    folder.commit()
            folder.commit()
            if passed_over.records:
                _LOGGER.warning(
                    "skipped %d records of %s: %s",
                    passed_over.records,
                    name,
                    "; ".join(passed_over.first),
                )
        for shard, time_ms in came_ms.items():
            if (path := folder.shard_path(shard)) is not None:
                os.utime(path, (time_ms / 1_000, time_ms / 1_000))
        yield folder


@contextmanager
def scratch_folder(verdict: ValidationRules) -> Iterator[EdgeFolder]:
    """Create an empty folder that belongs to no topics, below the system's folder for temporary files."""
    with tempfile.TemporaryDirectory(prefix="culm-dag-") as made:
        settings = DagFolderSettings(verdict=verdict)
        folder = open_edge_folder(Path(made) / "dag", Origin("", {}), settings, EdgeQuotas())
        try:
            yield folder
        finally:
            folder.close()


def import_into_topics(kafka: KafkaSettings, source: Path) -> ImportedDags:
    """Write an export into the topics, with its receipts; empty topics get its validation rules, too.

    All of it is verified before anything is written. Existing records stay; records may repeat. Raises
    `DagExportError`, `DagError` (including `RulesDiffer`), `KafkaFailure`, `TopicMissing`. Blocks.
    """
    verdict = exported_rules(source)
    with scratch_folder(verdict) as folder:
        imported = import_dags(folder, source)
        agree_on_rules(kafka, verdict)
        _write(kafka, _records_of(folder))
    return imported


def keep_for_others(kafka: KafkaSettings, folder: DagFolder, spaces: Collection[bytes]) -> None:
    """Write shards of these spaces again under another space that has them. Blocks; raises `KafkaFailure`.

    Connectors skip records of the topic that lie under a blocked space.
    """
    shards = {shard for space in spaces for shard, _ in folder.shards(space)}
    for shard in sorted(shards):
        if (other := _space_of(folder, shard, spaces)) != NO_SPACE:
            _write(kafka, _chunks(folder, shard, other))


def drop_from_topics(kafka: KafkaSettings, shards: Collection[Cid]) -> set[Cid]:
    """Delete shards from the topics, as if they had never come; returns those that were there. Blocks.

    Raises `KafkaFailure`.
    """
    dropped: set[Cid] = set()
    for topic, split in _KEYED.items():
        live: dict[bytes, Cid] = {}
        for message in read_to_end(kafka, topic):
            try:
                shard, _ = split(message.key)
            except CulmError:
                continue
            if message.value and shard in shards:
                live[message.key] = shard
            else:
                live.pop(message.key, None)
        _write(kafka, [(topic, shard, key, None) for key, shard in live.items()])
        if topic == "dag.shards":
            dropped.update(live.values())
    return dropped


def block_in_topics(
    kafka: KafkaSettings, what: Iterable[Cid | bytes], reason: str | None, *, now: int
) -> None:
    """Make connectors refuse shards and spaces (32 bytes) from now on; a reason of None unblocks them.

    Blocks. Raises `KafkaFailure`.
    """
    value = None if reason is None else BlockedRecord(reason, now).encode()
    _write(kafka, [("dag.blocked", None, blocked_key(key), value) for key in what])


def _records_of(folder: DagFolder) -> Iterator[_Record]:
    """Return records for all of a folder; a shard lies under the first space that has it."""
    for space, cid, kind in folder.queries.placed():
        block = folder.read_node(cid)
        if block is None:
            continue
        if kind is DagBlockKind.PUBLISH:
            verdict = folder.settings.verdict
            prior = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds).prior
            for received_at in folder.receipts(cid):
                yield (
                    "dag.publishes",
                    None,
                    space or NO_SPACE,
                    PublishRecord(cid, prior, block, received_at).encode(),
                )
        else:
            yield "dag.nodes", cid, node_key(space or NO_SPACE, cid), NodeRecord(block).encode()
    for shard in sorted(folder.all_shards()):
        yield from _chunks(folder, shard, _space_of(folder, shard, ()))


def _space_of(folder: DagFolder, shard: Cid, but: Collection[bytes]) -> bytes:
    """Return the first space that has a shard, without those in `but`; `NO_SPACE` if there is none."""
    spaces = (space for space in folder.queries.spaces() if space not in but)
    return next(
        (candidate for candidate in spaces if folder.shard_size(candidate, shard) is not None), NO_SPACE
    )


def _chunks(folder: DagFolder, shard: Cid, space: bytes) -> Iterator[_Record]:
    path = folder.shard_path(shard)
    size = 0 if path is None else path.stat().st_size
    for offset in range(0, size, CHUNK_SIZE):
        data = folder.read_shard(shard, offset, min(CHUNK_SIZE, size - offset))
        record = ShardChunkRecord(size, data, space)
        yield "dag.shards", shard, shard_chunk_key(shard, offset), record.encode()


def _write(kafka: KafkaSettings, records: Iterable[_Record]) -> None:
    """Write records; returns once all are acknowledged."""
    failures: list[str] = []
    producer = clients.producer(kafka, bulk=True, defaults=_QUEUE)
    partitions: dict[str, int] = {}
    for name, cid, key, value in records:
        partition = _BY_KEY
        if cid is not None:
            if name not in partitions:
                partitions[name] = len(offsets_of(kafka, name))
            partition = cid_partition(cid, partitions[name])
        while True:
            try:
                producer.produce(
                    kafka.topic(name),
                    value,
                    key,
                    partition=partition,
                    on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
                )
                break
            except BufferError:
                producer.poll(1.0)
        producer.poll(0)
        if failures:
            break
    if producer.flush(_FLUSH_S) or failures:
        why = failures[0] if failures else "not everything was acknowledged in time"
        raise KafkaFailure(f"writing the topics of DAGs: {why}")
