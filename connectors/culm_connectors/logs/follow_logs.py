"""Follows `logs`, which is authoritative: fills in missing entries and cuts back logs on another branch.

When a schema becomes wanted, its entries are first read back from the start of `logs` up to the position of
this reader, which then goes on from there. `KeptSchemas` decides which schemas belong in the index.
Bare logs, whose payloads are not operations, never belong there: their records are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Message
from prometheus_client.core import Metric

from culm_connectors.kafka import Progress, TopicReader
from culm_connectors.logs.index.layout import Pair
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_connectors.metric_families import counters
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_topics.logs.records import LogRecord
from culm_topics.readers.batch import Batch, Partition, source_of
from culm_topics.records import YAMF_LOG_KEY_SIZE, split_log_key

logger = logging.getLogger(__name__)

# Ratio of the pause after reading back to the time that reading back took; the pause is bounded.
_PAUSE_RATIO = 4.0
_MAX_PAUSE_S = 120.0
_FORGETTING_INTERVAL_S = 30.0


class KeptSchemas(Protocol):
    """Decides which logs belong in the index, by the schemas of their entries."""

    changed: asyncio.Event
    """Set when another set of schemas is wanted."""

    @property
    def missing(self) -> frozenset[str]:
        """Schemas that are wanted, but not read back from `logs` yet."""
        ...

    def keeps(self, schema_id: str) -> bool:
        """Return whether new entries of a schema belong in the index: it is wanted and complete so far."""
        ...

    def announce_expected(self, schema_ids: Collection[str]) -> None:
        """Serve these schemas while they are being read back; `blocks` has their heights on `logs`."""
        ...

    def mark_complete(self, schema_ids: Collection[str]) -> None:
        """Mark the index as complete for these schemas, up to the offsets that it holds."""
        ...

    def pass_time(self, now_s: float) -> object:
        """Forget schemas that no peer has announced for long; sets `changed` if any were forgotten."""
        ...


class LogsFollower:
    """Reads `logs` from the index's offsets on, and from its start for schemas that are missing.

    `announce_served` is awaited whenever the schemas that may be served have changed.
    """

    def __init__(
        self,
        logs: ReplicatedLogs,
        schemas: KeptSchemas,
        announce_served: Callable[[], Awaitable[None]],
    ) -> None:
        self.gaps = logs.gaps
        self.taken = 0
        """Number of entries that were new here."""
        self.corrected = 0
        """Number of logs that were cut back."""
        self._hub = logs.hub
        self._held = logs.index.store
        self._schemas = schemas
        self._publisher = logs.publisher
        self._pool = logs.pool
        self._lost_entries = logs.lost_entries
        self._warm_start = logs.warm_start
        self._from_start = logs.topics.whole_logs
        self._announce_served = announce_served
        self._is_whole = False

    # Catch-up to the current end offsets.

    async def catch_up(self, reader: TopicReader, what: str, progress: Progress, *, fresh: bool) -> None:
        """Take all that `logs` held when the reader started, and read back the missing schemas.

        `fresh`: the index is empty, and this call reads `logs` from its very start.
        """
        if fresh:
            self._schemas.mark_complete(self._schemas.missing)
            self._is_whole = True
        await self._read_to_end(reader, what, progress=progress)
        await self._read_back(reader, progress)
        await self._warm_start.settle(reader.positions)

    async def _read_back(self, reader: TopicReader, progress: Progress | None = None) -> None:
        """Read the missing schemas from the start of `logs` up to the position of `reader`."""
        missing = self._schemas.missing
        if not missing:
            return
        logger.info("reading back %d schemas from the logs topic", len(missing))
        async with self._from_start() as source:
            await self._warm_start.check(source.ends)
            source.ends = {
                partition: min(end, reader.positions.get(partition, 0))
                for partition, end in source.ends.items()
            }
            await self._read_to_end(source, "reading back", missing, progress, keep_offsets=False)
        self._schemas.mark_complete(missing)
        logger.info("read back %d schemas", len(missing))

    async def _read_to_end(
        self,
        reader: TopicReader,
        what: str,
        schema_ids: frozenset[str] | None = None,
        progress: Progress | None = None,
        *,
        keep_offsets: bool = True,
    ) -> None:
        total = reader.remaining()
        async for batch in reader.read_to_end():
            offsets = batch.offsets if keep_offsets else {}
            within = _within(batch.messages, reader.ends) if not keep_offsets else batch.messages
            await self._take(Batch(tuple(within), offsets), schema_ids)
            if progress is not None:
                progress(what, total - reader.remaining(), total)

    # Live from then on.

    async def follow(self, reader: TopicReader) -> None:
        """Follow `logs` until cancelled, pausing to read back schemas that become wanted.

        Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`.
        """
        batch = asyncio.ensure_future(reader.get())
        pause = asyncio.ensure_future(asyncio.sleep(0))
        try:
            while True:
                changed = asyncio.ensure_future(self._schemas_changed())
                awaited: set[asyncio.Future[Any]] = {changed, batch}
                if self._schemas.missing:
                    awaited.add(pause)
                try:
                    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if self._schemas.changed.is_set():
                    self._schemas.changed.clear()
                    # Schemas that `blocks` describes are served before they are read back.
                    self._schemas.announce_expected(
                        await self._warm_start.claim_heights(self._schemas.missing)
                    )
                    await self._announce_served()
                if self._schemas.missing and pause.done():
                    began_s = time.monotonic()
                    await self._read_back(reader)
                    await self._warm_start.settle(reader.positions)
                    await self._announce_served()
                    # Any peer can cause this, and nothing else is read meanwhile.
                    took_s = time.monotonic() - began_s
                    pause = asyncio.ensure_future(asyncio.sleep(min(_PAUSE_RATIO * took_s, _MAX_PAUSE_S)))
                # Another wanted schema must not have to wait for the next record of `logs`.
                if batch.done():
                    await self._take(batch.result())
                    if self._warm_start.claims.anything:
                        await self._warm_start.settle(reader.positions)
                    batch = asyncio.ensure_future(reader.get())
        finally:
            batch.cancel()
            pause.cancel()

    async def _schemas_changed(self) -> None:
        """Wait until the wanted schemas change; schemas that no peer announces are forgotten in time."""
        while not self._schemas.changed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._schemas.changed.wait(), _FORGETTING_INTERVAL_S)
            self._schemas.pass_time(time.monotonic())

    def metrics(self) -> Iterator[Metric]:
        """Yield metrics of the entries taken from `logs` and of the logs that were cut back."""
        yield from counters(
            ("culm_logs_entries", "entries read from the topic logs", self.taken),
            (
                "culm_logs_corrections",
                "logs whose entries were replaced by those of the topic logs",
                self.corrected,
            ),
        )

    # Records.

    async def _take(self, batch: Batch, schema_ids: frozenset[str] | None = None) -> None:
        """Index records of `logs` with the offsets that cover them; live peers are sent the new entries."""
        if not batch.messages:
            return  # an end was reached again: nothing new to keep
        keeps = self._schemas.keeps if schema_ids is None else schema_ids.__contains__
        heights: dict[LogKey, int] = {}
        pairs = list(self._wanted_pairs(batch.messages, keeps, heights))
        checked = await self._pool.submit(pairs, verify_signature=False) if pairs else []
        entries = [entry for entry in checked if not isinstance(entry, CulmError)]
        if len(entries) < len(checked):
            logger.error("%d records of the logs topic hold no entries", len(checked) - len(entries))
        commit = await self._hub.take(entries, batch.offsets, truth=True)
        self._lost_entries.on_logs(heights)
        for (public_key, log_id), first in commit.truncated:
            logger.warning("log %s/%d: cut back to %d by the truth", public_key.hex(), log_id, first - 1)
        # A log that should hold more entries by now is read again when the index is compared with `blocks`.
        claims = self._warm_start.claims
        gaps = [gap for gap in commit.gaps if not claims.awaits_before(gap.log, gap.entry.seq_num)]
        if gaps:
            self.gaps.found(gaps, whole=self._is_whole)
        self.taken += len(commit.stored)
        self.corrected += len(commit.truncated)

    def _wanted_pairs(
        self, messages: Sequence[Message], keeps: Callable[[str], bool], heights: dict[LogKey, int]
    ) -> Iterator[Pair]:
        """Yield entries of logs that belong in the index; a log belongs there if its first entry does.

        Stores the highest sequence number seen of each of these logs in `heights`.
        """
        begun: dict[LogKey, bool] = {}
        for message in messages:
            if len(message.key() or b"") == YAMF_LOG_KEY_SIZE:
                continue  # always bare
            try:
                log = split_log_key(message.key())
                record = LogRecord.decode(message.value())
            except CulmError as error:
                self._publisher.refused_record(error, source_of(message), message.value(), None)
                continue
            if record.seq_num == 1:
                begun[log] = bool(record.schema_id) and keeps(record.schema_id)
            elif log not in begun:
                info = self._held.log_info(*log)
                begun[log] = info is not None and keeps(info.schema_id)
            if not begun[log]:
                continue
            heights[log] = max(heights.get(log, 0), record.seq_num)
            # Most of these entries are held already: they were sent live before `logs` had them.
            if self._held.entry_hash(*log, record.seq_num) != record.entry_hash:
                yield record.entry, record.operation


def _within(messages: Sequence[Message], ends: Mapping[Partition, int]) -> list[Message]:
    kept = []
    for message in messages:
        topic, partition, offset = source_of(message)
        if offset < ends.get((topic, partition), 0):
            kept.append(message)
    return kept
