"""Sources of event streams: each id is read once for all of its streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from culm_connectors.dag.http.settings import DoorLimits
from culm_connectors.dag.store.outcomes import PublishedDag
from culm_connectors.dag.watches import Watches


class StreamsEnded(Exception):
    """Ends the event streams of a door that closes; clients connect again with the id of the last event."""


class EventSource:
    """Current published state of one id.

    Its streams wake when the order or the state of a publish changes.
    """

    def __init__(self) -> None:
        self.streams = 0
        self._latest: PublishedDag | None = None
        self._next: asyncio.Future[PublishedDag] = asyncio.get_running_loop().create_future()

    async def after(self, seen: PublishedDag | None) -> PublishedDag:
        """Return the published state once it differs from `seen`. Raises the error of a failed read."""
        if self._latest is not None and self._latest is not seen:
            return self._latest
        return await asyncio.shield(self._next)

    def look(self, published: PublishedDag) -> None:
        """Set the published state, and wake the streams if it changed."""
        if self._latest is None or published.order != self._latest.order:
            self._latest = published
            former, self._next = self._next, asyncio.get_running_loop().create_future()
            former.set_result(published)

    def fail(self, error: BaseException) -> None:
        """End the source: its streams raise this error."""
        self._latest = None
        self._next.set_exception(error)
        self._next.exception()  # there may be no stream to read it


class EventSources:
    """The sources of all ids that have a stream. Together they read at a bounded rate."""

    def __init__(
        self, watches: Watches, published: Callable[[bytes], Awaitable[PublishedDag]], limits: DoorLimits
    ) -> None:
        self._watches = watches
        self._published = published
        self._limits = limits
        self._sources: dict[bytes, EventSource] = {}
        self._following: dict[bytes, asyncio.Task[None]] = {}
        self.has_ended = False
        """Whether the door closes: a stream that begins now ends at once."""

    def end(self) -> None:
        """End all streams, as the door closes."""
        self.has_ended = True
        for id in tuple(self._sources):
            self._following.pop(id).cancel()
            self._sources.pop(id).fail(StreamsEnded())

    @property
    def apart_s(self) -> float:
        """Return the minimum time between two reads of an id, in seconds, however often it changes."""
        limits = self._limits
        return max(limits.events_every_s, len(self._sources) / limits.max_event_looks_per_second)

    @contextmanager
    def streaming(self, id: bytes) -> Iterator[EventSource]:
        """Return the source of an id, for a stream that lasts as long as the context."""
        source = self._sources.get(id)
        if source is None:
            source = self._sources[id] = EventSource()
            self._following[id] = asyncio.create_task(self._follow(id, source))
        source.streams += 1
        try:
            yield source
        finally:
            source.streams -= 1
            if not source.streams and self._sources.get(id) is source:
                del self._sources[id]
                self._following.pop(id).cancel()

    async def _follow(self, id: bytes, source: EventSource) -> None:
        try:
            with self._watches.watching(id):
                while True:
                    version = self._watches.version(id)
                    source.look(await self._published(id))
                    await asyncio.sleep(self.apart_s)
                    await self._watches.changed(id, version)
        except Exception as error:
            source.fail(error)
            # The next stream begins with a new source.
            del self._sources[id], self._following[id]
