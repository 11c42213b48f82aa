"""Schemas that a connector serves, and those for which its index is complete or soon will be.

Configured schemas are served from the start. With `*` a connector also serves what its own peers announce,
within the limits of the allow-list, and the schemas that its index holds already. A schema that is new to the
index is served (announced) only once its logs have been read back, or once their heights are known
(`announce_expected`), so that a peer's session finds all of them.

The number of announced schemas is limited, because a peer can announce any schema, and the capacity is shared
among the peers (`SchemaShares`). A schema has a place while a peer announces it, and afterwards as long as no
other schema needs the place; a schema without logs loses it after some time. A peer is charged for the
schemas that it was the first to announce. If no place is free, a schema of a peer that is charged for more is
evicted for one of a peer that is charged for less.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

from culm_connectors.edge.access import EVERYTHING
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.rate_limit import LimitedLog
from culm_models.p2panda.operations.identifiers import normalise

MAX_SCHEMAS = 1_024
"""Number of places, which is also the maximum number of schemas in our own announcement (readers ignore an
announcement with more). One place is for `BYTES_A_PLACE` bytes, so that the size is limited as well."""

BYTES_A_PLACE = 256
# A peer chooses these texts; real ones name one or a few operations, of 69 characters each.
MAX_SCHEMA_ID_LENGTH = 4_096
FORGOTTEN_AFTER_S = 600.0


class SchemaShares:
    """Places of schemas, and the peers that announce them. Times are in seconds of any monotonic clock.

    `with_logs` returns the schemas that have logs; `admitted` have places from the start.
    """

    def __init__(self, with_logs: Callable[[], Collection[str]], admitted: Collection[str] = ()) -> None:
        self._with_logs = with_logs
        self._announcers: dict[str, dict[bytes, None]] = {schema_id: {} for schema_id in admitted}
        """For each schema with a place, the peers that announce it; the first is charged for it."""
        self._unannounced_since_s: dict[str, float] = dict.fromkeys(admitted, 0.0)
        self._named: dict[bytes, tuple[str, ...]] = {}
        self._places = sum(map(places, admitted))

    @property
    def admitted(self) -> Set[str]:
        """The schemas that have places: a view that changes as they do."""
        return self._announcers.keys()

    def turned_away(self, remote: bytes) -> int:
        """Return the number of schemas that a peer announces and that have no place."""
        return sum(schema_id not in self._announcers for schema_id in self._named.get(remote, ()))

    def announced(self, remote: bytes, schema_ids: Iterable[str], now_s: float) -> bool:
        """Set the schemas that a peer announces; returns True if the schemas with places have changed."""
        before = frozenset(self._announcers)
        self._withdraw(remote, now_s)
        self._named[remote] = tuple(name for name in schema_ids if len(name) <= MAX_SCHEMA_ID_LENGTH)
        self._admit(remote)
        self._reconsider()
        return self._announcers.keys() != before

    def left(self, remote: bytes, now_s: float) -> bool:
        """Remove a peer's announcement; returns True if the schemas with places have changed."""
        before = frozenset(self._announcers)
        self._withdraw(remote, now_s)
        self._reconsider()
        return self._announcers.keys() != before

    def pass_time(self, now_s: float) -> bool:
        """Forget schemas that have no log and were not announced for long; returns True if there were any."""
        late = [
            schema_id
            for schema_id, since_s in self._unannounced_since_s.items()
            if now_s - since_s >= FORGOTTEN_AFTER_S
        ]
        forgotten = set(late).difference(self._with_logs()) if late else ()
        for schema_id in forgotten:
            self._remove(schema_id)
        return bool(forgotten)

    def _withdraw(self, remote: bytes, now_s: float) -> None:
        for schema_id in self._named.pop(remote, ()):
            announcers = self._announcers.get(schema_id)
            if announcers is not None and remote in announcers:
                del announcers[remote]
                if not announcers:
                    self._unannounced_since_s[schema_id] = now_s

    def _reconsider(self) -> None:
        """Admit schemas that were turned away, if places have become free."""
        for remote in self._named:
            if self._places >= MAX_SCHEMAS and not self._unannounced_since_s:
                return
            if self.turned_away(remote):
                self._admit(remote)

    def _admit(self, remote: bytes) -> None:
        waiting = []
        for schema_id in self._named[remote]:
            announcers = self._announcers.get(schema_id)
            if announcers is None:
                waiting.append(schema_id)
                continue
            announcers[remote] = None
            self._unannounced_since_s.pop(schema_id, None)
        if not waiting:
            return
        charged = self._charged()
        victims = self._victims(remote, charged)
        for schema_id in waiting:
            needed = places(schema_id)
            while self._places + needed > MAX_SCHEMAS:
                victim, left = next(victims, (None, 0))
                if victim is None or left < charged[remote] + needed:
                    return
                self._remove(victim)
            self._announcers[schema_id] = {remote: None}
            self._places += needed
            charged[remote] += needed

    def _charged(self) -> dict[bytes, int]:
        charged = dict.fromkeys(self._named, 0)
        for schema_id, announcers in self._announcers.items():
            payer = next(iter(announcers), None)
            if payer is not None:
                charged[payer] += places(schema_id)
        return charged

    def _victims(self, remote: bytes, charged: Mapping[bytes, int]) -> Iterator[tuple[str, float]]:
        """Yield schemas to evict, in order, each with the places that the peer charged for it has left then.

        First the schemas that nobody announces; then schemas of the peer that is charged for the most places:
        those without logs, with few announcers and announced last.
        """
        with_logs = frozenset(self._with_logs())
        since_s = self._unannounced_since_s
        for schema_id in sorted(since_s, key=lambda name: (name in with_logs, since_s[name])):
            yield schema_id, math.inf
        charges: dict[bytes, list[tuple[bool, int, int, str]]] = {}
        for position, (schema_id, announcers) in enumerate(self._announcers.items()):
            payer = next(iter(announcers), remote)
            if payer != remote:
                charges.setdefault(payer, []).append(
                    (schema_id in with_logs, len(announcers), -position, schema_id)
                )
        for schemas in charges.values():
            schemas.sort(reverse=True)
        payers = [(-charged[payer], payer) for payer in charges]
        heapq.heapify(payers)
        while payers:
            charge, payer = heapq.heappop(payers)
            if not charges[payer]:
                continue
            schema_id = charges[payer].pop()[-1]
            left = -charge - places(schema_id)
            heapq.heappush(payers, (-left, payer))
            yield schema_id, left

    def _remove(self, schema_id: str) -> None:
        del self._announcers[schema_id]
        self._unannounced_since_s.pop(schema_id, None)
        self._places -= places(schema_id)


