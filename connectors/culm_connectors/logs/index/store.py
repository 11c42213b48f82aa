"""The local index of replicated logs in lmdb. It implements the log store of the protocols.

Reading one log's row, hash or document is an access to mapped memory and runs in the caller's thread. Ranges
of entries are read in chunks (`read_chunk`), which a driver does in a worker thread. One thread at a time
writes: it calls `commit`; then the reading thread calls `adopt`. `append` does both at once.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.local_store.sizes import DEFAULT_MAP_SIZE_BYTES, MAX_SIZE_BYTES
from culm_connectors.logs.index import layout
from culm_connectors.logs.index.audit import contradictory_logs, forget_logs
from culm_connectors.logs.index.commit import (
    Commit,
    Offsets,
    TransactionState,
    author_name,
    peer_name,
    read_usage,
)
from culm_connectors.logs.index.documents import DocumentReader, ReadFacts
from culm_connectors.logs.index.errors import INDEX_ERRORS, IndexConflict, IndexDamaged, IndexGap
from culm_connectors.logs.index.layout import (
    Pair,
    Range,
    RowCache,
    checked_entry,
)
from culm_connectors.logs.index.sync_ranges import SyncRanges, read_heights
from culm_connectors.logs.index.upgrade import ensure_format
from culm_connectors.logs.ranges import RangeSnapshot
from culm_connectors.logs.ranges.columns import Rows, U64s, no_keys, numbers
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogInfo, LogKey, LogKind
from culm_models.lifts import Lift
from culm_topics.records import log_key, split_log_key

DEFAULT_CHUNK_BYTES = 64 * 1024
_CHUNK_LOGS = 4_096


class LmdbLogStore:
    """Entries, heights and Kafka offsets of one folder. `read_facts` reads payloads for their owner.

    `durable` flushes every commit, for a peer's own entries, which cannot be recovered. An index that can be
    rebuilt leaves it off and calls `sync` at intervals. For `check`, `lock`, errors: `LmdbFile`.
    """

    def __init__(
        self,
        read_facts: ReadFacts,
        folder: Path,
        *,
        map_size_bytes: int = DEFAULT_MAP_SIZE_BYTES,
        max_size_bytes: int = MAX_SIZE_BYTES,
        durable: bool = False,
        check: bool = False,
        lock: FolderLock | None = None,
    ) -> None:
        self._environment = LmdbFile(
            folder,
            layout.DATABASES,
            map_size_bytes=map_size_bytes,
            max_size_bytes=max_size_bytes,
            full_hint="allow more (max_index_bytes), or serve fewer schemas",
            durable=durable,
            check=check,
            errors=INDEX_ERRORS,
            lock=lock,
        )
        self._read_facts = read_facts
        self._databases: Mapping[bytes, object] = self._environment.databases
        self._rows = RowCache(self._environment)
        self._documents = DocumentReader(self._environment, self._rows)
        # The queries about documents. They are called for entries, so without a wrapper.
        self.document_of = self._documents.document_of
        self.place_of = self._documents.place_of
        self.deletes_of = self._documents.deletes_of
        self.log_of = self._documents.log_of
        self.next_log_id = self._documents.next_log_id
        self._schema_numbers: dict[str, int] = {}
        self._written_schemas: dict[str, int] = {}  # of the thread that writes
        self._schema_ids: dict[int, str] = {}
        self.ranges = SyncRanges(self.read_heights)
        """The sync ranges in memory."""
        try:
            self._load()
        except BaseException:
            self._environment.close()
            raise

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self._environment.folder

    @property
    def damage(self) -> StoreDamaged | None:
        """The latest damage that a read or write encountered."""
        return self._environment.damage

    def _load(self) -> None:
        ensure_format(self._environment, self._read_facts)
        with (
            self._environment.read() as transaction,
            transaction.cursor(db=self._databases[b"schemas"]) as cursor,
        ):
            schemas = dict(cursor)
        try:
            self._know_schemas({value.decode(): layout.U32.unpack(key)[0] for key, value in schemas.items()})
        except (ValueError, struct.error) as error:
            raise IndexDamaged(f"{self.folder}: malformed record of a schema: {error}") from error
        self._written_schemas = dict(self._schema_numbers)

    def _know_schemas(self, numbers: Mapping[str, int]) -> None:
        self._schema_numbers.update(numbers)
        self._schema_ids.update({number: schema_id for schema_id, number in numbers.items()})

    # The log store of the protocols.

    def height(self, public_key: bytes, log_id: int) -> int:
        """Returns the highest sequence number held of a log, 0 if unknown; there are no gaps below it."""
        row = self._rows.get(log_key(public_key, log_id))
        return row.height if row else 0

    def entry_hash(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        """Returns the 34-byte hash of an entry, None if it is not held."""
        key = log_key(public_key, log_id)
        row = self._rows.get(key)
        if row is None or not 0 < seq_num <= row.height:
            return None
        if seq_num == row.height:
            return row.head_hash
        key += layout.U64.pack(seq_num)
        with self._environment.read() as transaction:
            value = transaction.get(key, db=self._databases[b"entries"])
            return None if value is None else checked_entry(transaction, self._databases, key, value)[0]

    def log_heights(self, schema_ids: Iterable[str]) -> Iterator[tuple[bytes, int, int]]:
        """Iterate (public key, log id, height) of all logs of the schemas, in the order of the sync range."""
        numbers = {self._schema_numbers[name] for name in schema_ids if name in self._schema_numbers}
        for key, height in heapq.merge(*(self._sync_range(number) for number in sorted(numbers))):
            public_key, log_id = split_log_key(key)
            yield public_key, log_id, height

    def _sync_range(self, number: int) -> Iterator[tuple[bytes, int]]:
        prefix = layout.U32.pack(number)
        for key, value in self._environment.scan(b"sync_range", prefix, _CHUNK_LOGS):
            yield key[len(prefix) :], layout.U64.unpack(value)[0]

    def sync_range(self, schema_ids: Iterable[str], lift: Lift, salt: bytes = b"") -> RangeSnapshot:
        """Returns a snapshot of `log_heights`, with fingerprints of its ranges under this lift and salt.

        The first call for a schema reads all of its logs from the file. Raises `IndexDamaged`.
        """
        return self.ranges.snapshot(schema_ids, lift, salt)

    def entries(
        self, public_key: bytes, log_id: int, first_seq_num: int, last_seq_num: int
    ) -> Iterator[Pair]:
        """Iterate (entry bytes, operation bytes) of a part of a log, as far as it is held."""
        position = first_seq_num
        while position <= last_seq_num:
            chunk = self.read_chunk(public_key, log_id, position, last_seq_num)
            if not chunk:
                return
            yield from chunk
            position += len(chunk)

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """Returns the schema, document and end of a log, None for an unknown log."""
        row = self._rows.get(log_key(public_key, log_id))
        if row is None:
            return None
        return LogInfo(
            schema_id=self._schema_id(row.schema_number),
            document_id=row.document_id,
            end_of_log=row.height if row.end_of_log else None,
        )

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        """Returns (schema id, whether the first entry creates the document) of each log; None if unknown."""
        kinds = self._rows.kinds([log_key(*log) for log in logs])
        return [kind and (self._schema_id(kind[0]), kind[1]) for kind in kinds]

    @property
    def revision(self) -> int:
        """Number of the newest commit. Later commits have higher numbers."""
        return self._environment.revision

    def append(self, checked: Sequence[SoundEntry]) -> None:
        """Extend logs; entries that are already held are skipped.

        Raises `IndexConflict` or `IndexGap` after the other entries were stored.
        """
        done = self.commit(checked, {})
        self.adopt(done)
        unsettled = done.unsettled
        while unsettled:
            further = self.commit((), {})
            self.adopt(further)
            unsettled = further.unsettled
        for refused, error in ((done.conflicts, IndexConflict), (done.gaps, IndexGap)):
            if refused:
                entry = refused[0].entry
                raise error(f"log {entry.public_key.hex()}/{entry.log_id} cannot take number {entry.seq_num}")

    # The index of a process.

    def commit(
        self,
        checked: Sequence[SoundEntry],
        offsets: Offsets,
        *,
        truth: bool = False,
        brought_by: Sequence[bytes] = (),
    ) -> Commit:
        """Store entries and offsets in one transaction, in the one thread that writes.

        `brought_by`: the peer that sent each of the entries; empty if they come from Kafka.
        """
        done = self._environment.write(
            lambda transaction: TransactionState(
                transaction, self._databases, self._written_schemas, self._read_facts
            ).run(checked, offsets, truth=truth, brought_by=brought_by)
        )
        self._written_schemas.update(done.schema_numbers)
        return done

    def forget(self, keys: Iterable[bytes]) -> Commit:
        """Remove logs (40-byte keys) from the index, to be read again; in the one thread that writes."""
        taken = tuple(keys)
        return self._environment.write(lambda transaction: forget_logs(transaction, self._databases, taken))

    def contradictions(self) -> dict[bytes, str | None]:
        """Find logs whose records contradict each other. Returns schema ids, None if unknown, by 40-byte key.

        Reads the whole index.
        """
        with self._environment.read() as transaction:
            contradictory = list(contradictory_logs(transaction, self._databases))
        named = {key: self._schema_ids.get(number) for key, number in contradictory if number is not None}
        return {key: named.get(key) for key, _ in contradictory}

    def adopt(self, commit: Commit) -> None:
        """Make a commit visible to this object's readers, in the thread that reads."""
        self._know_schemas(commit.schema_numbers)
        self._rows.adopt(commit.rows)
        self.ranges.adopt(commit, self._schema_id)

    def read_heights(self, schema_id: str) -> tuple[Rows, U64s]:
        """Read the sorted keys (n, 40) and heights of a schema's logs from the file; any thread.

        Raises `IndexDamaged`.
        """
        number = self._schema_numbers.get(schema_id)
        if number is None:
            return no_keys(), numbers([])
        return read_heights(self._environment, self._databases[b"sync_range"], number)

    def read_chunk(
        self,
        public_key: bytes,
        log_id: int,
        first_seq_num: int,
        last_seq_num: int,
        max_bytes: int = DEFAULT_CHUNK_BYTES,
    ) -> list[Pair]:
        """Read part of a log: at least one entry (if held) and at most about `max_bytes`; any thread.

        Raises `IndexDamaged` if an entry is not the one that was stored.
        """
        log = log_key(public_key, log_id)
        last = log + layout.U64.pack(last_seq_num)
        pairs: list[Pair] = []
        taken = 0
        with (
            self._environment.read() as transaction,
            transaction.cursor(db=self._databases[b"entries"]) as cursor,
        ):
            if not cursor.set_key(log + layout.U64.pack(first_seq_num)):
                return pairs
            for key, value in cursor.iternext():
                if key > last:
                    break
                pairs.append(checked_entry(transaction, self._databases, key, value)[1])
                taken += len(value)
                if taken >= max_bytes:
                    break
        return pairs

    def read_ranges(self, ranges: Sequence[Range], max_bytes: int = DEFAULT_CHUNK_BYTES) -> list[list[Pair]]:
        """Read several parts of logs at once, until about `max_bytes` are read; any thread.

        Returns one list per range that was read, empty if no entry of it is held. The last may be incomplete.
        """
        chunks: list[list[Pair]] = []
        taken = 0
        for part in ranges:
            chunk = self.read_chunk(*part, max_bytes - taken)
            chunks.append(chunk)
            taken += sum(len(entry) + len(operation) for entry, operation in chunk)
            _, _, first_seq_num, last_seq_num = part
            is_whole = len(chunk) > last_seq_num - first_seq_num
            if taken >= max_bytes or (chunk and not is_whole):
                break
        return chunks

    def offsets(self) -> dict[tuple[str, int], int]:
        """Returns the next offset to read of every Kafka partition that this index covers."""
        with (
            self._environment.read() as transaction,
            transaction.cursor(db=self._databases[b"meta"]) as cursor,
        ):
            if not cursor.set_range(b"offset:"):
                return {}
            return {
                layout.split_offset_key(key): layout.U64.unpack(value)[0]
                for key, value in itertools.takewhile(
                    lambda item: item[0].startswith(b"offset:"), cursor.iternext()
                )
            }

    def meta(self, name: str) -> bytes | None:
        """Returns a value that was stored with `set_meta`, or None."""
        with self._environment.read() as transaction:
            value: bytes | None = transaction.get(b"name:" + name.encode(), db=self._databases[b"meta"])
        return value

    def set_meta(self, name: str, value: bytes) -> None:
        """Store a small value beside the entries."""
        key, meta = b"name:" + name.encode(), self._databases[b"meta"]
        self._environment.write(lambda transaction: transaction.put(key, value, db=meta))

    def schema_ids(self) -> tuple[str, ...]:
        """Returns all schemas of which an entry was stored."""
        return tuple(self._schema_numbers)

    def usage(self, author: bytes, peer_id: bytes) -> tuple[int, int]:
        """Returns the bytes of entries and operations of an author's logs, and of those that a peer sent."""
        with self._environment.read() as transaction:
            of_author, of_peer = (
                read_usage(transaction, self._databases, name)
                for name in (author_name(author), peer_name(peer_id))
            )
        return of_author, of_peer

    def counts(self) -> tuple[int, int]:
        """Returns the number of logs and the number of entries held."""
        return self._environment.count(b"logs"), self._environment.count(b"entries")

    def size_bytes(self) -> int:
        """Returns the size of the file in bytes."""
        return self._environment.size_bytes()

    def sync(self) -> None:
        """Flush to the disk; blocking."""
        self._environment.sync()

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """Flush and close; `then` is called before others may open the folder, unless a flush has failed."""
        self._environment.close(then)

    def _schema_id(self, number: int) -> str:
        known = self._schema_ids.get(number)
        if known is None:
            # A row is visible as soon as it is committed, before `adopt` makes a new schema known.
            with self._environment.read() as transaction:
                value = transaction.get(layout.U32.pack(number), db=self._databases[b"schemas"])
            if value is None:
                raise IndexDamaged(f"schema {number} is named by a log's row and missing")
            known = self._schema_ids[number] = value.decode()
        return known
