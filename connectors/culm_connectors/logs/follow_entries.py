"""`entries`, the fast way: what other connectors took goes on to live peers before the truth knows of it.

What extends a held log is indexed and goes on at once. What stands above a gap waits until the gap is closed
(`early_entries`), bounded; everything else is left to `logs` (`follow_logs`).
Bare logs, whose payloads are no operations, are not for this index: their records are passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from confluent_kafka import Message

from culm_connectors.kafka import TopicReader
from culm_connectors.logs.early_entries import EarlyEntries
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_models.bamboo import check_links
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.entry import read_place
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.batch import Batch, source_of


class EntriesFollower:
    """Reads `entries`. `keeps` tells which schemas belong in the index."""

    def __init__(
        self,
        logs: ReplicatedLogs,
        keeps: Callable[[str], bool],
        *,
        max_payload_bytes: int,
        verify_signatures: bool = True,
    ) -> None:
        """`max_payload_bytes`: what is larger is for the truth path to judge, which refuses it."""
        self.taken = 0
        """Entries that were new here."""
        self.attached = 0
        """Early ones among them, which have waited for others."""
        self.early = EarlyEntries()
        logs.hub.subscribe(self.early)
        self._hub = logs.hub
        self._held = logs.index.store
        self._keeps = keeps
        self._publisher = logs.publisher
        self._pool = logs.pool
        self._connector_id = logs.connector_id
        self._max_payload_bytes = max_payload_bytes
        self._verify_signatures = verify_signatures

    async def follow(self, reader: TopicReader) -> None:
        """Follow `entries` until cancelled. Raises OffsetLost, ConsumeFailed, IndexDamaged."""
        batch = asyncio.ensure_future(reader.get())
        try:
            while True:
                grown = asyncio.ensure_future(self.early.grown.wait())
                try:
                    await asyncio.wait({batch, grown}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    grown.cancel()
                await self._attach_early()
                if batch.done():
                    await self._take(batch.result())
                    batch = asyncio.ensure_future(reader.get())
        finally:
            batch.cancel()

    async def _take(self, batch: Batch) -> None:
        if not batch.messages:
            return
        records = [pair for message in batch.messages if (pair := self._foreign_entry(message)) is not None]
        pairs = [(record.entry, record.operation) for record, _ in records]
        checked = await self._pool.submit(pairs, verify_signature=self._verify_signatures) if pairs else []
        heads: dict[LogKey, list[SoundEntry]] = {}
        entries = []
        for (record, message), result in zip(records, checked, strict=True):
            if isinstance(result, CulmError):
                source = source_of(message)
                self._publisher.refused_record(result, source, record.entry, record.brought_by)
                continue
            ahead = heads.setdefault(result.log, [])
            if self._extends(result, ahead):
                ahead.append(result)
                entries.append(result)
            elif result.entry.seq_num > self._held.height(*result.log) + len(ahead) + 1:
                self.early.keep(result)
        commit = await self._hub.take(entries, batch.offsets)
        self.taken += len(commit.stored)

    async def _attach_early(self) -> None:
        """Index the early entries that follow on what is held by now."""
        entries: list[SoundEntry] = []
        for log in self.early.take_grown():
            ahead: list[SoundEntry] = []
            for checked in self.early.take_above(log, self._held.height(*log)):
                if not self._extends(checked, ahead):
                    break  # of another branch: the truth judges it
                ahead.append(checked)
            entries += ahead
        if entries:
            commit = await self._hub.take(entries, {})
            self.taken += len(commit.stored)
            self.attached += len(commit.stored)

    def _foreign_entry(self, message: Message) -> tuple[EntryRecord, Message] | None:
        """A record worth a check: of another connector, of interest, and not held yet as far as it says."""
        value = message.value()
        if value is not None and value.endswith(self._connector_id):
            return None  # our own: the connector's id is the last item, random for every run
        try:
            record = EntryRecord.decode(value)
        except CulmError as error:
            self._publisher.refused_record(error, source_of(message), value, None)
            return None
        if not record.schema_id or not self._keeps(record.schema_id):
            return None
        if len(record.operation) > self._max_payload_bytes:
            return None
        place = read_place(record.entry)
        if place is not None and place[2] <= self._held.height(*place[:2]):
            return None
        return record, message

    def _extends(self, checked: SoundEntry, ahead: Sequence[SoundEntry]) -> bool:
        """Whether an entry follows on what is held and what goes before it in this batch."""
        public_key, log_id = checked.log
        height = self._held.height(public_key, log_id)

        def hash_at(seq_num: int) -> bytes | None:
            if seq_num <= height:
                return self._held.entry_hash(public_key, log_id, seq_num)
            position = seq_num - height - 1
            return ahead[position].hash if position < len(ahead) else None

        if checked.entry.seq_num != height + len(ahead) + 1:
            return False
        info = self._held.log_info(public_key, log_id)
        ended = height if info is not None and info.end_of_log and not ahead else None
        try:
            check_links(checked.entry, hash_at=hash_at, end_of_log_at=ended)
        except CulmError:
            return False
        return True
