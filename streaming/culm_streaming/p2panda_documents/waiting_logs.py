"""Logs whose document is not known yet: what they wait for, and the rows that arrived so far.

A log waits for one operation, the one that its first operation follows. It is found by that operation
(`waiting_for`) and by its key, and it is released when the operation belongs to a document.

Anyone can send logs that follow operations which do not exist, each by a new author. So a limit never refuses
the log that has just arrived. It costs the log that has waited longest: the author's for the limit of an
author, otherwise of all. An honest log therefore waits at least until `max_waiting_logs` other logs, or
`max_waiting_bytes` of rows, arrived after it. Rows that are too many for their log are refused themselves.

The state, which is empty while nothing waits:
- totals: numbers, the oldest log of each block, and the number of awaited operations of each block;
- blocks of logs, by author: their metadata, oldest first;
- blocks of awaited operations: the logs that wait for each;
- segments: rows, in the order of arrival. Those of many logs share a value, since calls are what state costs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2

from culm_streaming.errors import LogUnknownError, StateMissingError, StreamingError, WaitingLogsFullError
from culm_streaming.p2panda_documents.rows import SHORT_ID_SIZE, LogRows, RejectedRow
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import JobState, Variable, check_format, place_of
from culm_topics.records import PUBLIC_KEY_SIZE, rejection

BLOCKS: Final = 256
"""Number of blocks of logs and of blocks of awaited operations, fixed for the life of a checkpoint."""
SEGMENT_BYTES: Final = 65_536
"""Size from which a segment receives no further rows."""
_FORMAT: Final = 1


def state_part(prefix: bytes) -> Variable[bytes]:
    """Return a part of the first stage's state, which is one variable of Spark's with a prefix per part."""
    return Variable("log_documents", "part binary", prefix=prefix)


TOTALS, LOG_BLOCKS, AWAITED, SEGMENTS = map(state_part, (b"t", b"b", b"a", b"s"))


@dataclass(slots=True)
class _WaitingLog:
    """`pieces` are pairs of a segment and a row's number in it. `number` is its place in the order."""

    number: int
    size_bytes: int
    awaited: bytes
    pieces: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _LogBlock:
    """Waiting logs by key, oldest first, and the keys of each author."""

    logs: dict[bytes, _WaitingLog] = field(default_factory=dict)
    authors: dict[bytes, dict[bytes, None]] = field(default_factory=dict)

    def add(self, key: bytes, log: _WaitingLog) -> None:
        self.logs[key] = log
        self.authors.setdefault(key[:PUBLIC_KEY_SIZE], {})[key] = None

    def remove(self, key: bytes) -> _WaitingLog:
        keys = self.authors[key[:PUBLIC_KEY_SIZE]]
        del keys[key]
        if not keys:
            del self.authors[key[:PUBLIC_KEY_SIZE]]
        return self.logs.pop(key)

    def oldest(self) -> int | None:
        return next((log.number for log in self.logs.values()), None)


