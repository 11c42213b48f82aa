"""HeightClaims: entries that `logs` holds according to `blocks`, before they are in the index.

A connector that starts shows remotes these heights as its own, since entries on `logs` need not be sent
again. Claimed entries that a remote is missing are sent as they reach the index. Entries that a remote
sends beyond the claims wait until the log has grown that far. Claims end when the index has read all of
them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.ranges.columns import order
from culm_connectors.logs.warm_start.block_heights import Positions, SchemaHeights
from culm_connectors.logs.warm_start.heights import EMPTY, HeightTable, log_column
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogInfo, LogKey, LogKind
from culm_topics.records import log_key

LogHeight = tuple[bytes, int, int]
"""Public key, log id and height of a log."""

Listener = Callable[[Collection[LogKey] | None], None]
"""Receives the logs that have grown, or None if any log may have changed."""


class HeightClaims:
    """Heights claimed beyond the held entries of the index, by schema. Belongs to one event loop."""

    def __init__(self, held_height: Callable[[bytes, int], int]) -> None:
        """Take `held_height`, which returns the height of a log in the index."""
        self._held = held_height
        self._claimed: dict[str, SchemaHeights] = {}
        self._table = EMPTY
        self._next = asyncio.Event()
        self.listeners: set[Listener] = set()

    @property
    def schema_ids(self) -> frozenset[str]:
        """Schemas that have claims."""
        return frozenset(self._claimed)

    def of_schemas(self, schema_ids: Iterable[str]) -> tuple[SchemaHeights, ...]:
        """Returns the claims of these schemas."""
        return tuple(self._claimed[name] for name in schema_ids if name in self._claimed)

    def claim(self, claimed: Mapping[str, SchemaHeights]) -> None:
        """Claim these heights from now on."""
        self._claimed |= claimed
        self._join()

    def covered_by(self, positions: Positions) -> tuple[SchemaHeights, ...]:
        """Returns the schemas whose claims have all been read at these positions."""
        return tuple(schema for schema in self._claimed.values() if schema.is_covered_by(positions))

    def beyond(self, ends: Positions) -> tuple[SchemaHeights, ...]:
        """Returns the schemas with claims beyond these ends of `logs`."""
        return tuple(schema for schema in self._claimed.values() if not schema.is_covered_by(ends))

    def drop(self, schema_ids: Iterable[str]) -> None:
        """Drop the claims of these schemas, which the index now serves alone."""
        gone = [schema_id for schema_id in schema_ids if schema_id in self._claimed]
        for schema_id in gone:
            del self._claimed[schema_id]
        if gone:
            self._join()
            self._notify(None)

    def _join(self) -> None:
        self._table = EMPTY
        for schema in self._claimed.values():
            self._table = self._table.merged(schema.table)

    @property
    def log_count(self) -> int:
        """Number of logs with claims."""
        return len(self._table)

    def height(self, public_key: bytes, log_id: int) -> int:
        """Returns the claimed height of a log, 0 if it has no claim."""
        if not self._claimed:
            return 0
        return int(self._table.of(log_column([log_key(public_key, log_id)]))[0])

    def heights(self, logs: Sequence[LogKey]) -> list[int]:
        """Returns the claimed heights of several logs, 0 for a log without a claim."""
        if not self._claimed:
            return [0] * len(logs)
        heights: list[int] = self._table.of(log_column(log_key(*log) for log in logs)).tolist()
        return heights

    def schema_of(self, public_key: bytes, log_id: int) -> str | None:
        """Returns the schema of a claimed log, None if it has no claim."""
        column = log_column([log_key(public_key, log_id)])
        for schema_id, schema in self._claimed.items():
            if schema.table.of(column)[0]:
                return schema_id
        return None

    # Waiting for claimed entries.

    @property
    def anything(self) -> bool:
        """Whether there are claims."""
        return bool(self._claimed)

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        """Whether an entry is claimed but not held yet."""
        return bool(self._claimed) and self._held(*log) < seq_num <= self.height(*log)

    def awaits_before(self, log: LogKey, seq_num: int) -> bool:
        """Whether earlier entries of the same log are claimed but not held yet."""
        if not self._claimed:
            return False
        return self._held(*log) < min(seq_num - 1, self.height(*log))

    async def arrival(self) -> None:
        """Wait until a log has grown or claims were dropped."""
        await self._next.wait()

    def arrived(self, stored: Sequence[SoundEntry]) -> Sequence[SoundEntry]:
        """Note entries that reached the index from `logs`. Returns those that were not claimed.

        Claimed entries have been part of every session's plan from its beginning.
        """
        if not self._claimed:
            return stored
        logs = [checked.log for checked in stored]
        claimed = self.heights(logs)
        # Also without entries: the awaited entry may have arrived by another way.
        self._notify(set(logs))
        return [entry for entry, height in zip(stored, claimed, strict=True) if entry.entry.seq_num > height]

    def _notify(self, logs: Collection[LogKey] | None) -> None:
        self._next.set()
        self._next = asyncio.Event()
        for listener in tuple(self.listeners):
            listener(logs)


class ClaimingStore:
    """The index as remotes see it while a connector starts; without claims, the index itself.

    Heights and the sync range, which are shown to remotes, include claims. Queries for entries are answered
    from the index alone, since only held entries can be checked or sent.
    """

    def __init__(self, index: LmdbLogStore, claims: HeightClaims) -> None:
        self._index = index
        self._claims = claims
        # Called for every entry, so without a wrapper.
        self.height = index.height
        self.entry_hash = index.entry_hash
        self.entries = index.entries
        self.document_of = index.document_of
        self.log_of = index.log_of
        # Includes the claims: `WarmStart` raises the heights in it.
        self.sync_range = index.sync_range

    def log_heights(self, schema_ids: Iterable[str]) -> Iterator[LogHeight]:
        """Iterate the height of every log of the schemas, held or claimed, by public key and log id."""
        names = tuple(schema_ids)
        index_heights = self._index.log_heights(names)
        claimed = self._claims.of_schemas(names)
        if not claimed:
            return iter(index_heights)
        return _highest(heapq.merge(index_heights, *(schema.table for schema in claimed)))

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        """Returns the properties of a log, held or claimed; None if unknown."""
        info = self._index.log_info(public_key, log_id)
        if info is None and (schema_id := self._claims.schema_of(public_key, log_id)) is not None:
            return LogInfo(schema_id, None, None)
        return info

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        """Returns the kinds of logs, held or claimed; None if unknown."""
        return [
            kind or ((schema_id, False) if (schema_id := self._claims.schema_of(*log)) else None)
            for log, kind in zip(logs, self._index.log_kinds(logs), strict=True)
        ]

    def append(self, checked: Sequence[SoundEntry]) -> None:
        """Store entries in the index."""
        self._index.append(checked)


def _highest(sorted_heights: Iterable[LogHeight]) -> Iterator[LogHeight]:
    """Iterate the highest height of each log; the heights of a log are adjacent and ascending."""
    last: LogHeight | None = None
    for row in sorted_heights:
        if last is not None and last[:2] != row[:2]:
            yield last
        last = row
    if last is not None:
        yield last


def table_of(store: LmdbLogStore, schema_id: str) -> HeightTable:
    """Returns the heights that an index holds of a schema, without claims; any thread.

    Raises `IndexDamaged`.
    """
    keys, heights = store.read_heights(schema_id)
    return HeightTable(order(keys), heights)
