"""Writes a state to its tables: all objects of a class at first, then the changes (reference 10.9).

A row is an object in its state at an epoch; of several rows with one `_id` the one with the last `epoch`
counts. If a class has a new field, the objects with a value in it are written again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from culm_models.chotki.ids import Id
from culm_topics.chotki.objects import Objects, Place
from culm_topics.chotki.parquet.columns import columns_of, row_of, schema_of
from culm_topics.chotki.parquet.dataset import Dataset, Table
from culm_topics.chotki.parquet.part_files import part_files
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.state_reader import ObjectState, StateReader
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin

_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """A table: its folder, the number of new rows, and whether these are all objects of the class."""

    class_id: Id
    folder: str
    rows: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export. `epoch` is the present epoch of all its tables."""

    epoch: int
    tables: tuple[ExportedTable, ...]


def export(
    folder: Path | str,
    kafka: KafkaSettings | str | None = None,
    *,
    classes: Iterable[Id | str] | None = None,
    state_dir: Path | str | None = None,
    timeout_seconds: float = _WAIT_SECONDS,
) -> Exported:
    """Write the objects of these classes (all by default) as of the last epoch, one table per class.

    In a folder with an earlier export only the changes since then are written. `kafka` and `state_dir` are
    those of `ChotkiConsumer`. Raises `ExportRefused`, `NameUnknown`, and the errors of `StateReader`.
    """
    settings = named_kafka(kafka)
    with StateReader(settings, state_dir=None if state_dir is None else Path(state_dir)) as reader:
        for _ in reader.catch_up(timeout_seconds):
            continue
        return write_tables(reader.state, reader.origin, Path(folder), classes=classes)


def write_tables(
    state: ObjectState, origin: Origin, folder: Path, *, classes: Iterable[Id | str] | None = None
) -> Exported:
    """Run `export` on a state that has been read."""
    view = Objects(state.table)
    wanted = state.table.class_ids_of_objects() if classes is None else map(view.resolve, classes)
    with Dataset(folder, origin) as dataset:
        done = [
            _write_table(state, dataset, class_id)
            for class_id in sorted({*wanted, *_without_objects(view, classes)})
        ]
        dataset.publish()
    return Exported(state.epoch, tuple(done))


def _without_objects(view: Objects, classes: Iterable[Id | str] | None) -> Iterator[Id]:
    """Return the classes that have no objects yet."""
    return (class_.id for class_ in view.classes()) if classes is None else iter(())


def _write_table(state: ObjectState, dataset: Dataset, class_id: Id) -> ExportedTable:
    view = Objects(state.table)
    class_, former = view.class_of(class_id), dataset.tables.get(class_id)
    if former is not None and former.epoch >= state.epoch:
        # An epoch has one content, whatever was written again since; a state that is behind has nothing new.
        return ExportedTable(class_id, former.folder, 0, is_whole=False)
    columns = columns_of(class_, () if former is None else former.columns)
    if former is None:
        name, added, ids = dataset.folder_for(class_, class_id), True, state.table.ids(class_id)
    else:
        name, new = former.folder, {column.place for column in columns[len(former.columns) :]}
        changed = state.table.changed_ids(state.since(former.offsets), class_id)
        added, ids = bool(new), _once(heapq.merge(changed, _with_value_at(state.table, class_id, new)))
    # A table with new columns gets a file even if there are no objects to write.
    with part_files(dataset.new_folder(name), schema_of(class_id, class_, columns), always=added) as files:
        for object_ in view.objects(ids):
            files.write(row_of(object_, columns))
    dataset.add(
        class_id, Table(name, tuple(columns), state.epoch, dict(state.offsets)), is_written=files.count > 0
    )
    return ExportedTable(class_id, name, files.rows, former is None)


def _with_value_at(table: StateFile, class_id: Id, places: Collection[Place]) -> Iterator[Id]:
    """Return the objects of a class that have one of these fields; empty without fields."""
    ids = table.ids(class_id) if places else iter(())
    return (id for id in ids if not table.fields(id).keys().isdisjoint(places))


def _once(ids: Iterable[Id]) -> Iterator[Id]:
    return (id for id, _ in groupby(ids))
