"""Logs for the first stage of the job `documents`, and what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from culm_models.bamboo import hash_bytes
from culm_streaming.p2panda_documents.log_documents import LogDocumentsOutput, log_documents_step
from culm_streaming.p2panda_documents.rows import ArrivedRows, LogRows, short_id
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.waiting_logs import AWAITED, LOG_BLOCKS, SEGMENTS, TOTALS
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.records import RejectedRecord, log_key

LAYOUT: Final = DocumentsLayout(blocks=4)
SCHEMA: Final = "venue_v1"
NOW_MS: Final = 1_000


class Log(NamedTuple):
    """A log: its number, the place (log, operation) that its first operation follows, and its operations."""

    number: int
    follows: tuple[int, int] | None
    sizes: tuple[int, ...] = (1,)
    author: int = 0

    @property
    def key(self) -> bytes:
        return log_key(hashlib.sha256(b"author %d" % self.author).digest(), self.number)

    @property
    def operations(self) -> list[bytes]:
        return [operation_id(self.number, at) for at in range(sum(self.sizes))]

    def rows(self) -> list[LogRows]:
        """Return the rows of the log, as many operations in each as `sizes` says."""
        starts_with = operation_id(self.number, 0) if self.follows is None else operation_id(*self.follows)
        rows: list[LogRows] = []
        start = 0
        for size in self.sizes:
            part = self.operations[start : start + size]
            first = b"" if start else starts_with
            creates = not start and self.follows is None
            rows.append(
                LogRows(self.key, SCHEMA, first, creates, b"".join(map(short_id, part)), b"".join(part))
            )
            start += size
        return rows


def operation_id(log: int, at: int) -> bytes:
    return hash_bytes(b"operation %d of log %d" % (at, log))


def chain(length: int) -> list[Log]:
    """The first log creates, each other one follows the last operation of the one before."""
    return [Log(n, (n - 1, 1) if n else None, (2,), author=n) for n in range(length)]


def stray(number: int, author: int | None = None, sizes: tuple[int, ...] = (1,)) -> Log:
    """A log that follows an operation which does not exist."""
    return Log(number, (number, -1), sizes, author=number if author is None else author)


def step(
    store: MemoryState, rows: Iterable[LogRows], layout: DocumentsLayout = LAYOUT, now_ms: int = NOW_MS
) -> LogDocumentsOutput:
    return log_documents_step(store, ArrivedRows(list(rows)), layout, now_ms)


def codes(output: LogDocumentsOutput) -> list[tuple[bytes, str]]:
    return [(row.key, RejectedRecord.decode(row.value).code) for row in output.refused]


def details(output: LogDocumentsOutput) -> list[str]:
    return [RejectedRecord.decode(row.value).detail for row in output.refused]


def state_bytes(store: MemoryState) -> int:
    return sum(len(value) for value in store.values.values())


def waiting_values(store: MemoryState) -> int:
    return sum(len(store.of(variable)) for variable in (TOTALS, LOG_BLOCKS, AWAITED, SEGMENTS))
