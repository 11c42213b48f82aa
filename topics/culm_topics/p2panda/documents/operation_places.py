"""Known places of operations in `logs`: from records of `documents`, and from a scan of `logs`.

A record names the places of the operations that set the present fields. Earlier views consist of other
operations, which only a scan of `logs` finds. Every operation that a scan has read is remembered with its
`previous`: about 80 bytes on disk, and 34 for each id in `previous`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from culm_models.bamboo.hashes import HASH_SIZE
from culm_models.p2panda.operations.identifiers import DocumentViewId, OperationId
from culm_topics.readers.cache_file import CacheFile

TABLES: Final = """
CREATE TABLE IF NOT EXISTS operations (
    id BLOB PRIMARY KEY, place INTEGER, place_offset INTEGER, previous BLOB
) WITHOUT ROWID;
"""
_ADD_PLACE: Final = """
INSERT INTO operations VALUES (?, ?, ?, NULL)
ON CONFLICT (id) DO UPDATE SET place = excluded.place, place_offset = excluded.place_offset
WHERE place IS NULL
"""
_FORGET: Final = "UPDATE operations SET place = NULL, place_offset = NULL, previous = NULL WHERE id = ?"

Place = tuple[int, int]
"""Partition and offset of a record of `logs`."""


class FoundOperation(NamedTuple):
    """An operation in `logs`, with the ids of those that it follows."""

    id: OperationId
    partition: int
    offset: int
    previous: tuple[OperationId, ...]


@dataclass(frozen=True, slots=True)
class ViewWalk:
    """The operations of a view as far as they are known.

    `places` are those whose places and `previous` are known, `unread` those of which only the places are
    known, and `missing` those whose places are unknown. `is_cut` if the walk ended at its limit.
    """

    places: Mapping[OperationId, Place]
    unread: Mapping[OperationId, Place]
    missing: frozenset[OperationId]
    is_cut: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all operations of the view are known, with their places."""
        return not (self.missing or self.unread or self.is_cut)


class OperationPlaces:
    """The table of known places in a file of documents."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file

    def add_places(self, places: Iterable[tuple[OperationId, int, int]]) -> None:
        """Remember (id, partition, offset) of operations."""
        self._file.write_all(_ADD_PLACE, places)

    def add_ids(self, operation_ids: Iterable[OperationId]) -> None:
        """Remember that operations are here, without their places."""
        self._file.write_all(
            "INSERT OR IGNORE INTO operations VALUES (?, NULL, NULL, NULL)", ((i,) for i in operation_ids)
        )

    def add_found(
        self, operations: Iterable[FoundOperation], positions: Mapping[int, int] | None = None
    ) -> None:
        """Remember operations that were read from `logs`, and up to where a scan has read it."""
        with self._file.transaction():
            self._file.write_all(
                "INSERT OR REPLACE INTO operations VALUES (?, ?, ?, ?)",
                ((found.id, found.partition, found.offset, b"".join(found.previous)) for found in operations),
            )
            self._file.write_all(
                "INSERT OR REPLACE INTO positions VALUES ('logs', ?, ?)", (positions or {}).items()
            )

    def forget(self, operation_ids: Iterable[OperationId]) -> None:
        """Forget the places of operations that are not there."""
        self._file.write_all(_FORGET, ((operation_id,) for operation_id in operation_ids))

    def begin(self, origin: bytes) -> None:
        """Use the topic `logs` of this origin. Forgets all places if the origin was another one before."""
        before = self._file.about("logs")
        if before == origin:
            return
        with self._file.transaction():
            if before is not None:
                self._file.rows("UPDATE operations SET place = NULL, place_offset = NULL, previous = NULL")
                self._file.rows("DELETE FROM positions WHERE topic = 'logs'")
            self._file.rows("INSERT OR REPLACE INTO about VALUES ('logs', ?)", origin)

    def scanned(self) -> dict[int, int]:
        """Return the next offset of each partition of `logs` that was scanned."""
        return dict(self._file.rows("SELECT partition, next_offset FROM positions WHERE topic = 'logs'"))

    def has(self, operation_id: OperationId) -> bool:
        """Return whether an operation is known; others may be here, too."""
        return bool(self._file.rows("SELECT 1 FROM operations WHERE id = ?", operation_id))

    def walk(self, view_id: DocumentViewId, limit: int) -> ViewWalk:
        """Follow a view from its heads to the create, through `limit` operations at most."""
        places: dict[OperationId, Place] = {}
        unread: dict[OperationId, Place] = {}
        missing: set[OperationId] = set()
        due = list(view_id)
        while due:
            operation_id = due.pop()
            if operation_id in places or operation_id in unread or operation_id in missing:
                continue
            if len(places) + len(unread) + len(missing) >= limit:
                return ViewWalk(places, unread, frozenset(missing), is_cut=True)
            rows = self._file.rows(
                "SELECT place, place_offset, previous FROM operations WHERE id = ?", operation_id
            )
            if not rows or rows[0][0] is None:
                missing.add(operation_id)
                continue
            partition, offset, previous = rows[0]
            if previous is None:
                unread[operation_id] = partition, offset
                continue
            places[operation_id] = partition, offset
            due += (previous[at : at + HASH_SIZE] for at in range(0, len(previous), HASH_SIZE))
        return ViewWalk(places, unread, frozenset(missing))
