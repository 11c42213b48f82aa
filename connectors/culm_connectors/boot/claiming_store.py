"""The index as remotes see it while a connector starts: its own logs, and those that are claimed (`claims`).

Heights and the sync range, which are shown to remotes, count what is claimed; whatever is asked about
entries themselves is answered from the index alone, since nothing else can be checked or sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from culm_connectors.boot.claims import Claims
from culm_connectors.index import LmdbLogStore
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.messages import LogHeight
from culm_models.p2panda.store import LogInfo, LogKey, LogKind


class ClaimingStore:
    """A `LogStore` over an index and what is claimed beyond it; without claims, the index itself."""

    def __init__(self, index: LmdbLogStore, claims: Claims) -> None:
        self._index = index
        self._claims = claims
        # Asked for every entry: nothing stands between.
        self.height = index.height
        self.entry_hash = index.entry_hash
        self.entries = index.entries
        self.document_of = index.document_of
        self.log_of = index.log_of
        # Shows what is claimed by itself: `Boot` raises the heights in it.
        self.sync_range = index.sync_range

    def log_heights(self, schema_ids: Iterable[str]) -> Iterator[LogHeight]:
        """The height of every log of the schemas, held or claimed, sorted by public key and log id."""
        names = tuple(schema_ids)
        held = self._index.log_heights(names)
        told = self._claims.told_of(names)
        if not told:
            return iter(held)
        return _highest(heapq.merge(held, *(schema.table for schema in told)))

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """What is known of a log, held or claimed."""
        info = self._index.log_info(public_key, log_id)
        if info is None and (schema_id := self._claims.schema_of(public_key, log_id)) is not None:
            return LogInfo(schema_id, None, None)
        return info

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        """The kinds of logs, held or claimed."""
        return [
            kind or ((schema_id, False) if (schema_id := self._claims.schema_of(*log)) else None)
            for log, kind in zip(logs, self._index.log_kinds(logs), strict=True)
        ]

    def append(self, checked: Sequence[CheckedEntry]) -> None:
        """Keep entries in the index."""
        self._index.append(checked)


def _highest(sorted_heights: Iterable[LogHeight]) -> Iterator[LogHeight]:
    """Of a log's heights, which stand together in rising order, the last."""
    last: LogHeight | None = None
    for row in sorted_heights:
        if last is not None and last[:2] != row[:2]:
            yield last
        last = row
    if last is not None:
        yield last
