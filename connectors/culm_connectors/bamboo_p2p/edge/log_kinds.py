"""Whether a log is p2panda's, whose payloads are operations, or bare (reference 4).

A log of YAMF hashes is bare. One of YASMF hashes is p2panda's if and only if the payload of its first entry
is an operation; until that is held, it cannot be told.
"""

from __future__ import annotations

from enum import Enum

from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.logs.index.documents import ReadFacts
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError


class LogKind(Enum):
    """Whose rules the payloads of a log follow."""

    BARE = "bare"
    OPERATIONS = "operations"
    UNKNOWN = "unknown"


class LogKinds:
    """The kinds of the logs of a folder. `read_facts` reads a payload as an operation, or raises."""

    def __init__(self, store: FolderStore, read_facts: ReadFacts) -> None:
        self._store = store
        self._read_facts = read_facts
        self._known: dict[LogKey, LogKind] = {}

    def of(self, log: LogKey) -> LogKind:
        """The kind of a log, as far as it can be told by now."""
        if self._store.flavour is YAMF:
            return LogKind.BARE
        found = self._known.get(log, LogKind.UNKNOWN)
        if found is LogKind.UNKNOWN and (found := self._look(log)) is not LogKind.UNKNOWN:
            self._known[log] = found
        return found

    def note_schema(self, log: LogKey, schema_id: str) -> None:
        """A topic tells the kind of a log, by the schema in an entry's record."""
        self._known[log] = LogKind.OPERATIONS if schema_id else LogKind.BARE

    def schema_id(self, payload: bytes) -> str:
        """The schema of an operation. Raises `CulmError` where it is none."""
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