def places(schema_id: str) -> int:
    """Return the number of places that a schema takes."""
    return 1 + len(schema_id) // BYTES_A_PLACE


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
        # It is unknown which peers announced the covered schemas that have no log.
        with_logs = self._covered.intersection(store.schema_ids()) if self.takes_all else ()
        self._shares = SchemaShares(store.schema_ids, frozenset(with_logs) - self._configured)
        self._expected: set[str] = set()
        if not self._covered <= self._wanted:
            # A schema that is not indexed from now on is not complete when it is wanted again.
            self.mark_complete(())

    @property
    def _wanted(self) -> frozenset[str]:
        return self._configured | self._shares.admitted

    @property
    def served(self) -> tuple[str, ...]:
        """The schemas to announce: wanted, and complete in the index or expected; in the order of a set."""
        return normalise(self._wanted & (self._covered | self._expected))

    @property
    def wanted(self) -> frozenset[str]:
        """The schemas to serve, now or when they have been read back."""
        return self._wanted

    @property
    def missing(self) -> frozenset[str]:
        """The schemas that are wanted, but not read back from `logs` yet."""
        return self._wanted - self._covered

    async def announce_served(self, announce: Callable[[tuple[str, ...]], None]) -> None:
        """Load the sync ranges of the served schemas, drop those of schemas not wanted, then announce."""
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
        """Set the schemas that our peer announces; returns True if the schemas to serve have changed."""
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
        """Remove a peer that has left; returns True if the schemas to serve have changed."""
        return self._changed(self._shares.left(remote, now_s))

    def pass_time(self, now_s: float) -> bool:
        """Forget schemas not announced for long; returns True if the schemas to serve have changed."""
        return self._changed(self._shares.pass_time(now_s))

    def _changed(self, changed: bool) -> bool:
        if changed:
            if not self._covered <= self._wanted:
                self.mark_complete(())
            self.changed.set()
        return changed

    def announce_expected(self, schema_ids: Iterable[str]) -> None:
        """Serve these schemas while they are read back, since their heights on `logs` are known."""
        self._expected = (self._expected | set(schema_ids)) & self._wanted

    def mark_complete(self, schema_ids: Iterable[str]) -> None:
        """Mark the index as complete for these schemas, up to the offsets that it holds."""
        self._covered = (self._covered | set(schema_ids)) & self._wanted
        self._expected &= self._wanted
        self._store.set_meta(_COVERED, json.dumps(sorted(self._covered)).encode())


def covered_schemas(store: LmdbLogStore) -> frozenset[str]:
    """Return the schemas for which an index is complete, up to its offsets."""
    kept = store.meta(_COVERED)
    return frozenset(json.loads(kept)) if kept else frozenset()
