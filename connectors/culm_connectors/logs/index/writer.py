"""The one thread that writes an index, seen from the event loop.

`write` waits for the transaction and makes it visible to readers on the loop. Callers batch small writes that
queue up behind a running write. A flush to the disk follows every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from culm_connectors.local_store.writer import WritingThread
from culm_connectors.logs.index.commit import Commit, Offsets
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import Pair, Range
from culm_connectors.logs.index.store import LmdbLogStore
from culm_models.bamboo.checks import SoundEntry

_READ_THREADS = 2


class IndexWriter:
    """Serialises an index's writes into one thread; range reads and merges run in a few other threads."""

    def __init__(
        self, store: LmdbLogStore, *, flush_interval_s: float = 5.0, retry_interval_s: float | None = 5.0
    ) -> None:
        self.store = store
        self._flush_interval_s = flush_interval_s
        self._writing = WritingThread("index-write", store.folder, retry_interval_s=retry_interval_s)
        self._reading = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="index-read")
        self._dirty = False

    @property
    def full(self) -> str | None:
        """Reason why writing is not possible now, None if it is possible."""
        return self._writing.full

    async def write(
        self,
        entries: Iterable[SoundEntry],
        offsets: Offsets | None = None,
        *,
        truth: bool = False,
        brought_by: Sequence[bytes] = (),
    ) -> Commit:
        """Store entries and the offsets that cover them; visible to readers when this returns.

        `brought_by`: the peer that sent each of the entries; empty if they come from Kafka.

        Waits for space if the disk is full; later writes wait behind it. Raises
        `IndexDamaged`, `IndexUnusable`, and `IndexFull` if writes are not tried again.
        """
        taken = tuple(entries)
        writing = self._writing.submit(
            lambda: self.store.commit(taken, offsets or {}, truth=truth, brought_by=brought_by)
        )
        # The caller may be cancelled; the commit is adopted all the same.
        writing.add_done_callback(self._adopt)
        return await asyncio.shield(writing)

    async def forget(self, keys: Iterable[bytes], then: Callable[[], None] = lambda: None) -> None:
        """Remove logs (40-byte keys) from the index, to be read again; `then` runs before readers notice.

        Raises `IndexDamaged`.
        """
        taken = tuple(keys)
        writing = self._writing.submit(lambda: self.store.forget(taken))
        writing.add_done_callback(self._adopt)
        writing.add_done_callback(lambda _: then())
        await asyncio.shield(writing)

    def _adopt(self, writing: asyncio.Future[Commit]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            commit = writing.result()
            self.store.adopt(commit)
            self._dirty = True
            if commit.unsettled and not self._writing.is_closing:
                self._writing.submit(lambda: self.store.commit((), {})).add_done_callback(self._adopt)
            # The last commit is adopted after the threads have ended, when no merge can run.
            for work in () if self._writing.is_closing else self.store.ranges.merge_work():
                writing.get_loop().run_in_executor(self._reading, work)

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        """Read parts of logs in a thread, with `LmdbLogStore.read_ranges`."""
        return await asyncio.get_running_loop().run_in_executor(
            self._reading, self.store.read_ranges, ranges, max_bytes
        )

    async def flush_now_and_then(self) -> None:
        """Flush commits at intervals, until cancelled.

        Raises `IndexDamaged`, also if a reader encountered damage that so far failed only its own call.
        """
        while True:
            await asyncio.sleep(self._flush_interval_s)
            if self.store.damage is not None:
                raise IndexDamaged(str(self.store.damage))
            if self._dirty:
                self._dirty = False
                await self._writing.submit(self.store.sync)

    def close(self) -> None:
        """Finish pending writes, if there is space, and stop the threads; the store stays open."""
        self._writing.close()
        self._reading.shutdown(wait=True)
