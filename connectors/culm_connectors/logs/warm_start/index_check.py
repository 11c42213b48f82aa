"""Verifies an index that no connector is using, by `blocks` and by itself, and repairs it on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from culm_connectors.kafka import Progress, TopicReader, ask_origin
from culm_connectors.local_store.lmdb_file import DATA_FILE, lock_store
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.index import IndexWriter, LmdbLogStore, check_origin, close_index, mark_open
from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.logs.index.errors import INDEX_ERRORS, IndexMissing
from culm_connectors.logs.warm_start.block_heights import Positions, SchemaHeights, read_block_heights
from culm_connectors.logs.warm_start.claims import table_of
from culm_connectors.logs.warm_start.heights import HeightTable
from culm_connectors.logs.warm_start.repair import repair
from culm_connectors.logs.warm_start.verification import Verification, verify
from culm_connectors.logs.warm_start.warm_start import positions_of
from culm_models.bamboo.checks import check_many
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings, admin, consumer

_UNKNOWN = ""
"""Placeholder for the schema of a contradictory log whose schema is unknown."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """Findings before and after a repair. `block_schemas` is the number of schemas on `blocks`."""

    found: Verification
    left: Verification
    block_schemas: int
    repaired_logs: int = 0
    repaired_entries: int = 0


async def check_index(
    read_facts: ReadFacts,
    folder: Path,
    kafka: KafkaSettings,
    read_topics: tuple[str, ...],
    schema_ids: Callable[[LmdbLogStore], frozenset[str]],
    *,
    mend: bool = False,
    progress: Progress | None = None,
) -> IndexCheck:
    """Verify the index in this folder; with `mend`, read damaged logs from `logs` again.

    `schema_ids` returns the schemas for which the index is complete; `read_facts` reads payloads for their
    owner.
    Raises `IndexMissing`, `IndexBusy`, `IndexDamaged`, `IndexForeign`, `KafkaFailure`, `OffsetLost`,
    `ConsumeFailed`.
    """
    if not (folder / DATA_FILE).exists():
        raise IndexMissing(f"there is no index in {folder}", hint="a connector makes one when it starts")
    lock = lock_store(folder, INDEX_ERRORS)
    mark_open(folder)
    store = LmdbLogStore(read_facts, folder, check=True, lock=lock)
    close: Callable[[LmdbLogStore], None] = LmdbLogStore.close
    try:
        origin = ask_origin(admin(kafka), [kafka.topic(name) for name in read_topics])
        check_origin(store, origin)
        expected = read_block_heights(kafka, schema_ids(store))
        logs = kafka.topic("logs")
        read = {partition: offset for partition, offset in store.offsets().items() if partition[0] == logs}
        positions = positions_of(read)
        before = _verify(store, expected, positions)
        if before.is_sound:
            close = close_index
        if before.is_sound or not mend:
            return IndexCheck(before, before, len(expected))
        index, pool = IndexWriter(store), CheckPool(1, partial(check_many, read_facts=read_facts))
        try:
            keys = before.damaged.log_keys()
            stored = await repair(keys, index, pool, _reader(kafka, logs), progress)
        finally:
            pool.close()
            index.close()
        store.sync()
        left = _verify(store, expected, positions)
        if left.is_sound:
            close = close_index
        return IndexCheck(before, left, len(expected), len(keys), stored)
    finally:
        # Only a sound index is marked as closed; any other is checked when it is opened.
        close(store)


def _reader(kafka: KafkaSettings, topic: str) -> TopicReader:
    return TopicReader(
        lambda: consumer(
            kafka,
            group_id=f"{reader_group_prefix(kafka)}index-repair",
            defaults={"enable.partition.eof": "true"},
        ),
        topic,
        {},
    )


def _verify(store: LmdbLogStore, expected: Mapping[str, SchemaHeights], positions: Positions) -> Verification:
    contradictory: dict[str, list[bytes]] = {}
    for key, schema_id in store.contradictions().items():
        contradictory.setdefault(schema_id or _schema_in_blocks(key, expected), []).append(key)
    strange = {schema_id: _rows(keys) for schema_id, keys in contradictory.items()}
    held_heights = {schema_id: table_of(store, schema_id) for schema_id in expected}
    # Contradictory logs are damage also in schemas that are not on `blocks`.
    silent = [SchemaHeights.nothing(schema_id) for schema_id in strange.keys() - expected.keys()]
    return verify([*expected.values(), *silent], held_heights, positions, strange)


def _rows(keys: list[bytes]) -> HeightTable:
    return HeightTable.from_rows(b"".join(key + bytes(8) for key in keys))


def _schema_in_blocks(key: bytes, expected: Mapping[str, SchemaHeights]) -> str:
    column = _rows([key]).logs
    for schema_id, schema in expected.items():
        if schema.table.of(column)[0]:
            return schema_id
    return _UNKNOWN
