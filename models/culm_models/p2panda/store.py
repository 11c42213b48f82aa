"""The interface of the store that a `Peer` keeps its entries in, and an implementation in memory.

Logs in a store have no gaps: `height` is the highest sequence number and every entry below it is held.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from culm_models.bamboo.log_store import LogInfo, LogKey, LogKind
from culm_models.lifts import Item, Lanes, Lift
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.messages import LogHeight
from culm_models.reconciliation import OrderedSet


class LogStore(Protocol):
    """Entries by log, with the heights and documents of the logs."""

    def height(self, public_key: bytes, log_id: int) -> int:
        """Return the highest sequence number held; 0 for an unknown log."""
        ...

    def entry_hash(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        """Return the 34-byte hash of an entry; None if it is not held."""
        ...

    def log_heights(self, schema_ids: Iterable[str]) -> Iterable[LogHeight]:
        """Return the height of every log of these schemas, sorted by public key and log id."""
        ...

    def sync_range(
        self, schema_ids: Iterable[str], lift: Lift, salt: bytes = b""
    ) -> OrderedSet[LogHeight, bytes]:
        """Return the current heights with the fingerprints of their ranges by this lift.

        The result does not change when the logs do. The resources that it holds are released with it.
        """
        ...

    def entries(
        self, public_key: bytes, log_id: int, first_seq_num: int, last_seq_num: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entry and operation bytes of a part of a log, in order; ends early if the log does."""
        ...

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """Return the information about a log; None if none of its entries is held."""
        ...

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        """Return each log's schema and whether its first entry creates its document; None if unknown.

        Answers for thousands of logs at a time what `log_info` and `entry_hash` answer for one.
        """
        ...

    def document_of(self, operation_id: bytes) -> bytes | None:
        """Return the document of an operation; None if the operation or its log's document is unknown.

        A log's document is that of the operations that its first entry follows. It is known as soon as they
        are held and their document is known, in whatever order they arrived.
        """
        ...

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """Return the log id under which an author writes to a document; None if it is unknown."""
        ...

    def append(self, checked: Sequence[CheckedOperation]) -> None:
        """Store entries, each log's in sequence; entries that are held already are skipped."""
        ...


@dataclass(slots=True)
class _Log:
    info: LogInfo
    entries: list[CheckedOperation] = field(default_factory=list)


