"""Finds objects with equal values in a hash-indexed field, before a Go replica does (reference 10, 4).

The store is scanned at the start, each epoch is checked once the store has it, and each packet before it is
sent to peers. Nothing is held back. If no class has such a field, only keys are checked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from culm_connectors.chotki.errors import StoreIncomplete
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import OFFSET_MAX, Id, object_key, split_object_key
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import outer_letter, parse
from culm_models.chotki.rdx import merge
from culm_models.chotki.store import StoreSnapshot
from culm_models.chotki.unique_values import INDEXED_TYPES, DuplicateValue, UniqueValues
from culm_topics.chotki.records import FieldRecord, is_field_key

_CLASS: Final = ord("C")
_OBJECT: Final = ord("O")
_MOST_NEW: Final = 65_536
_INDEXED: Final = frozenset(map(ord, INDEXED_TYPES))

Record = tuple[bytes, bytes]


class UniqueWatch:
    """Watches the hash-indexed fields. Methods may run in several threads; long ones run in their own."""

    def __init__(self, store: ChotkiStore, max_values: int) -> None:
        self._store = store
        self._values = UniqueValues(max_values)
        self._lock = threading.Lock()
        self._new_objects: OrderedDict[Id, Id] = OrderedDict()
        """Classes of objects that packets have created and the store may not hold yet."""
        self._is_scanned = False

    @property
    def is_full(self) -> bool:
        """Whether there are more values than can be watched."""
        return self._values.is_full

    @property
    def count(self) -> int:
        """Number of values that several objects have now."""
        with self._lock:
            return len(self._values.duplicates())

    def scan(self) -> list[DuplicateValue]:
        """Scan the store. Returns the duplicates.

        Raises the errors of snapshots, except `StoreIncomplete`.
        """
        try:
            snapshot = self._store.snapshot()
        except StoreIncomplete:
            self._is_scanned = False
            return []
        try:
            self._is_scanned = True
            for key, value, _ in snapshot.fields(b""):
                if key[17] == _CLASS:
                    self._learn(key, value)
            return list(self._scanned(snapshot)) if self._values.classes else []
        finally:
            snapshot.release()

    def records(self, records: Sequence[Record] | None) -> list[DuplicateValue]:
        """Check the records of an epoch that the store has reached. Returns the duplicates.

        None means that the store is being built; it is scanned later.
        """
        if records is None or not self._is_scanned:
            self._is_scanned = False
            return [] if records is None else self.scan()
        learned = [self._learn(key, _bare(value)) for key, value in records if _is_field(key, _CLASS)]
        if any(learned):
            return self.scan()
        if not self._values.classes:
            return []
        snapshot = self._store.snapshot()
        try:
            fields = (record for record in records if is_field_key(record[0]) and record[0][17] in _INDEXED)
            return list(self._taken(((key, _bare(value)) for key, value in fields), snapshot))
        finally:
            snapshot.release()

    def packet(self, packet: bytes) -> list[DuplicateValue]:
        """Check a live packet before it is sent to peers. Returns the duplicates."""
        if not self._values.classes and outer_letter(packet) != "C":
            return []
        try:
            live = read_live(parse(packet), packet)
            snapshot = self._store.snapshot()
        except (ChotkiError, StoreIncomplete):
            return []
        try:
            for key, value in live.writes:
                if key[17] == _CLASS:
                    self._learn(key, value)
                elif key[17] == _OBJECT and live.ref in self._values.classes:
                    self._new_objects[live.id] = live.ref
                    if len(self._new_objects) > _MOST_NEW:
                        self._new_objects.popitem(last=False)
            return list(self._taken(_merged(live.writes, snapshot), snapshot))
        finally:
            snapshot.release()

    def _learn(self, key: bytes, value: bytes) -> bool:
        with self._lock:
            return self._values.learn_class(split_object_key(key)[0], value)

    def _scanned(self, snapshot: StoreSnapshot) -> Iterator[DuplicateValue]:
        at = class_id = Id(0, 0)
        for key, value, _ in snapshot.fields(b""):
            if key[17] == _OBJECT:
                # An object precedes its fields.
                at, class_id = split_object_key(key)[0], Id.unzip(value)
            elif key[17] in _INDEXED and class_id in self._values.classes:
                field, letter = split_object_key(key)
                if _object_of(field) == at:
                    yield from self._take(class_id, field, letter, value)

    def _taken(self, fields: Iterator[Record], snapshot: StoreSnapshot) -> Iterator[DuplicateValue]:
        for key, value in fields:
            if key[17] in _INDEXED:
                field, letter = split_object_key(key)
                class_id = self._class_of(_object_of(field), snapshot)
                if class_id is not None:
                    yield from self._take(class_id, field, letter, value)

    def _class_of(self, object_id: Id, snapshot: StoreSnapshot) -> Id | None:
        if (class_id := self._new_objects.get(object_id)) is not None:
            return class_id
        value = snapshot.get(object_key(object_id, "O"))
        return None if value is None else Id.unzip(value)

    def _take(self, class_id: Id, field: Id, letter: str, value: bytes) -> Iterator[DuplicateValue]:
        with self._lock:
            duplicate = self._values.take(class_id, field, letter, value)
        if duplicate is not None:
            yield duplicate


def _object_of(field: Id) -> Id:
    return Id(field.src, field.pro & ~OFFSET_MAX)


def _merged(writes: Iterable[Record], snapshot: StoreSnapshot) -> Iterator[Record]:
    """Yield the values of fields after merging these operands."""
    for key, operand in writes:
        before = snapshot.get(key)
        yield key, operand if before is None else merge(chr(key[17]), [before, operand])


def _bare(value: bytes) -> bytes:
    return FieldRecord.decode(value).value


def _is_field(key: bytes, letter: int) -> bool:
    return is_field_key(key) and key[17] == letter
