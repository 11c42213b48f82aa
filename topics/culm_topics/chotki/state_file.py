"""The state of an epoch in SQLite: the applied epoch, and staged records (reference 9.2 rule 6).

Memory is bounded, whatever the topic holds: a page cache, and the result of one call. Without a folder the
file is a private temporary one. With one it is a cache of `chotki.state` (`culm_topics.readers.cache_file`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from culm_models.chotki.ids import OBJECT_KEY, OFFSET_MAX, VECTOR_KEY, Id, object_key, split_object_key
from culm_topics.chotki.errors import StateFileFailed
from culm_topics.chotki.global_names import GlobalNames
from culm_topics.chotki.objects import NAMES_OBJECT, NAMES_PLACE, Place, class_id_among, object_of
from culm_topics.readers.cache_file import CacheFile

FILE_NAME: Final = "chotki-state.sqlite"
LAYOUT: Final = 1
_PAGE: Final = 1_000
_NOWHERE: Final = -1
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS store (
    key BLOB PRIMARY KEY, value BLOB NOT NULL, place INTEGER NOT NULL, place_offset INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_place ON store (place, place_offset);
CREATE TABLE IF NOT EXISTS objects (
    id BLOB PRIMARY KEY, class BLOB, is_class INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_class ON objects (class, id);
CREATE INDEX IF NOT EXISTS classes ON objects (id) WHERE is_class;
"""
_OWN_TABLES: Final = """
CREATE TEMP TABLE changed_ids (class BLOB, id BLOB, PRIMARY KEY (class, id)) WITHOUT ROWID;
CREATE TEMP TABLE staged (
    place INTEGER NOT NULL, place_offset INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (place, place_offset)
) WITHOUT ROWID;
"""
_APPLY: Final = """
INSERT INTO store SELECT key, value, place, place_offset FROM staged WHERE place = ? AND place_offset < ?
ORDER BY place_offset
ON CONFLICT (key) DO UPDATE
SET value = excluded.value, place = excluded.place, place_offset = excluded.place_offset
WHERE value IS NOT excluded.value
"""
_ITSELF: Final = """
SELECT DISTINCT substr(key, 2, 16) FROM staged
WHERE place = ? AND place_offset < ?
AND substr(key, 1, 1) = x'4f' AND substr(key, 18) IN (x'4f', x'43', x'59')
"""
_LIST: Final = """
INSERT INTO changed_ids SELECT class, id FROM objects WHERE id = ? AND class IS NOT NULL
"""

Window = Mapping[int, tuple[int, int]]
"""(first offset, end) by partition of `chotki.state`."""