class SyncRange:
    """An immutable ordered set of items, at most one for each log; ranks count from 0 in the items' order.

    The specification ("replication", 2.1) has one item for each log: its height. Prefix sums give the
    fingerprint of any range with two look-ups. Both ways to combine lanes can be undone, so a part is the
    difference of the sums at its end and at its start.

    A span is (start rank, size) on the ring: it continues from the last item to the first one.
    """

    __slots__ = ("_items", "_lift", "_prefix", "_sums")

    def __init__(self, items: Iterable[Item], lift: Lift, salt: bytes = b"") -> None:
        self._items = sorted(items)
        self._lift = lift
        self._prefix = lift.prefix(salt)
        sums = [lift.neutral]
        for item in self._items:
            sums.append(lift.total((sums[-1], lift.lanes(item, salt))))
        self._sums = sums

    def __len__(self) -> int:
        return len(self._items)

    def ranks(self, bounds: Sequence[Item]) -> list[int]:
        """Return the number of items that sort before each bound; bounds need not be items."""
        return [bisect_left(self._items, bound) for bound in bounds]

    def fingerprints(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the fingerprint of each span in its form on the wire."""
        return [self._prefix + self._lift.value(self._lanes(start, size)) for start, size in spans]

    def items(self, start: int, size: int) -> list[Item]:
        """Return the items of a span, from its start on."""
        end = start + size
        count = len(self._items)
        if end <= count:
            return self._items[start:end]
        return self._items[start:] + self._items[: end - count]

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """Return the items at these ranks as bounds: with sequence number 0, before all of their log."""
        return [(*self._items[rank][:2], 0) for rank in ranks]

    def _lanes(self, start: int, size: int) -> Lanes:
        end, count, sums = start + size, len(self._items), self._sums
        if end <= count:
            return self._lift.without(sums[end], sums[start])
        return self._lift.total((self._lift.without(sums[count], sums[start]), sums[end - count]))


class MemoryLogStore:
    """A `LogStore` in memory: for tests, simulations, conformance and small peers."""

    def __init__(self) -> None:
        self._logs: dict[LogKey, _Log] = {}
        self._keys_by_schema: dict[str, set[LogKey]] = {}
        self._documents: dict[bytes, bytes] = {}
        self._log_ids: dict[tuple[bytes, bytes], int] = {}
        self._waiting: dict[bytes, list[LogKey]] = {}
        """Logs without a document, by the operations that their first entries follow."""
        self._revision = 0
        self._range: tuple[tuple[int, frozenset[str], str, bytes], SyncRange] | None = None

    def height(self, public_key: bytes, log_id: int) -> int:
        """Return the highest sequence number held; 0 for an unknown log."""
        log = self._logs.get((public_key, log_id))
        return len(log.entries) if log is not None else 0

    def entry_hash(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        """Return the 34-byte hash of an entry; None if it is not held."""
        log = self._logs.get((public_key, log_id))
        if log is None or not 0 < seq_num <= len(log.entries):
            return None
        return log.entries[seq_num - 1].hash

    def log_heights(self, schema_ids: Iterable[str]) -> list[LogHeight]:
        """Return the height of every log of these schemas, sorted by public key and log id."""
        keys = [key for schema in set(schema_ids) for key in self._keys_by_schema.get(schema, ())]
        keys.sort()
        return [(*key, len(self._logs[key].entries)) for key in keys]

    def sync_range(self, schema_ids: Iterable[str], lift: Lift, salt: bytes = b"") -> SyncRange:
        """Return the current heights with the fingerprints of their ranges by this lift."""
        asked = (self._revision, frozenset(schema_ids), lift.name, salt)
        if self._range is None or self._range[0] != asked:
            self._range = (asked, SyncRange(self.log_heights(asked[1]), lift, salt))
        return self._range[1]

    def all_log_heights(self) -> list[LogHeight]:
        """Return the height of every log, sorted by public key and log id."""
        return self.log_heights(self._keys_by_schema)

    def entries(
        self, public_key: bytes, log_id: int, first_seq_num: int, last_seq_num: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entry and operation bytes of a part of a log, in order; ends early if the log does."""
        log = self._logs.get((public_key, log_id))
        if log is not None:
            for checked in log.entries[max(first_seq_num, 1) - 1 : last_seq_num]:
                yield checked.entry_bytes, checked.payload_bytes

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """Return the information about a log; None if none of its entries is held."""
        log = self._logs.get((public_key, log_id))
        return log.info if log is not None else None

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        """Return each log's schema and whether its first entry creates its document; None if unknown."""
        held_logs = map(self._logs.get, logs)
        return [
            None if log is None else (log.info.schema_id, log.info.document_id == log.entries[0].hash)
            for log in held_logs
        ]

    def document_of(self, operation_id: bytes) -> bytes | None:
        """Return the document of an operation; None if either is unknown."""
        return self._documents.get(operation_id)

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """Return the log id under which an author writes to a document; None if it is unknown."""
        return self._log_ids.get((public_key, document_id))

    def append(self, checked: Sequence[CheckedOperation]) -> None:
        """Store entries, each log's in sequence; entries that are held already are skipped."""
        for operation in checked:
            self._append_one(operation)

    def _append_one(self, checked: CheckedOperation) -> None:
        entry = checked.entry
        key = checked.log
        log = self._logs.get(key)
        if log is None:
            assert entry.seq_num == 1, "a log starts with its first entry"
            log = self._logs[key] = _Log(LogInfo(checked.schema_id, None, None))
            self._keys_by_schema.setdefault(checked.schema_id, set()).add(key)
        elif entry.seq_num <= len(log.entries):
            assert log.entries[entry.seq_num - 1].hash == checked.hash, "an entry is never replaced"
            return
        assert entry.seq_num == len(log.entries) + 1, "entries of a log are kept in sequence"
        self._revision += 1
        log.entries.append(checked)
        if entry.end_of_log:
            log.info = LogInfo(log.info.schema_id, log.info.document_id, entry.seq_num)
        if log.info.document_id is not None:
            for waiting in self._assign([checked], log.info.document_id):
                self._settle(waiting, log.info.document_id)
        elif entry.seq_num == 1:
            self._look_for_document(key, checked)

    def _look_for_document(self, key: LogKey, first: CheckedOperation) -> None:
        previous = first.facts.previous
        known = (first.hash,) if previous is None else map(self._documents.get, previous)
        document_id = next(filter(None, known), None)
        if document_id is not None:
            self._settle(key, document_id)
        else:
            for operation_id in previous or ():
                self._waiting.setdefault(operation_id, []).append(key)

    def _settle(self, key: LogKey, document_id: bytes) -> None:
        """Set a log's document, and with it those of the logs that waited for this log's operations."""
        settled = [key]
        while settled:
            key = settled.pop()
            log = self._logs[key]
            if log.info.document_id is None:
                log.info = LogInfo(log.info.schema_id, document_id, log.info.end_of_log)
                self._log_ids.setdefault((key[0], document_id), key[1])
                settled += self._assign(log.entries, document_id)

    def _assign(self, entries: Iterable[CheckedOperation], document_id: bytes) -> list[LogKey]:
        """Assign operations to a document; returns the logs that waited for one of these operations."""
        waited: list[LogKey] = []
        for checked in entries:
            self._documents[checked.hash] = document_id
            waited += self._waiting.pop(checked.hash, ())
        return waited
