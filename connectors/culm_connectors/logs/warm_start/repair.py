"""Reads single logs again: to replace them in the index, or to find a missing entry.

`logs` is read from its start; records of other logs are skipped without being decoded. If `logs` continues
behind an entry that the index is missing, either the index has lost the entry or `logs` has a gap. Only
reading again distinguishes these. Only the logs concerned are read, in the background, at most once a
minute. A log that still misses its entry is set aside: it is reported, ends before the gap, and is read again
when it has grown. Other logs are not affected.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from culm_connectors.kafka import ConsumeFailed, Progress, TopicReader
from culm_connectors.logs.check_pool import EntryChecker
from culm_connectors.logs.hub import LogHub, Stored
from culm_connectors.logs.index import IndexWriter, LmdbLogStore
from culm_connectors.logs.index.layout import Pair
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_topics.errors import RecordError
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

logger = logging.getLogger(__name__)

_INTERVAL_S = 60.0
_MAX_LOGS = 100_000
_NEVER = float("-inf")


async def repair(
    logs: Collection[bytes],
    index: IndexWriter,
    pool: EntryChecker,
    from_start: TopicReader,
    progress: Progress | None = None,
    forgotten: Callable[[], None] = lambda: None,
) -> int:
    """Remove these logs (40-byte keys) and read them from `logs`. Returns the number of entries stored.

    `forgotten` is called right after the removal, before readers notice.

    Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`.
    """
    wanted = frozenset(logs)
    stored = 0
    async with from_start:
        await index.forget(wanted, forgotten)
        total = from_start.remaining()
        async for entries in _entries_of(wanted, from_start, pool):
            if entries:
                stored += len((await index.write(entries, truth=True)).stored)
            if progress is not None:
                progress("repairing", total - from_start.remaining(), total)
    return stored


async def _entries_of(
    logs: frozenset[bytes], reader: TopicReader, pool: EntryChecker
) -> AsyncIterator[list[SoundEntry]]:
    """Iterate the entries of these logs up to the end of `logs`: a list, perhaps empty, per batch."""
    async for batch in reader.read_to_end():
        pairs: list[Pair] = []
        for message in batch.messages:
            if message.key() not in logs:
                continue
            try:
                record = LogRecord.decode(message.value())
            except RecordError as error:
                logger.error("malformed record in the topic logs: %s", error)
                continue
            pairs.append((record.entry, record.operation))
        checked = await pool.submit(pairs, verify_signature=False) if pairs else []
        yield [entry for entry in checked if not isinstance(entry, CulmError)]


class LogGaps:
    """Logs of one index that have gaps. Belongs to one event loop.

    It subscribes to its hub when a log is set aside. `from_start` opens `logs` at its start; `report`
    receives entries behind a gap.
    """

    def __init__(
        self,
        hub: LogHub,
        index: LmdbLogStore,
        pool: EntryChecker,
        from_start: Callable[[], TopicReader],
        report: Callable[[SoundEntry, str], None],
        *,
        interval_s: float | None = None,
    ) -> None:
        self.read_again = 0
        """Number of logs read again; a log counts each time."""
        self._hub = hub
        self._held = index
        self._pool = pool
        self._from_start = from_start
        self._report = report
        self._interval_s = _INTERVAL_S if interval_s is None else interval_s
        self._wanted: dict[LogKey, SoundEntry] = {}
        self._set_aside: dict[LogKey, tuple[int, SoundEntry]] = {}
        self._work = asyncio.Event()

    @property
    def logs_set_aside(self) -> int:
        """Number of logs that wait for an entry that `logs` does not hold."""
        return len(self._set_aside)

    def found(self, gaps: Sequence[SoundEntry], *, whole: bool) -> None:
        """Note entries behind a gap. `whole`: all of `logs` before them was just read."""
        for checked in gaps:
            log = checked.log
            known = self._set_aside.get(log)
            if log in self._wanted or (known is not None and known[0] == self._height(checked)):
                continue
            if whole:
                self._put_aside(checked)
            elif len(self._wanted) < _MAX_LOGS:
                self._wanted[log] = checked
                self._work.set()

    def on_stored(self, stored: Stored) -> None:
        """Schedule another read of a log that was set aside, once it has grown: skipped entries may fit."""
        if not self._set_aside:
            return
        for checked in stored.entries:
            known = self._set_aside.pop(checked.log, None)
            if known is not None:
                self._wanted[checked.log] = known[1]
                self._work.set()

    async def mend(self) -> None:
        """Read logs with gaps again, until cancelled. Raises `OffsetLost`, `IndexDamaged`."""
        last_s = _NEVER
        while True:
            await self._work.wait()
            await asyncio.sleep(max(0.0, last_s + self._interval_s - time.monotonic()))
            self._work.clear()
            wanted, self._wanted = self._wanted, {}
            last_s = time.monotonic()
            try:
                await self._read_again(frozenset(log_key(*log) for log in wanted))
            except ConsumeFailed as error:
                logger.warning("logs with gaps are read again later: %s", error)
                self._wanted = wanted | self._wanted
                self._work.set()
                continue
            for checked in wanted.values():
                if checked.entry.seq_num > self._height(checked):
                    self._put_aside(checked)

    async def _read_again(self, keys: frozenset[bytes]) -> None:
        self.read_again += len(keys)
        stored = 0
        async with self._from_start() as reader:
            async for entries in _entries_of(keys, reader, self._pool):
                if entries:
                    stored += len((await self._hub.take(entries, {}, truth=True)).stored)
        logger.info("%d logs with gaps were read again: %d entries came", len(keys), stored)

    def _put_aside(self, checked: SoundEntry) -> None:
        public_key, log_id = checked.log
        height = self._height(checked)
        text = (
            f"logs continues with number {checked.entry.seq_num} of {public_key.hex()}/{log_id}, "
            f"behind a gap: "
            f"number {height + 1} is missing"
        )
        logger.error("%s; this log is set aside until it is whole", text)
        self._report(checked, text)
        if len(self._set_aside) >= _MAX_LOGS:
            del self._set_aside[next(iter(self._set_aside))]
        self._set_aside[checked.log] = (height, checked)
        self._hub.subscribe(self)

    def _height(self, checked: SoundEntry) -> int:
        return self._held.height(*checked.log)