class StateFile:
    """A `FieldSource`: fields and vectors by their store keys, and objects by class.

    `folder` is the file's folder; None for a temporary file. `origin` is the identity of its rows' topic. One
    program uses a file at a time: another one gets `StateFileFailed`, as for a folder that cannot be written.
    """

    def __init__(self, folder: Path | None = None, origin: bytes = b"") -> None:
        self._names: tuple[bytes, GlobalNames] = b"", GlobalNames()
        self._listed: Window | None = None
        self._file = CacheFile(
            None if folder is None else folder / FILE_NAME,
            layout=LAYOUT,
            tables=_TABLES,
            temporary_tables=_OWN_TABLES,
            origin=origin,
            failed=StateFileFailed,
        )

    def close(self) -> None:
        """Close the file; a temporary one is deleted."""
        self._file.close()

    # Properties of the whole state.

    def about(self, name: str) -> bytes | None:
        """Return the value stored under this name with the last epoch."""
        return self._file.about(name)

    # Staged records.

    def stage(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """Stage a field or a vector that was read."""
        if not self._file.in_transaction:
            # Until the next epoch: staged records are visible to this connection only.
            self._file.rows("BEGIN")
        self._file.rows("INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?)", partition, offset, key, value)

    def unstage(self, partition: int, end: int) -> None:
        """Drop staged records of a partition before this offset."""
        self._rows("DELETE FROM staged WHERE place = ? AND place_offset < ?", partition, end)

    def drop_staged(self) -> None:
        """Drop all staged records."""
        self._rows("DELETE FROM staged")

    @property
    def waiting(self) -> int:
        """Number of staged records."""
        return int(self._rows("SELECT count(*) FROM staged")[0][0])

    def apply(self, ends: Mapping[int, int], about: Mapping[str, bytes]) -> None:
        """Apply the records staged before these offsets, with the epoch's properties; all or nothing."""
        self._listed = None
        with self._file.transaction():
            for end in ends.items():
                self._rows(_APPLY, *end)
                self._index(bytes(key) for (key,) in self._rows(_ITSELF, *end))
                self.unstage(*end)
            self._file.write_all("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())

    def put_all(self, values: Mapping[bytes, bytes]) -> None:
        """Set values by store key that come from no record."""
        rows = [(key, value, _NOWHERE, 0) for key, value in values.items()]
        with self._file.transaction():
            self._file.write_all("INSERT OR REPLACE INTO store VALUES (?, ?, ?, ?)", rows)
            self._index(key[1:17] for key in values if key[0] == OBJECT_KEY and chr(key[17]) in "COY")

    def put(self, at: Id, letter: str, value: bytes) -> None:
        """Set the value of a field by its own ID."""
        self.put_all({object_key(at, letter): value})

    def _index(self, keys: Iterable[bytes]) -> None:
        rows = []
        for key in keys:
            id = _id(key)
            if not id.off:
                fields = self.fields(id)
                class_id = class_id_among(fields)
                rows.append((key, None if class_id is None else _bytes(class_id), (0, "C") in fields))
        self._file.write_all("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", rows)

    # The applied epoch.

    def fields(self, id: Id) -> Mapping[Place, bytes]:
        """Return the fields of an object, empty if there is no such object."""
        first, last = object_key(id, "\0"), object_key(Id(id.src, id.pro | OFFSET_MAX), "\xff")
        rows = self._rows("SELECT key, value FROM store WHERE key BETWEEN ? AND ?", first, last)
        return {_place(key): value for key, value in rows}

    def ids(self, class_id: Id | None = None) -> Iterator[Id]:
        """Return the objects of a class, or every object and class, by ID."""
        if class_id is None:
            return self._pages("SELECT id FROM objects WHERE id > ? ORDER BY id")
        return self._pages("SELECT id FROM objects WHERE class = ? AND id > ? ORDER BY id", _bytes(class_id))

    def class_ids(self) -> Iterator[Id]:
        """Return every class, by ID."""
        return self._pages("SELECT id FROM objects WHERE is_class AND id > ? ORDER BY id")

    def class_ids_of_objects(self) -> Iterator[Id]:
        """Yield the classes that objects name, by ID, whether the state contains them or not."""
        last = b""
        while rows := self._rows("SELECT class FROM objects WHERE class > ? ORDER BY class LIMIT 1", last):
            ((last,),) = rows
            yield _id(last)

    def names(self) -> GlobalNames:
        """Return the global names; they are parsed again only if their bytes have changed."""
        at = object_key(Id(NAMES_OBJECT.src, NAMES_OBJECT.pro + NAMES_PLACE[0]), NAMES_PLACE[1])
        rows = self._rows("SELECT value FROM store WHERE key = ?", at)
        value = rows[0][0] if rows else b""
        if self._names[0] != value:
            self._names = value, GlobalNames(value)
        return self._names[1]

    def store(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of the store in order, without the global vector."""
        key = b""
        while rows := self._rows(
            f"SELECT key, value FROM store WHERE key > ? ORDER BY key LIMIT {_PAGE}", key
        ):
            yield from rows
            key = rows[-1][0]

    def vectors(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the vectors of blocks by store key, in order."""
        bounds = bytes([VECTOR_KEY]), bytes([VECTOR_KEY + 1])
        return iter(
            self._rows("SELECT key, value FROM store WHERE key >= ? AND key < ? ORDER BY key", *bounds)
        )

    def changed(self, window: Window, *, classes: bool = False) -> Iterator[tuple[Id, set[Place]]]:
        """Yield objects by ID, with the positions of fields whose values were read within the window.

        `classes`: only classes, and the fields that define them.
        """
        places = [(partition, *bounds) for partition, bounds in window.items()]
        if not places:
            return
        within = " OR ".join(["place = ? AND place_offset >= ? AND place_offset < ?"] * len(places))
        kind = "substr(key, 18) = x'43'" if classes else "substr(key, 1, 1) = x'4f'"
        # Sorted before the first row is returned, so that records applied meanwhile do not matter.
        rows = self._file.each_row(
            f"SELECT key FROM store WHERE ({within}) AND {kind} ORDER BY +key",
            [number for each in places for number in each],
        )
        fields = (split_object_key(key) for (key,) in rows if key[0] == OBJECT_KEY)
        for id, positions in groupby(fields, key=lambda field: object_of(field[0])):
            yield id, {(at.off, letter) for at, letter in positions}

    def changed_ids(self, window: Window, class_id: Id) -> Iterator[Id]:
        """Yield the objects of a class among those of `changed`, by ID."""
        if self._listed != window:
            self._listed = None
            ids = ((_bytes(id),) for id, _ in self.changed(window))
            with self._file.transaction():
                self._rows("DELETE FROM changed_ids")
                self._file.write_all(_LIST, ids)
            self._listed = window
        query = "SELECT id FROM changed_ids WHERE class = ? AND id > ? ORDER BY id"
        return self._pages(query, _bytes(class_id))

    def _pages(self, query: str, *given: bytes) -> Iterator[Id]:
        last = b""
        while rows := self._rows(f"{query} LIMIT {_PAGE}", *given, last):
            yield from (_id(key) for (key,) in rows)
            last = rows[-1][0]

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._file.rows(query, *values)


def offsets_as_bytes(offsets: Mapping[int, int]) -> bytes:
    """Return offsets by partition as bytes, for storage."""
    return json.dumps(sorted(offsets.items())).encode()


def offsets_of_bytes(kept: bytes | None) -> dict[int, int]:
    """Return stored offsets; empty if there are none."""
    return {} if kept is None else {int(partition): int(offset) for partition, offset in json.loads(kept)}


def _bytes(id: Id) -> bytes:
    return object_key(id, "O")[1:17]


def _id(key: bytes) -> Id:
    return Id(int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big"))


def _place(key: bytes) -> Place:
    return int.from_bytes(key[15:17], "big") & OFFSET_MAX, chr(key[17])
