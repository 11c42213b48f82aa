"""Which schemas a connector serves, and which of them its index is complete for, or will soon be.

Configured schemas are served from the start. With `*` a connector also serves what its own peers announce,
within what the allow-list lets them, and what its index holds already. A schema that is new to the index is
served (announced) only once its logs have been read back, or are known before that (`promise`), so that a
peer's session finds all of them.

What peers announce is their word, so there is a bound, and within it everyone has a share (`SchemaShares`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable

from culm_connectors.edge.access import EVERYTHING
from culm_connectors.edge.limited_log import LimitedLog
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.p2panda.schema_shares import MAX_SCHEMAS, SchemaShares
from culm_models.p2panda.operations.schema_id import normalise

_LIMITED = LimitedLog(logging.getLogger(__name__))

_COVERED = "covered schemas"


class Interest:
    """The schemas of one connector: those configured, and at most `MAX_SCHEMAS` that its peers announce."""

    def __init__(self, configured: Iterable[str], store: LmdbLogStore) -> None:
        configured = tuple(configured)
        self._store = store
        self.takes_all = EVERYTHING in configured
        self._covered: set[str] = set(covered_schemas(store))
        self._configured = frozenset(configured) - {EVERYTHING}
        self.changed = asyncio.Event()
        """Set when another set of schemas is to be served."""
        # Of what was covered without a log, nobody knows any more who announced it, or whether anybody does.
        with_logs = self._covered.intersection(store.schema_ids()) if self.takes_all else ()
        self._shares = SchemaShares(store.schema_ids, frozenset(with_logs) - self._configured)
        self._promised: set[str] = set()
        if not self._covered <= self._wanted:
            # What is not kept up from now on is not complete when it is wanted again.
            self.cover(())

    @property
    def _wanted(self) -> frozenset[str]:
        return self._configured | self._shares.admitted

    @property
    def served(self) -> tuple[str, ...]:
        """What to announce: wanted, and complete in the index or promised; in the order of a set."""
        return normalise(self._wanted & (self._covered | self._promised))

    @property
    def wanted(self) -> frozenset[str]:
        """What is to be served, now or when it has been read back."""
        return self._wanted

    @property
    def missing(self) -> frozenset[str]:
        """Wanted, but not read back from `logs` yet."""
        return self._wanted - self._covered

    async def announce_served(self, announce: Callable[[tuple[str, ...]], None]) -> None:
        """Announce what is served now, once its sync ranges are in memory, and no other is."""
        served, ranges = self.served, self._store.ranges
        await asyncio.to_thread(ranges.load, served)
        ranges.keep_only(self.wanted)
        announce(served)

    def keeps(self, schema_id: str) -> bool:
        """Whether new entries of a schema belong in the index: it is wanted and complete so far."""
        return schema_id in self._covered and (
            schema_id in self._configured or schema_id in self._shares.admitted
        )

    def want(self, remote: bytes, schema_ids: Iterable[str], now_s: float) -> bool:
        """A peer of ours announces these, and no others; True when what is to be served has changed."""
        if not self.takes_all:
            return False
        named = [schema_id for schema_id in schema_ids if schema_id not in self._configured]
        changed = self._shares.announced(remote, named, now_s)
        turned_away = self._shares.turned_away(remote)
        if turned_away:
            _LIMITED.warning(
                "%d schemas of peer %s are not served: %d are the most, and others have their share",
                turned_away,
                remote.hex()[:16],
                MAX_SCHEMAS,
            )
        return self._changed(changed)

    def gone(self, remote: bytes, now_s: float) -> bool:
        """A peer of ours has left; True when what is to be served has changed."""
        return self._changed(self._shares.left(remote, now_s))

    def pass_time(self, now_s: float) -> bool:
        """Forget what nobody has announced for long; True when what is to be served has changed."""
        return self._changed(self._shares.pass_time(now_s))

    def _changed(self, changed: bool) -> bool:
        if changed:
            if not self._covered <= self._wanted:
                self.cover(())
            self.changed.set()
        return changed

    def promise(self, schema_ids: Iterable[str]) -> None:
        """It is known what `logs` holds of these: they are served while they are being read back."""
        self._promised = (self._promised | set(schema_ids)) & self._wanted

    def cover(self, schema_ids: Iterable[str]) -> None:
        """The index is complete for these from now on, up to the offsets that it holds."""
        self._covered = (self._covered | set(schema_ids)) & self._wanted
        self._promised &= self._wanted
        self._store.set_meta(_COVERED, json.dumps(sorted(self._covered)).encode())


def covered_schemas(store: LmdbLogStore) -> frozenset[str]:
    """The schemas that an index is complete for, up to its offsets."""
    kept = store.meta(_COVERED)
    return frozenset(json.loads(kept)) if kept else frozenset()
