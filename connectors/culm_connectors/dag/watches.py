"""Ids whose order and states somebody waits for, and who is woken by a change: those whom it concerns.

What is published under an id changes with what comes into its space, and with each CID that it lacks: these
are the keys of an id. A change names keys, and wakes whoever watches an id that has one of them.
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
"""The key of a change that may concern every id; an id that lacks very much has it, too."""
_KEYS_MAX: Final = 4_096


@dataclass(slots=True)
class _Watch:
    """An id that is watched; its keys are those of when it was last read."""

    version: int
    watchers: int = 0
    keys: set[bytes] = field(default_factory=lambda: {ANYTHING})
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class Watches:
    """All ids that are watched. `read` is for the thread that works on the folder, the rest for the loop."""

    def __init__(self) -> None:
        self._version = 0
        self._lock = threading.Lock()
        self._watched: dict[bytes, _Watch] = {}
        self._by_key: dict[bytes, set[bytes]] = {}

    def version(self, id: bytes) -> int:
        """A number that is another one whenever what is published under an id may have changed."""
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
        """This is what is published under an id; every later change of the folder is announced behind it."""
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
        """Something has changed: wake whom it concerns."""
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
        """Wait until `version` of an id that is watched is not `since`; what it is then."""
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
