"""From Kafka to peers: the live entries of other connectors, the truth of `logs`, and announcements.

`logs` is the truth: it fills what is missing, and cuts back a log that took another branch. `entries` is the
fast way: what extends a held log is indexed and sent on to live peers at once, everything else is left to
`logs`. A schema that becomes interesting is first read back from the start of `logs` (`backfill`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from culm_connectors.boot.boot import Boot
from culm_connectors.boot.gaps import LogGaps
from culm_connectors.checking import CheckPool
from culm_connectors.index import IndexWriter
from culm_connectors.index.chunks import Pair
from culm_connectors.kafka import Batch, TopicReader
from culm_connectors.kafka.consumer import Partition
from culm_connectors.p2panda.announcements import Announcements
from culm_connectors.p2panda.driver import Driver, clock_ms
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.publication import Publication
from culm_models.bamboo import check_links, decode_entry
from culm_models.errors import CulmError
from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.codec import decode
from culm_models.p2panda.messages import Announce
from culm_topics.records import EntryRecord, LogRecord, split_log_key

logger = logging.getLogger(__name__)

# How much longer the pause after reading back is than that took, up to a bound.
_PAUSE_RATIO = 4.0
_MAX_PAUSE_S = 120.0
_FORGETTING_INTERVAL_S = 30.0
_ANNOUNCEMENTS_INTERVAL_S = 60.0

Progress = Callable[[str, int, int], None]
"""(what, records read, records there were at the start): told now and then while reading back."""


@dataclass(slots=True)
class Counts:
    """What came from Kafka and what became of it."""

    live_taken: int = 0
    live_skipped: int = 0
    live_refused: int = 0
    truth_taken: int = 0
    truth_corrected: int = 0
    announcements: int = 0
    reasserted: int = 0


@dataclass(slots=True)
class Subscription:
    """The reading side of a connector."""

    driver: Driver
    index: IndexWriter
    interest: Interest
    publication: Publication
    pool: CheckPool
    boot: Boot
    gaps: LogGaps
    connector_id: bytes
    verify_entries: bool = True
    built_from_logs: bool = False
    """Whether this process has read `logs` from its very start into an empty index."""
    counts: Counts = field(default_factory=Counts)
    backfill_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    announcements: Announcements = field(init=False)

    def __post_init__(self) -> None:
        self.announcements = Announcements(self.driver.links.keys())

    # The truth.

    async def follow_logs(self, reader: TopicReader, from_start: Callable[[], TopicReader]) -> None:
        """Follow `logs` for ever, stopping to read back schemas that become interesting."""
        batch = asyncio.ensure_future(reader.get())
        pause = asyncio.ensure_future(asyncio.sleep(0))
        try:
            while True:
                wanted = asyncio.ensure_future(self._interest_changed())
                awaited: set[asyncio.Future[Any]] = {wanted, batch}
                if self.interest.missing:
                    awaited.add(pause)
                try:
                    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wanted.cancel()
                if self.backfill_wanted.is_set():
                    self.backfill_wanted.clear()
                    await self._promise()
                    await self.announce_served()
                if self.interest.missing and pause.done():
                    began_s = time.monotonic()
                    await self.read_back(from_start, reader)
                    await self.boot.settle(reader.positions)
                    await self.announce_served()
                    # Any peer can make it necessary, and meanwhile nothing else is read.
                    took_s = time.monotonic() - began_s
                    pause = asyncio.ensure_future(asyncio.sleep(min(_PAUSE_RATIO * took_s, _MAX_PAUSE_S)))
                # A further interest must not have to wait for the next record of `logs`.
                if batch.done():
                    await self.take_truth(batch.result())
                    await self.boot.settle(reader.positions)
                    batch = asyncio.ensure_future(reader.get())
        finally:
            batch.cancel()
            pause.cancel()

    async def _interest_changed(self) -> None:
        """Wait until another set of schemas is to be served; what nobody announces is forgotten in time."""
        while not self.backfill_wanted.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.backfill_wanted.wait(), _FORGETTING_INTERVAL_S)
            if self.interest.pass_time(time.monotonic()):
                self.backfill_wanted.set()

    async def _promise(self) -> None:
        """Have what becomes interesting served before it is read back, where it is known what that is."""
        promised = await self.boot.promise(self.interest.missing)
        self.interest.promise(promised)

    async def announce_served(self) -> None:
        """Tell remotes what is served now, once its sync range is in memory, and no other is."""
        served, ranges = self.interest.served, self.index.store.ranges
        await asyncio.to_thread(ranges.load, served)
        ranges.keep_only(self.interest.wanted)
        self.driver.announce(served)

    async def read_back(
        self,
        from_start: Callable[[], TopicReader],
        reader: TopicReader,
        progress: Progress | None = None,
    ) -> None:
        """Read the missing schemas from the start of `logs` up to where `reader` stands."""
        missing = self.interest.missing
        if not missing:
            return
        logger.info("reading back %d schemas from the logs topic", len(missing))
        async with from_start() as source:
            await self.boot.check(source.ends)
            source.ends = {
                partition: min(end, reader.positions.get(partition, 0))
                for partition, end in source.ends.items()
            }
            await self.read_to_end(source, "reading back", missing, progress, keep_offsets=False)
        self.interest.cover(missing)
        logger.info("read back %d schemas", len(missing))

    async def read_to_end(
        self,
        reader: TopicReader,
        what: str,
        schema_ids: frozenset[str] | None = None,
        progress: Progress | None = None,
        *,
        keep_offsets: bool = True,
    ) -> None:
        """Take the truth up to the end that `logs` had when the reader started."""
        total = reader.remaining()
        async for batch in reader.read_to_end():
            offsets = batch.offsets if keep_offsets else {}
            within = _within(batch.messages, reader.ends) if not keep_offsets else batch.messages
            await self.take_truth(Batch(tuple(within), offsets), schema_ids)
            if progress is not None:
                progress(what, total - reader.remaining(), total)

    async def take_truth(self, batch: Batch, schema_ids: frozenset[str] | None = None) -> None:
        """Index records of `logs` and the offsets that cover them; live peers get what was new."""
        if not batch.messages:
            return  # an end was reached again: nothing new to keep
        keeps = self.interest.keeps if schema_ids is None else schema_ids.__contains__
        pairs = list(self._wanted_pairs(batch.messages, keeps))
        checked = await self.pool.submit(pairs, verify_signature=False) if pairs else []
        entries = [entry for entry in checked if not isinstance(entry, CulmError)]
        if len(entries) < len(checked):
            logger.error("%d records of the logs topic hold no entries", len(checked) - len(entries))
        commit = await self.index.write(entries, batch.offsets, truth=True)
        for key, first in commit.truncated:
            public_key, log_id = split_log_key(key)
            logger.warning("log %s/%d: cut back to %d by the truth", public_key.hex(), log_id, first - 1)
            # What was staged on top of the other branch will not be stored.
            replacing = [one for one in commit.stored if one.log == (public_key, log_id)]
            self.driver.peer.discard(replacing[:1], clock_ms())
        # A log that should hold more by now is read again when the index is compared with `blocks`.
        claims = self.boot.claims
        gaps = [one for one in commit.gaps if not claims.awaits_before(one.log, one.entry.seq_num)]
        self.gaps.found(gaps, whole=self.built_from_logs)
        self.counts.truth_taken += len(commit.stored)
        self.counts.truth_corrected += len(commit.truncated)
        self._tell_peers(commit.stored)

    def _wanted_pairs(self, messages: Sequence[Message], keeps: Callable[[str], bool]) -> Iterator[Pair]:
        """Entries of logs that belong in the index; a log belongs where its first entry does."""
        begun: dict[tuple[bytes, int], bool] = {}
        for message in messages:
            try:
                log = split_log_key(message.key())
                record = LogRecord.decode(message.value())
            except CulmError as error:
                self.publication.refused_record(error, _source(message), message.value(), None)
                continue
            if record.seq_num == 1:
                begun[log] = keeps(record.schema_id)
            elif log not in begun:
                info = self.index.store.log_info(*log)
                begun[log] = info is not None and keeps(info.schema_id)
            # Most of what comes is held already: it went live before the truth knew of it.
            if begun[log] and self.index.store.entry_hash(*log, record.seq_num) != record.entry_hash:
                yield record.entry, record.operation

    async def mend_gaps(self) -> None:
        """Read logs with gaps again, for ever. Raises OffsetLost, IndexDamaged."""
        await self.gaps.mend_for_ever(self._tell_peers)

    def _tell_peers(self, stored: Sequence[CheckedEntry]) -> None:
        self.gaps.grew(stored)
        news = self.boot.claims.arrived(stored)
        if len(news) < len(stored):
            self.driver.peer.settled(stored)
        if news:
            self.driver.peer.stored(news, None, clock_ms())
            self.driver.pump()

    # The fast way.

    async def follow_entries(self, reader: TopicReader) -> None:
        """Follow `entries` for ever."""
        while True:
            await self.take_entries(await reader.get())

    async def take_entries(self, batch: Batch) -> None:
        """Index what extends held logs, and the offsets; live peers get it at once."""
        if not batch.messages:
            return
        records = [pair for message in batch.messages if (pair := self._foreign_entry(message)) is not None]
        pairs = [(record.entry, record.operation) for record, _ in records]
        checked = await self.pool.submit(pairs, verify_signature=self.verify_entries) if pairs else []
        heads: dict[tuple[bytes, int], list[CheckedEntry]] = {}
        entries = []
        for (record, message), result in zip(records, checked, strict=True):
            if isinstance(result, CulmError):
                self.counts.live_refused += 1
                self.publication.refused_record(result, _source(message), record.entry, record.brought_by)
            elif self._extends(result, heads.setdefault(result.log, [])):
                heads[result.log].append(result)
                entries.append(result)
            else:
                self.counts.live_skipped += 1
        commit = await self.index.write(entries, batch.offsets)
        self.counts.live_taken += len(commit.stored)
        self._tell_peers(commit.stored)

    def _foreign_entry(self, message: Message) -> tuple[EntryRecord, Message] | None:
        """A record worth looking at: of another connector, of interest, and not held yet."""
        value = message.value()
        if value is not None and value.endswith(self.connector_id):
            return None  # our own: the connector's id is the last item, random for every run
        try:
            record = EntryRecord.decode(value)
            if not self.interest.keeps(record.schema_id):
                return None
            entry = decode_entry(record.entry)
        except CulmError as error:
            self.counts.live_refused += 1
            self.publication.refused_record(error, _source(message), value, None)
            return None
        if entry.seq_num <= self.index.store.height(entry.public_key, entry.log_id):
            self.counts.live_skipped += 1
            return None
        return record, message

    def _extends(self, checked: CheckedEntry, ahead: Sequence[CheckedEntry]) -> bool:
        """Whether an entry follows on what is held and what goes before it in this batch."""
        store = self.index.store
        public_key, log_id = checked.log
        height = store.height(public_key, log_id)

        def hash_at(seq_num: int) -> bytes | None:
            if seq_num <= height:
                return store.entry_hash(public_key, log_id, seq_num)
            position = seq_num - height - 1
            return ahead[position].hash if position < len(ahead) else None

        if checked.entry.seq_num != height + len(ahead) + 1:
            return False
        if height == 0 and not ahead and checked.action == "create" and checked.entry.seq_num != 1:
            return False
        info = store.log_info(public_key, log_id)
        ended = height if info is not None and info.end_of_log and not ahead else None
        try:
            check_links(checked.entry, hash_at=hash_at, end_of_log_at=ended)
        except CulmError:
            return False
        return True

    # Announcements.

    async def follow_announcements(self, reader: TopicReader) -> None:
        """Follow `announcements` for ever."""
        while True:
            self.take_announcements(await reader.get())

    def take_announcements(self, batch: Batch) -> None:
        """Keep the newest timestamp of every peer; say again what an older record of ours came behind."""
        for message in batch.messages:
            remote, value = message.key(), message.value()
            if remote is None:
                continue
            if value is None:
                self._reassert(remote, self.announcements.removed(remote))
                continue
            try:
                announce = decode(value)
            except CulmError as error:
                self.publication.refused_record(error, _source(message), value, None)
                continue
            if not isinstance(announce, Announce):
                continue
            self.counts.announcements += 1
            newer = self.announcements.read(remote, announce.timestamp, message.timestamp()[1])
            self._reassert(remote, newer)

    def _reassert(self, remote: bytes, raw: bytes | None) -> None:
        if raw is not None:
            self.counts.reasserted += 1
            self.publication.announce_again(remote, raw)

    async def keep_announcements(self) -> None:
        """Show for ever which peers are there, and remove the announcements of those that have gone."""
        while True:
            for remote, raw in self.announcements.due(clock_ms()):
                self.publication.announce_again(remote, raw)
            await asyncio.sleep(_ANNOUNCEMENTS_INTERVAL_S)

    def announced_here(self, remote: bytes, timestamp: int, raw: bytes) -> bool:
        """A peer of ours announced itself; True when that is news to all edges, and then to be told."""
        return self.announcements.came(remote, timestamp, raw, clock_ms())


def _within(messages: Sequence[Message], ends: Mapping[Partition, int]) -> list[Message]:
    kept = []
    for message in messages:
        topic, partition, offset = _source(message)
        if offset < ends.get((topic, partition), 0):
            kept.append(message)
    return kept


def _source(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a record has a place"
    return topic, partition, offset
