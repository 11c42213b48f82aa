"""Watched ids: a change wakes the readers of the ids that it concerns.

The published state of an id changes with data that comes into its space, and with each CID that it is
missing: these are the keys of an id. A change names keys, and wakes the watchers of every id that has one of
them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from culm_connectors.dag.store.outcomes import PublishedDag

ANYTHING: Final = b""
"""Key of a change that may concern every id; an id with very many missing CIDs has it, too."""
_KEYS_MAX: Final = 4_096


@dataclass(slots=True)
class _Watch:
    """A watched id; its keys are those from when it was last read."""

    version: int
    watchers: int = 0
    keys: set[bytes] = field(default_factory=lambda: {ANYTHING})
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class Watches:
    """All watched ids. Call `read` in the folder's thread, the other methods in the event loop's."""

    def __init__(self) -> None:
        self._version = 0
        self._lock = threading.Lock()
        self._watched: dict[bytes, _Watch] = {}
        self._by_key: dict[bytes, set[bytes]] = {}

    def version(self, id: bytes) -> int:
        """Return a number that changes whenever the published state of an id may have changed."""
        watch = self._watched.get(id)
        return self._version if watch is None else watch.version

    @contextmanager
    def watching(self, id: bytes) -> Iterator[None]:
        """Watch an id while the context lasts."""
        with self._lock:
            watch = self._watched.get(id)
            if watch is None:
                watch = self._watched[id] = _Watch(self._version)
                self._index(id, watch.keys)
            watch.watchers += 1
        try:
            yield
        finally:
            with self._lock:
                watch.watchers -= 1
                if not watch.watchers:
                    self._unindex(id, watch.keys)
                    del self._watched[id]

    def read(self, published: PublishedDag) -> None:
        """Record the published state of an id as read; the folder's later changes are announced after it."""
        id = published.id
        with self._lock:
            watch = self._watched.get(id)
            if watch is None:
                return
            self._unindex(id, watch.keys)
            watch.keys = {id, *(cid.raw for cid in published.missing)}
            if len(watch.keys) > _KEYS_MAX:
                watch.keys = {ANYTHING}
            self._index(id, watch.keys)

    def announce(self, keys: Collection[bytes]) -> None:
        """Announce a change: wake the watchers of the ids that it concerns."""
        with self._lock:
            self._version += 1
            if ANYTHING in keys:
                ids = set(self._watched)
            else:
                ids = set().union(*(self._by_key.get(key, ()) for key in (ANYTHING, *keys)))
            for id in ids:
                watch = self._watched[id]
                watch.version = self._version
                watch.moved.set()
                watch.moved = asyncio.Event()

    async def changed(self, id: bytes, since: int) -> int:
        """Wait until the `version` of a watched id differs from `since`; returns the new version."""
        watch = self._watched[id]
        while watch.version == since:
            await watch.moved.wait()
        return watch.version

    def _index(self, id: bytes, keys: set[bytes]) -> None:
        for key in keys:
            self._by_key.setdefault(key, set()).add(id)

    def _unindex(self, id: bytes, keys: set[bytes]) -> None:
        for key in keys:
            ids = self._by_key[key]
            ids.discard(id)
            if not ids:
                del self._by_key[key]