class WaitingLogs:
    """The waiting logs during a micro-batch. `refused` are records of `rejected`; `save` stores the changes.

    `count` is the number of logs, `size_bytes` the size of their rows.
    """

    def __init__(self, store: JobState, layout: DocumentsLayout, now_ms: int) -> None:
        self.refused: list[RejectedRow] = []
        self.count = self.size_bytes = 0
        self._store, self._layout, self._now_ms = store, layout, now_ms
        self._since_ms = self._next_log = self._next_row = 0
        self._oldest: list[int | None] = [None] * BLOCKS
        self._awaited_counts = [0] * BLOCKS
        self._heap: list[tuple[int, int]] | None = None
        """(oldest number, block), once a log must go; the numbers may be outdated."""
        self._log_blocks: dict[int, _LogBlock] = {}
        self._awaited: dict[int, dict[bytes, dict[bytes, None]]] = {}
        self._segments: dict[int, dict[int, bytes]] = {}
        self._changed_logs: set[int] = set()
        self._changed_awaited: set[int] = set()
        self._changed_segments: set[int] = set()
        self._open_segment, self._open_bytes = -1, SEGMENT_BYTES
        self._totals = store.load(TOTALS, b"")
        if self._totals is not None:
            form, *totals = cbor2.loads(self._totals)
            check_format("the totals of waiting logs", form, _FORMAT)
            self.count, self.size_bytes, self._since_ms, self._next_log, self._next_row = totals[:5]
            self._oldest, self._awaited_counts = totals[5:]
        self._had_logs = self.count > 0

    def progress(self) -> Waiting | None:
        """Return the number of waiting logs; None if none waits and none waited before."""
        return Waiting(self.count, self._since_ms) if self.count or self._had_logs else None

    def __contains__(self, key: bytes) -> bool:
        """Whether the log with this key waits."""
        return bool(self.count) and key in self._log_block(_block_of(key)).logs

    def awaited_in(self, blocks: Iterable[int]) -> list[bytes]:
        """Return the short ids of awaited operations, of these of the `BLOCKS` blocks of `Keys.blocks`."""
        return [operation for block in blocks for operation in self._awaited_block(block)]

    def waiting_for(self, operation: bytes) -> list[bytes]:
        """Return the keys of the logs that wait for an operation, by its short id."""
        return list(self._awaited_block(awaited_block_of(operation)).get(operation, ()))

    def release(self, key: bytes) -> list[LogRows]:
        """Remove a waiting log. Returns its rows in the order of arrival."""
        log = self._remove(key)
        return [LogRows._make(cbor2.loads(packed)) for packed in self._take_pieces(log)]

    def hold(self, row: LogRows, awaited: bytes) -> None:
        """Keep a row until the document of its log is known, or refuse it.

        `awaited` is the short id of the operation that the log waits for; empty for rows of a log that did
        not start in this micro-batch.
        """
        layout, key = self._layout, row.log
        block = self._log_block(_block_of(key))
        log = block.logs.get(key)
        if log is None and not awaited:
            self._refuse(key, LogUnknownError("no document is known for this log, and its start is not held"))
            return
        packed = cbor2.dumps(row)
        size = len(packed)
        log_size = size + (log.size_bytes if log else 0)
        for limit in ("max_waiting_bytes_per_log", "max_waiting_bytes"):
            if log_size > getattr(layout, limit):
                self._refuse(key, _full("too many bytes of this log wait for its document", limit))
                return
        if log is None:
            author = key[:PUBLIC_KEY_SIZE]
            while len(keys := block.authors.get(author, {})) >= layout.max_waiting_logs_per_author:
                self._evict(next(iter(keys)), "max_waiting_logs_per_author")
            while self.count >= layout.max_waiting_logs:
                self._evict(self._oldest_log(), "max_waiting_logs")
            log = self._begin(key, awaited)
        while self.size_bytes + size > layout.max_waiting_bytes:
            oldest = self._oldest_log()
            self._evict(oldest, "max_waiting_bytes")
            if oldest == key:
                return
        log.pieces.append(self._add_piece(packed))
        log.size_bytes += size
        self.size_bytes += size
        self._changed_logs.add(_block_of(key))

    def save(self) -> None:
        """Store the changes."""
        for number in sorted(self._changed_logs):
            kept = {
                key: (log.number, log.size_bytes, log.awaited, log.pieces)
                for key, log in self._log_blocks[number].logs.items()
            }
            self._save(LOG_BLOCKS, number, kept)
        for number in sorted(self._changed_awaited):
            self._save(AWAITED, number, {op: list(keys) for op, keys in self._awaited[number].items()})
        for number in sorted(self._changed_segments):
            self._save(SEGMENTS, number, self._segments[number])
        for changed in (self._changed_logs, self._changed_awaited, self._changed_segments):
            changed.clear()
        totals = self._encode_totals()
        if totals != self._totals:
            self._store.save(TOTALS, b"", totals)
            self._totals = totals

    def _begin(self, key: bytes, awaited: bytes) -> _WaitingLog:
        number, log = _block_of(key), _WaitingLog(self._next_log, 0, awaited)
        self._next_log += 1
        block = self._log_block(number)
        if not block.logs:
            self._oldest[number] = log.number
            if self._heap is not None:
                heapq.heappush(self._heap, (log.number, number))
        block.add(key, log)
        awaited_number = awaited_block_of(awaited)
        awaited_block = self._awaited_block(awaited_number)
        awaited_block.setdefault(awaited, {})[key] = None
        self._awaited_counts[awaited_number] = len(awaited_block)
        self._changed_logs.add(number)
        self._changed_awaited.add(awaited_number)
        if not self.count:
            self._since_ms = self._now_ms
        self.count += 1
        return log

    def _remove(self, key: bytes) -> _WaitingLog:
        number = _block_of(key)
        block = self._log_block(number)
        log = block.remove(key)
        self._oldest[number] = block.oldest()
        awaited_number = awaited_block_of(log.awaited)
        awaited_block = self._awaited_block(awaited_number)
        del awaited_block[log.awaited][key]
        if not awaited_block[log.awaited]:
            del awaited_block[log.awaited]
        self._awaited_counts[awaited_number] = len(awaited_block)
        self._changed_logs.add(number)
        self._changed_awaited.add(awaited_number)
        self.count -= 1
        self.size_bytes -= log.size_bytes
        if not self.count:
            self._since_ms = 0
        return log

    def _oldest_log(self) -> bytes:
        """Return the key of the log that has waited longest."""
        if self._heap is None:
            self._heap = [(number, block) for block, number in enumerate(self._oldest) if number is not None]
            heapq.heapify(self._heap)
        while self._heap[0][0] != (number := self._oldest[self._heap[0][1]]):
            block = heapq.heappop(self._heap)[1]
            if number is not None:
                heapq.heappush(self._heap, (number, block))
        return next(iter(self._log_block(self._heap[0][1]).logs))

    def _evict(self, key: bytes, limit: str) -> None:
        self._take_pieces(self._remove(key))
        self._refuse(key, _full("this log waited longest for its document", limit))

    def _refuse(self, key: bytes, error: StreamingError) -> None:
        self.refused.append(RejectedRow(key, rejection(error.code, str(error)).encode()))

    def _add_piece(self, packed: bytes) -> tuple[int, int]:
        number = self._next_row
        self._next_row += 1
        if self._open_bytes >= SEGMENT_BYTES:
            self._open_segment, self._open_bytes = number, 0
        self._segments.setdefault(self._open_segment, {})[number] = packed
        self._changed_segments.add(self._open_segment)
        self._open_bytes += len(packed)
        return self._open_segment, number

    def _take_pieces(self, log: _WaitingLog) -> list[bytes]:
        packed: list[bytes] = []
        for segment, number in log.pieces:
            rows = self._segments.get(segment)
            if rows is None:
                rows = self._segments[segment] = self._load(SEGMENTS, segment)
            if number not in rows:
                raise StateMissingError("rows of a waiting log are missing")
            self._changed_segments.add(segment)
            packed.append(rows.pop(number))
        return packed

    def _log_block(self, number: int) -> _LogBlock:
        block = self._log_blocks.get(number)
        if block is None:
            block = self._log_blocks[number] = _LogBlock()
            if self._oldest[number] is not None:
                for key, (order, size, awaited, pieces) in self._load(LOG_BLOCKS, number).items():
                    block.add(key, _WaitingLog(order, size, awaited, list(map(tuple, pieces))))
        return block

    def _awaited_block(self, number: int) -> dict[bytes, dict[bytes, None]]:
        block = self._awaited.get(number)
        if block is None:
            stored = self._load(AWAITED, number) if self._awaited_counts[number] else {}
            block = self._awaited[number] = {op: dict.fromkeys(keys) for op, keys in stored.items()}
        return block

    def _load(self, variable: Variable[bytes], number: int) -> dict[Any, Any]:
        blob = self._store.load(variable, number.to_bytes(8))
        if blob is None:
            raise StateMissingError("a part of the state of waiting logs is missing")
        form, kept = cbor2.loads(blob)
        check_format("a part of the state of waiting logs", form, _FORMAT)
        assert isinstance(kept, dict)
        return kept

    def _save(self, variable: Variable[bytes], number: int, kept: object) -> None:
        self._store.save(variable, number.to_bytes(8), cbor2.dumps((_FORMAT, kept)) if kept else None)

    def _encode_totals(self) -> bytes | None:
        if not self.count:
            return None
        numbers = (self.count, self.size_bytes, self._since_ms, self._next_log, self._next_row)
        return cbor2.dumps((_FORMAT, *numbers, self._oldest, self._awaited_counts))


def _full(what: str, limit: str) -> WaitingLogsFullError:
    return WaitingLogsFullError(f"{what}: {limit} is reached")


def _block_of(key: bytes) -> int:
    return place_of(key[:PUBLIC_KEY_SIZE], 1, BLOCKS)[1]


def awaited_block_of(operation: bytes) -> int:
    """Return what `Keys.blocks` returns for `BLOCKS` blocks."""
    return operation[SHORT_ID_SIZE - 1]
