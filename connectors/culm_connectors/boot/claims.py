"""Entries that `logs` is known to hold, by the word of `blocks`, before they are in the index.

A connector that starts shows remotes these heights as its own, since whatever is on `logs` need not be
brought again. What a remote lacks of them is sent as it comes into the index; what a remote brings beyond
them waits until the log has come that far. That ends when the index has read all that was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from culm_connectors.boot.heights import EMPTY, HeightTable, log_column
from culm_connectors.boot.told import Positions, ToldSchema
from culm_connectors.index import LmdbLogStore
from culm_connectors.ranges.columns import order
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.store import LogKey

Listener = Callable[[Collection[LogKey] | None], None]
"""Hears which logs have grown; None: perhaps any."""


class Claims:
    """The heights that are claimed beyond what the index holds, by schema; of one event loop."""

    def __init__(self, store: LmdbLogStore) -> None:
        self._store = store
        self._told: dict[str, ToldSchema] = {}
        self._table = EMPTY
        self._next = asyncio.Event()
        self.listeners: set[Listener] = set()

    @property
    def schema_ids(self) -> frozenset[str]:
        """The schemas that something is claimed of."""
        return frozenset(self._told)

    def told_of(self, schema_ids: Iterable[str]) -> tuple[ToldSchema, ...]:
        """What is claimed of these schemas."""
        return tuple(self._told[name] for name in schema_ids if name in self._told)

    def claim(self, told: Mapping[str, ToldSchema]) -> None:
        """Claim these heights from now on."""
        self._told |= told
        self._join()

    def covered_by(self, positions: Positions) -> tuple[ToldSchema, ...]:
        """The schemas of which all that was told has been read."""
        return tuple(schema for schema in self._told.values() if schema.is_covered_by(positions))

    def beyond(self, ends: Positions) -> tuple[ToldSchema, ...]:
        """The schemas of which something was told that lies behind these ends of `logs`."""
        return tuple(schema for schema in self._told.values() if not schema.is_covered_by(ends))

    def drop(self, schema_ids: Iterable[str]) -> None:
        """Claim nothing more of these: the index speaks for itself."""
        gone = [schema_id for schema_id in schema_ids if schema_id in self._told]
        for schema_id in gone:
            del self._told[schema_id]
        if gone:
            self._join()
            self._tell(None)

    def _join(self) -> None:
        self._table = EMPTY
        for schema in self._told.values():
            self._table = self._table.merged(schema.table)

    @property
    def log_count(self) -> int:
        """How many logs are claimed."""
        return len(self._table)

    def height(self, public_key: bytes, log_id: int) -> int:
        """The claimed height of a log, 0 where nothing is claimed of it."""
        if not self._told:
            return 0
        return int(self._table.of(log_column([_key((public_key, log_id))]))[0])

    def heights(self, logs: Sequence[LogKey]) -> list[int]:
        """The claimed heights of several logs."""
        if not self._told:
            return [0] * len(logs)
        heights: list[int] = self._table.of(log_column(_key(log) for log in logs)).tolist()
        return heights

    def schema_of(self, public_key: bytes, log_id: int) -> str | None:
        """The schema of a claimed log."""
        column = log_column([_key((public_key, log_id))])
        for schema_id, schema in self._told.items():
            if schema.table.of(column)[0]:
                return schema_id
        return None

    # What waits for entries on their way.

    @property
    def anything(self) -> bool:
        """Whether anything is claimed."""
        return bool(self._told)

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        """Whether an entry is claimed and not held yet."""
        return bool(self._told) and self._store.height(*log) < seq_num <= self.height(*log)

    def awaits_before(self, log: LogKey, seq_num: int) -> bool:
        """Whether entries are claimed and not held yet that come before this one in its log."""
        if not self._told:
            return False
        return self._store.height(*log) < min(seq_num - 1, self.height(*log))

    async def arrival(self) -> None:
        """Wait until some log has grown, or less is claimed."""
        await self._next.wait()

    def arrived(self, stored: Sequence[CheckedEntry]) -> Sequence[CheckedEntry]:
        """These have come into the index from `logs`; returns those that were not claimed before.

        The others have been part of every session's plan from its beginning.
        """
        if not self._told:
            return stored
        logs = [checked.log for checked in stored]
        claimed = self.heights(logs)
        # Even of nothing: what is waited for may have come by another way.
        self._tell(set(logs))
        return [one for one, height in zip(stored, claimed, strict=True) if one.entry.seq_num > height]

    def _tell(self, logs: Collection[LogKey] | None) -> None:
        self._next.set()
        self._next = asyncio.Event()
        for listener in tuple(self.listeners):
            listener(logs)


def _key(log: LogKey) -> bytes:
    return log[0] + log[1].to_bytes(8, "big")


def table_of(store: LmdbLogStore, schema_id: str) -> HeightTable:
    """The heights that an index holds of a schema, whatever is claimed beyond them; any thread.

    Raises IndexDamaged.
    """
    keys, heights = store.read_heights(schema_id)
    return HeightTable(order(keys), heights)
