"""Kinds of logs: p2panda's, whose payloads are operations, or bare (reference 4).

A log with YAMF hashes is bare. A log with YASMF hashes is p2panda's if and only if the payload of its first
entry is an operation; until that payload is held, the kind is unknown.
"""

from __future__ import annotations

from enum import Enum

from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.logs.index.documents import ReadFacts
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError


class LogKind(Enum):
    """Kind of a log: its payloads are arbitrary, or p2panda's operations."""

    BARE = "bare"
    OPERATIONS = "operations"
    UNKNOWN = "unknown"


class LogKinds:
    """Kinds of the logs of a folder. `read_facts` parses a payload as an operation, or raises `CulmError`."""

    def __init__(self, store: FolderStore, read_facts: ReadFacts) -> None:
        self._store = store
        self._read_facts = read_facts
        self._known: dict[LogKey, LogKind] = {}

    def of(self, log: LogKey) -> LogKind:
        """Return the kind of a log, or `UNKNOWN` as long as it cannot be determined."""
        if self._store.flavour is YAMF:
            return LogKind.BARE
        kind = self._known.get(log, LogKind.UNKNOWN)
        if kind is LogKind.UNKNOWN and (kind := self._look(log)) is not LogKind.UNKNOWN:
            self._known[log] = kind
        return kind

    def note_schema(self, log: LogKey, schema_id: str) -> None:
        """Set the kind of a log by the schema id in the record of its first entry; empty for a bare log."""
        self._known[log] = LogKind.OPERATIONS if schema_id else LogKind.BARE

    def schema_id(self, payload: bytes) -> str:
        """Return the schema id of an operation. Raises `CulmError` if the payload is not an operation."""
        return self._read_facts(payload).schema_id

    def _look(self, log: LogKey) -> LogKind:
        first = self._store.entry(log, 1)
        if first is None:
            return LogKind.UNKNOWN
        size = first.entry.payload_size
        if size and not self._store.has_payload(log, 1):
            return LogKind.UNKNOWN
        try:
            self._read_facts(self._store.read_payload(log, 1, 0, size))
        except CulmError:
            return LogKind.BARE
        return LogKind.OPERATIONS
