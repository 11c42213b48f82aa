"""The DAGs of a deployment in a folder of its own, read once from the topics of sources."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.dag.edge.edge_folder import EdgeFolder, EdgeQuotas
from culm_connectors.dag.edge.from_topics import take_record
from culm_connectors.dag.edge.opening import open_edge_folder
from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.verdict import DEFAULT_VERDICT, VerdictSettings
from culm_models.errors import CulmError
from culm_topics.dag.records import split_shard_chunk_key
from culm_topics.dag.verdict import read_verdict
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.whole_topic import read_to_end

# What is blocked first, so that no shard is put together in vain.
_SOURCES: Final = ("dag.blocked", "dag.nodes", "dag.publishes", SHARDS_TOPIC)
_COMMIT_EVERY: Final = 256
_LOGGER = logging.getLogger(__name__)


@contextmanager
def read_deployment(kafka: KafkaSettings) -> Iterator[EdgeFolder]:
    """All that the topics say now, judged by the deployment's settings, in a folder of the context.

    A shard's file is as old as the newest record of its chunks. A record that is nothing costs only itself.
    Raises `TopicMissing`, `KafkaFailure`, `VerdictMalformed`. Blocks.
    """
    verdict = read_verdict(kafka) or DEFAULT_VERDICT
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
                    "%d records of %s are passed over: %s",
                    passed_over.records,
                    name,
                    "; ".join(passed_over.first),
                )
        for shard, time_ms in came_ms.items():
            if (path := folder.shard_path(shard)) is not None:
                os.utime(path, (time_ms / 1_000, time_ms / 1_000))
        yield folder


@contextmanager
def scratch_folder(verdict: VerdictSettings) -> Iterator[EdgeFolder]:
    """An empty folder that belongs to no topics, below the system's folder for temporary files."""
    with tempfile.TemporaryDirectory(prefix="culm-dag-") as made:
        settings = DagFolderSettings(verdict=verdict)
        folder = open_edge_folder(Path(made) / "dag", Origin("", {}), settings, EdgeQuotas())
        try:
            yield folder
        finally:
            folder.close()
