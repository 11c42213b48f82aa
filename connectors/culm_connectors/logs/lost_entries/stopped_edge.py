"""Repairs lost entries once, from the folder of a stopped connector."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.edge.keyfile import load_key
from culm_connectors.kafka import BatchProducer, Progress, TopicReaders, ask_origin, quiet
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.local_store.lmdb_file import DATA_FILE, lock_store
from culm_connectors.local_store.opening import in_doubt
from culm_connectors.logs.hub import LogPublisher
from culm_connectors.logs.index import IndexWriter, LmdbLogStore, check_origin, close_index, mark_open
from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.logs.index.errors import INDEX_ERRORS, IndexMissing
from culm_connectors.logs.lost_entries.sending import produce_again
from culm_connectors.logs.lost_entries.survey import LostPart, find_lost
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings, admin, producer
from culm_topics.kafka.job_positions import read_positions

_CONNECTOR_ID_RANDOM = 8


@dataclass(frozen=True, slots=True)
class Repair:
    """Result of a repair: the lost parts and the number of entries that were produced again."""

    parts: Sequence[LostPart]
    produced: int


async def repair_from(
    directory: Path,
    index_folder: str,
    read_facts: ReadFacts,
    kafka: KafkaSettings,
    read_topics: tuple[str, ...],
    *,
    authors: Collection[bytes] = (),
    dry_run: bool = False,
    progress: Progress = lambda *_: None,
) -> Repair:
    """Find the entries that `logs` has lost. Unless `dry_run`, produce those that this index holds again.

    `authors` limits this to logs of these public keys, if not empty. Raises `IndexMissing`, `IndexBusy`,
    `IndexDamaged`, `IndexForeign`, `KeyFileError`, `KafkaFailure`, `ConsumeFailed`, `ProduceFailed`.
    """
    folder = directory / index_folder
    if not (folder / DATA_FILE).exists():
        raise IndexMissing(f"there is no index in {folder}", hint="name a connector's folder with --dir")
    lock = lock_store(folder, INDEX_ERRORS)
    key_pair = load_key(directory, hint="name a connector's folder with --dir")
    doubt = in_doubt(folder, INDEX_ERRORS)
    mark_open(folder)
    store = LmdbLogStore(read_facts, folder, check=doubt, lock=lock)
    index = IndexWriter(store)
    try:
        administration = admin(kafka)
        origin = ask_origin(administration, [kafka.topic(name) for name in read_topics])
        check_origin(store, origin)
        entries = kafka.topic("entries")
        partitions = [(entries, number) for number in range(origin.partition_counts[entries])]
        read = await asyncio.to_thread(read_positions, kafka, "logs", partitions)
        topics = TopicReaders(quiet(kafka), f"{reader_group_prefix(kafka)}logs-repair")
        parts = await find_lost(store, topics, read, others=True, progress=progress)
        parts = [part for part in parts if not authors or part.log[0] in authors]
        if dry_run:
            return Repair(parts, 0)
        counted = _Counted(sum(part.count for part in parts), progress)
        connector_id = key_pair.public_key[:24] + secrets.token_bytes(_CONNECTOR_ID_RANDOM)
        async with BatchProducer(producer(quiet(kafka), bulk=True)) as batches:
            publisher = LogPublisher(BatchSender(batches), kafka, connector_id)
            await produce_again(parts, index, publisher, key_pair.public_key, produced=counted.add)
        return Repair(parts, counted.done)
    finally:
        index.close()
        # Nothing was written, so an index in doubt stays in doubt.
        (LmdbLogStore.close if doubt else close_index)(store)


@dataclass(slots=True)
class _Counted:
    total: int
    progress: Callable[[str, int, int], None]
    done: int = 0

    def add(self, entries: int) -> None:
        self.done += entries
        self.progress("producing entries", self.done, self.total)
