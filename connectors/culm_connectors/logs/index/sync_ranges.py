"""The sync ranges of an index in memory: read from the file on first use of a schema, then updated.

An unused schema costs nothing. Reading a million logs takes almost a second, so a program that expects so
many calls `load` in a thread before it serves.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable

import numpy as np

from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.logs.index import layout
from culm_connectors.logs.index.commit import Commit
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.ranges import BlockSums, RangeIndex, RangeSnapshot, Snapshots, block_sums
from culm_connectors.logs.ranges.columns import Rows, U64s, join_keys, no_keys, numbers
from culm_models.lifts import DEFAULT, Lift
from culm_models.lifts.vectors import split_items
from culm_topics.records import LOG_KEY_SIZE, log_key

_CHUNK_LOGS = 65_536
_PREFIX_SIZE = layout.U32.size
_HEIGHT_AT = _PREFIX_SIZE + LOG_KEY_SIZE
_RECORD_SIZE = _HEIGHT_AT + layout.U64.size


class SyncRanges:
    """Range indexes of the requested schemas; `read` returns a schema's logs from the file.

    Usable from any thread, except that `adopt` is called in one thread, for every commit in turn.
    """

    def __init__(self, read: Callable[[str], tuple[Rows, U64s]]) -> None:
        self._read = read
        self._ready: dict[str, RangeIndex] = {}
        # Being read from the file. They receive every commit meanwhile, so that no commit is lost.
        self._filling: dict[str, RangeIndex] = {}
        # Schemas that changed since the last `merge_work`: of thousands of schemas few change.
        self._changed: set[str] = set()
        self._loading = threading.Lock()
        self._snapshots = Snapshots()

    def index(self, schema_id: str) -> RangeIndex:
        """Returns the index of a schema, read from the file on first use. Raises `IndexDamaged`."""
        ready = self._ready.get(schema_id)
        if ready is None:
            with self._loading:
                ready = self._ready.get(schema_id) or self._load(schema_id)
        return ready

    def load(self, schema_ids: Iterable[str]) -> None:
        """Read these schemas' logs if not yet in memory; about a second per million.

        Raises `IndexDamaged`.
        """
        for schema_id in schema_ids:
            self.index(schema_id)

    def keep_only(self, schema_ids: Collection[str]) -> None:
        """Drop every other schema from memory; it is read again on its next use."""
        with self._loading:
            for schema_id in [loaded_id for loaded_id in self._ready if loaded_id not in schema_ids]:
                del self._ready[schema_id]

    def raise_heights(self, schema_id: str, packed: bytes) -> None:
        """Raise logs to these heights (items of 48 bytes, any order) until `reload`, even if not held.

        Raises `IndexDamaged`, and `ValueError` if the bytes are not items.
        """
        keys, log_ids, heights = split_items(packed)
        self.index(schema_id).load(join_keys(keys.tobytes(), log_ids), heights)
        self._changed.add(schema_id)

    def reload(self, schema_ids: Iterable[str]) -> None:
        """Show only held entries again: reload those schemas that are in use. Raises `IndexDamaged`."""
        for schema_id in schema_ids:
            with self._loading:
                if schema_id in self._ready:
                    self._load(schema_id)

    def _load(self, schema_id: str) -> RangeIndex:
        index = self._filling[schema_id] = RangeIndex()
        try:
            index.load(*self._read(schema_id))
            self._ready[schema_id] = index
        finally:
            del self._filling[schema_id]
        return index

    def snapshot(self, schema_ids: Iterable[str], lift: Lift, salt: bytes) -> RangeSnapshot:
        """Returns a snapshot of the logs of these schemas. Raises `IndexDamaged`."""
        return self._snapshots.of([self.index(name) for name in sorted(set(schema_ids))], lift, salt)

    def blocks(self, schema_id: str, block_bits: int, lift: Lift = DEFAULT) -> BlockSums:
        """Returns logs, entries and fingerprint lanes of every block of a schema. Raises `IndexDamaged`."""
        return block_sums(self.snapshot([schema_id], lift, b""), block_bits)

    def adopt(self, commit: Commit, schema_of: Callable[[int], str]) -> None:
        """Apply the changes of a commit."""
        if not self._ready and not self._filling:
            return
        # In this order: an index that moves from one to the other meanwhile is updated at least once.
        for indexes in (self._filling, self._ready):
            by_schema = dict(indexes)
            cut = {log_key(*log) for log, _ in commit.truncated}
            for key, row in commit.rows.items():
                if row is None or key in cut:
                    for index in by_schema.values():
                        index.set_height(key, 0)
                    self._changed.update(by_schema)
                if row is None:
                    continue
                schema_id = schema_of(row.schema_number)
                grown = by_schema.get(schema_id)
                if grown is not None:
                    grown.raise_height(key, row.height)
                    self._changed.add(schema_id)

    def merge_work(self) -> list[Callable[[], None]]:
        """Returns the due merges as functions, each to be run once, in any thread."""
        due_merges = []
        for schema_id in tuple(self._changed):
            self._changed.discard(schema_id)
            index = self._ready.get(schema_id)
            work = index.merge_work() if index is not None and index.merge_is_due else None
            if work is not None:
                due_merges.append(work)
        return due_merges


def read_heights(environment: LmdbFile, database: object, schema_number: int) -> tuple[Rows, U64s]:
    """Read the sorted keys and heights of all logs of a schema. Raises `IndexDamaged`."""
    prefix = layout.U32.pack(schema_number)
    keys: list[Rows] = [no_keys()]
    heights: list[U64s] = [numbers([])]
    position = prefix
    while True:
        # Read transactions stay short: the map cannot grow meanwhile.
        with environment.read() as transaction, transaction.cursor(db=database) as cursor:
            if not cursor.set_range(position):
                break
            records = list(itertools.islice(cursor.iternext(), _CHUNK_LOGS))
        joined = b"".join(itertools.chain.from_iterable(records))
        if len(joined) != len(records) * _RECORD_SIZE:
            raise IndexDamaged(f"{environment.folder}: a record of the sync range has a strange length")
        rows = np.frombuffer(joined, np.uint8).reshape(-1, _RECORD_SIZE)
        # The records of the next schema may follow in the same chunk.
        rows = rows[(rows[:, :_PREFIX_SIZE] == np.frombuffer(prefix, np.uint8)).all(axis=1)]
        keys.append(np.ascontiguousarray(rows[:, _PREFIX_SIZE:_HEIGHT_AT]))
        heights.append(np.ascontiguousarray(rows[:, _HEIGHT_AT:]).view(">u8").reshape(-1).astype(np.uint64))
        if len(records) < _CHUNK_LOGS or len(rows) < len(records):
            break
        position = records[-1][0] + b"\x00"
    return np.concatenate(keys), np.concatenate(heights)
