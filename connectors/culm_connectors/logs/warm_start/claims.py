"""Entries that `logs` is known to hold, by the word of `blocks`, before they are in the index.

A connector that starts shows remotes these heights as its own, since whatever is on `logs` need not be
brought again. What a remote lacks of them is sent as it comes into the index; what a remote brings beyond
them waits until the log has come that far. That ends when the index has read all that was claimed.
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

LogHeight = tuple[bytes, int, int]
"""Public key, log id and height of a log."""

Listener = Callable[[Collection[LogKey] | None], None]
"""Is given the logs that have grown; None: perhaps any."""


class Claims:
    """The heights that are claimed beyond what the index holds, by schema; of one event loop."""

    def __init__(self, held: Callable[[bytes, int], int]) -> None:
        """`held` gives the height of a log in the index."""
        self._held = held
        self._claimed: dict[str, SchemaHeights] = {}
        self._table = EMPTY
        self._next = asyncio.Event()
        self.listeners: set[Listener] = set()

    @property
    def schema_ids(self) -> frozenset[str]:
        """The schemas that something is claimed of."""
        return frozenset(self._claimed)

    def of_schemas(self, schema_ids: Iterable[str]) -> tuple[SchemaHeights, ...]:
        """What is claimed of these schemas."""
        return tuple(self._claimed[name] for name in schema_ids if name in self._claimed)

    def claim(self, claimed: Mapping[str, SchemaHeights]) -> None:
        """Claim these heights from now on."""
        self._claimed |= claimed
        self._join()

    def covered_by(self, positions: Positions) -> tuple[SchemaHeights, ...]:
        """The schemas of which all that is claimed has been read."""
        return tuple(schema for schema in self._claimed.values() if schema.is_covered_by(positions))

    def beyond(self, ends: Positions) -> tuple[SchemaHeights, ...]:
        """The schemas of which something is claimed that lies behind these ends of `logs`."""
        return tuple(schema for schema in self._claimed.values() if not schema.is_covered_by(ends))

    def drop(self, schema_ids: Iterable[str]) -> None:
        """Claim nothing more of these: the index speaks for itself."""
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
        """How many logs are claimed."""
        return len(self._table)

    def height(self, public_key: bytes, log_id: int) -> int:
        """The claimed height of a log, 0 where nothing is claimed of it."""
        if not self._claimed:
            return 0
        return int(self._table.of(log_column([_key((public_key, log_id))]))[0])

    def heights(self, logs: Sequence[LogKey]) -> list[int]:
        """The claimed heights of several logs."""
        if not self._claimed:
            return [0] * len(logs)
        heights: list[int] = self._table.of(log_column(_key(log) for log in logs)).tolist()
        return heights

    def schema_of(self, public_key: bytes, log_id: int) -> str | None:
        """The schema of a claimed log."""
        column = log_column([_key((public_key, log_id))])
        for schema_id, schema in self._claimed.items():
            if schema.table.of(column)[0]:
                return schema_id
        return None

    # What waits for entries on their way.

    @property
    def anything(self) -> bool:
        """Whether anything is claimed."""
        return bool(self._claimed)

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        """Whether an entry is claimed and not held yet."""
        return bool(self._claimed) and self._held(*log) < seq_num <= self.height(*log)

    def awaits_before(self, log: LogKey, seq_num: int) -> bool:
        """Whether entries are claimed and not held yet that come before this one in its log."""
        if not self._claimed:
            return False
        return self._held(*log) < min(seq_num - 1, self.height(*log))

    async def arrival(self) -> None:
        """Wait until some log has grown, or less is claimed."""
        await self._next.wait()

    def arrived(self, stored: Sequence[SoundEntry]) -> Sequence[SoundEntry]:
        """These have come into the index from `logs`; returns those that were not claimed before.

        The others have been part of every session's plan from its beginning.
        """
        if not self._claimed:
            return stored
        logs = [checked.log for checked in stored]
        claimed = self.heights(logs)
        # Even of nothing: what is waited for may have come by another way.
        self._notify(set(logs))
        return [one for one, height in zip(stored, claimed, strict=True) if one.entry.seq_num > height]

    def _notify(self, logs: Collection[LogKey] | None) -> None:
        self._next.set()
        self._next = asyncio.Event()
        for listener in tuple(self.listeners):
            listener(logs)


class ClaimingStore:
    """The index as remotes see it while a connector starts; without claims, the index itself.

    Heights and the sync range, which are shown to remotes, count what is claimed; whatever is asked about
    entries themselves is answered from the index alone, since nothing else can be checked or sent.
    """

    def __init__(self, index: LmdbLogStore, claims: Claims) -> None:
        self._index = index
        self._claims = claims
        # Asked for every entry: nothing stands between.
        self.height = index.height
        self.entry_hash = index.entry_hash
        self.entries = index.entries
        self.document_of = index.document_of
        self.log_of = index.log_of
        # Shows what is claimed by itself: `WarmStart` raises the heights in it.
        self.sync_range = index.sync_range

    def log_heights(self, schema_ids: Iterable[str]) -> Iterator[LogHeight]:
        """The height of every log of the schemas, held or claimed, sorted by public key and log id."""
        names = tuple(schema_ids)
        held = self._index.log_heights(names)
        claimed = self._claims.of_schemas(names)
        if not claimed:
            return iter(held)
        return _highest(heapq.merge(held, *(schema.table for schema in claimed)))

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

    def append(self, checked: Sequence[SoundEntry]) -> None:
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


def _key(log: LogKey) -> bytes:
    return log[0] + log[1].to_bytes(8, "big")


def table_of(store: LmdbLogStore, schema_id: str) -> HeightTable:
    """The heights that an index holds of a schema, whatever is claimed beyond them; any thread.

    Raises IndexDamaged.
    """
    keys, heights = store.read_heights(schema_id)
    return HeightTable(order(keys), heights)
