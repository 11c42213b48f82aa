"""Reads `chotki.state` into the local store, epoch by epoch (reference 9.2, rule 6).

Records are staged in memory until their epoch is complete. If they do not fit, for example when a store is
filled for the first time, they are built into the store as they are read. Then the store provides no snapshot
before an epoch that contains all of them is complete. No record is dropped, and nothing waits for records
that can only follow it.

A reader that is slower than the topic's compaction may miss values that later epochs have replaced. So no
session is served until the store has passed the ends that the topic had when reading began, and again after
reading has fallen behind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from confluent_kafka import Message

from culm_connectors.chotki.errors import StateUnreadable
from culm_connectors.chotki.local_state.staged_state import Record, StagedState
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.clock import steady_s
from culm_connectors.edge.feed import Feed, RefusedRecord
from culm_connectors.kafka import TopicReaders
from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.local_store.writer import WritingThread
from culm_topics.chotki.records import EpochRecord, is_piece_key
from culm_topics.errors import RecordError
from culm_topics.readers.batch import Partition, source_of

logger = logging.getLogger(__name__)

TOPIC: Final = "chotki.state"
MAX_STAGED_BYTES: Final = 64 * 1024**2
MAX_LAG_S: Final = 30 * 60.0
"""Half of the topic's compaction lag."""


Look = Callable[[Sequence[Record] | None], Awaitable[None]]


class StateFollower:
    """Keeps a store at the newest epoch, as its only writer. Implements `Applier`.

    `on_epoch` is called on the event loop for every epoch that the store has reached. Before it, `look`
    receives the records of the epoch, or None if the store was built without reaching an epoch. Call `close`
    before the store is closed.
    """

    def __init__(
        self,
        store: ChotkiStore,
        on_epoch: Callable[[EpochRecord], None],
        *,
        look: Look | None = None,
        max_staged_bytes: int = MAX_STAGED_BYTES,
        max_lag_s: float = MAX_LAG_S,
        flush_interval_s: float = 5.0,
        retry_interval_s: float = 5.0,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = steady_s,
    ) -> None:
        self.ready = asyncio.Event()
        """Set while sessions may be served from the store; cleared when reading falls behind."""
        # An unreadable record ends the follower, so the feed never has a refused record.
        self._feed = Feed((TOPIC,), self, lambda _: None)
        self._staged: StagedState | None = None
        self._is_left = False
        """Whether the topic has to be opened again; records are skipped until then."""
        self._store = store
        self._on_epoch = on_epoch
        self._look = look
        self._max_staged_bytes = max_staged_bytes
        self._max_lag_s = max_lag_s
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._flush_interval_s = flush_interval_s
        self._writing = WritingThread("chotki-write", store.folder, retry_interval_s=retry_interval_s)
        self._is_flushed = True

    @property
    def full(self) -> str | None:
        """The reason why the store cannot be written now, or None."""
        return self._writing.full

    async def run(self, topics: TopicReaders) -> None:
        """Read until cancelled.

        Raises `OffsetLost`, after which the next opening drops the store; `ConsumeFailed`, `StateUnreadable`,
        `StoreDamaged`, `StoreUnusable`.
        """
        try:
            await self._feed.run(topics)
        finally:
            self.ready.clear()

    async def flush_now_and_then(self) -> None:
        """Flush written data regularly until cancelled. Run it as a task.

        Raises `StoreDamaged`, also if a reader has found damage.
        """
        while True:
            await asyncio.sleep(self._flush_interval_s)
            if self._store.damage is not None:
                raise StoreDamaged(str(self._store.damage))
            if not self._is_flushed:
                self._is_flushed = True
                await self._writing.submit(self._store.sync)

    def close(self) -> None:
        """Finish pending writes, if there is disk space. The store stays open."""
        self._writing.close()

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return the offsets of the store. Records that were only staged are read again."""
        self._staged, self._is_left = None, False
        return {(topic, number): offset for number, offset in self._store.state_offsets.items()}

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Stage records, and at the end of a batch apply the complete epoch. Raises `StateUnreadable`."""
        if self._is_left:
            return ()
        if self.ready.is_set() and self._is_behind(records):
            logger.warning(
                "%s is read %.0f s or more after it was written: no replica is served until its end "
                "is reached",
                name,
                self._max_lag_s,
            )
            self.ready.clear()
            self._is_left = True
            self._feed.restart(name)
            return ()
        reader = self._feed.readers[name]
        if self._staged is None:
            self._staged = StagedState([number for _, number in reader.ends], self._store.marks)
        staged = self._staged
        _stage(staged, records)
        if offsets is not None:
            await self._apply_whole(staged)
            if staged.staged_bytes > self._max_staged_bytes:
                await self._build(staged, {number: at for (_, number), at in reader.positions.items()})
            is_caught_up = all(
                reader.positions[partition] >= end and staged.is_applied(partition[1], end)
                for partition, end in reader.ends.items()
            )
            if is_caught_up and not self.ready.is_set() and not self._store.is_incomplete:
                fields, vectors = self._store.counts()
                logger.info("epoch %d: %d fields, %d vectors", self._store.epoch, fields, vectors)
                self.ready.set()
        return ()

    async def lost(self, topic: str) -> None:
        """Mark the store to be filled again from the records that the topic has now."""
        self._store.condemn()

    async def _apply_whole(self, staged: StagedState) -> None:
        whole = staged.take()
        if whole is None:
            return
        if self.ready.is_set() and staged.is_missing_pieces:
            # Compaction does not remove such new records: another program has written or removed some.
            raise StateUnreadable(f"epoch {whole.mark.epoch} of chotki.state: pieces of a field are missing")
        before = self._store.epoch
        if whole.mark.epoch < before:
            logger.warning("chotki.state: epoch %d comes behind epoch %d", whole.mark.epoch, before)
        await self._write(partial(self._store.apply, whole.records, whole.mark, whole.offsets))
        if self._look is not None:
            await self._look(whole.records)
        if whole.mark.epoch != before:
            self._on_epoch(whole.mark)

    async def _build(self, staged: StagedState, positions: Mapping[int, int]) -> None:
        """Write all staged records into the store although their epoch is not complete."""
        if self.ready.is_set():
            logger.warning(
                "an epoch of more than %d bytes: no new replica is served until it is complete",
                self._max_staged_bytes,
            )
            self.ready.clear()
        records, marks = staged.take_all()
        offsets = staged.resume_offsets(positions)
        await self._write(partial(self._store.build, records, offsets, marks))
        if self._look is not None:
            await self._look(None)

    def _is_behind(self, records: Sequence[Message]) -> bool:
        # By both clocks, because a wall clock that jumps or was wrong at the start must not count as lag.
        oldest_s = min(self._wall_s(), self._steady_s()) - self._max_lag_s
        return any(0 <= message.timestamp()[1] < oldest_s * 1_000 for message in records)

    async def _write(self, work: Callable[[], None]) -> None:
        self._is_flushed = False
        # The waiting task may be cancelled, but the write has to finish.
        await asyncio.shield(self._writing.submit(work))


def _stage(staged: StagedState, records: Sequence[Message]) -> None:
    for message in records:
        topic, partition, offset = source_of(message)
        key, value = message.key(), message.value()
        try:
            is_tombstone = isinstance(key, bytes) and value is None and is_piece_key(key)
            if not isinstance(key, bytes) or not (isinstance(value, bytes) or is_tombstone):
                raise RecordError("a record without a key or a value")
            staged.add(partition, offset, key, value or b"")
        except RecordError as error:
            raise StateUnreadable(f"{topic}/{partition}, offset {offset}: {error}") from error
