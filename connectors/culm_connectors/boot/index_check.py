"""An index that no connector uses now: verified by `blocks` and by itself, and mended if asked to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from culm_connectors.boot.boot import positions_of
from culm_connectors.boot.claims import table_of
from culm_connectors.boot.heights import HeightTable
from culm_connectors.boot.repair import Progress, repair
from culm_connectors.boot.told import Positions, ToldSchema, read_told
from culm_connectors.boot.verification import Verification, verify
from culm_connectors.checking import CheckPool
from culm_connectors.index import IndexWriter, LmdbLogStore, check_origin, close_index, mark_open
from culm_connectors.index.environment import DATA_FILE
from culm_connectors.index.errors import IndexMissing
from culm_connectors.kafka import TopicReader, ask_origin
from culm_connectors.p2panda.interest import covered_schemas
from culm_topics.acls import reader_group_prefix
from culm_topics.kafka import KafkaSettings, admin, consumer

_UNKNOWN = ""
"""The schema of a log that only contradictory records tell of."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What was found, and after a repair what is left of it. `told_schemas`: those that `blocks` tells of."""

    found: Verification
    left: Verification
    told_schemas: int
    repaired_logs: int = 0
    repaired_entries: int = 0


async def check_index(
    folder: Path,
    kafka: KafkaSettings,
    read_topics: tuple[str, ...],
    *,
    mend: bool = False,
    progress: Progress | None = None,
) -> IndexCheck:
    """Verify the index in this folder; with `mend`, read what is damaged from `logs` once more.

    Raises IndexMissing, IndexBusy, IndexDamaged, IndexForeign, KafkaFailure, and what reading `logs` raises.
    """
    if not (folder / DATA_FILE).exists():
        raise IndexMissing(f"there is no index in {folder}", hint="a connector makes one when it starts")
    mark_open(folder)
    store = LmdbLogStore(folder, check=True)
    close: Callable[[LmdbLogStore], None] = LmdbLogStore.close
    try:
        origin = ask_origin(admin(kafka), [kafka.topic(name) for name in read_topics])
        check_origin(store, origin)
        told = read_told(kafka, covered_schemas(store))
        logs = kafka.topic("logs")
        read = {place: offset for place, offset in store.offsets().items() if place[0] == logs}
        positions = positions_of(read)
        found = _verify(store, told, positions)
        if found.is_sound:
            close = close_index
        if found.is_sound or not mend:
            return IndexCheck(found, found, len(told))
        index, pool = IndexWriter(store), CheckPool(1)
        try:
            keys = found.damaged.log_keys()
            stored = await repair(keys, index, pool, _reader(kafka, logs), progress)
        finally:
            pool.close()
            index.close()
        store.sync()
        left = _verify(store, told, positions)
        if left.is_sound:
            close = close_index
        return IndexCheck(found, left, len(told), len(keys), stored)
    finally:
        # Only what was found sound is marked as such; anything else is looked through when it is opened.
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


def _verify(store: LmdbLogStore, told: Mapping[str, ToldSchema], positions: Positions) -> Verification:
    contradictory: dict[str, list[bytes]] = {}
    for key, schema_id in store.contradictions().items():
        contradictory.setdefault(schema_id or _schema_told(key, told), []).append(key)
    strange = {schema_id: _rows(keys) for schema_id, keys in contradictory.items()}
    held = {schema_id: table_of(store, schema_id) for schema_id in told}
    # What contradicts itself is damage in schemas too of which nothing is told.
    silent = [ToldSchema.nothing(schema_id) for schema_id in strange.keys() - told.keys()]
    return verify([*told.values(), *silent], held, positions, strange)


def _rows(keys: list[bytes]) -> HeightTable:
    return HeightTable.from_rows(b"".join(key + bytes(8) for key in keys))


def _schema_told(key: bytes, told: Mapping[str, ToldSchema]) -> str:
    column = _rows([key]).logs
    for schema_id, schema in told.items():
        if schema.table.of(column)[0]:
            return schema_id
    return _UNKNOWN
