"""Watches for stalled logs: logs of which the index has had more entries than `logs` for a long time.

A job that is behind or down stalls all logs and loses nothing. So the topics are read only once the job has
read past all entries of the logs that have been stalled for long, or once records that it had not read were
removed. Each look at a log doubles the time until the next look.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from prometheus_client.core import Metric

from culm_connectors.kafka import ConsumeFailed, OffsetLost, ProduceFailed, TopicReaders
from culm_connectors.logs.hub import LogPublisher, Stored
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.lost_entries.sending import produce_again
from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_connectors.logs.lost_entries.survey import LostPart, find_lost
from culm_connectors.metric_families import counters, gauge
from culm_connectors.rate_limit import LimitedLog
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import KafkaFailure
from culm_topics.kafka.job_positions import read_positions
from culm_topics.readers.batch import Partition

logger = logging.getLogger(__name__)
_refused = LimitedLog(logger, interval_s=3_600.0)

_LONGEST_TICK_S: Final = 60.0
_TICKS: Final = 5
"""Number of ticks within the time after which a log counts as stalled."""
_MAX_LOGS: Final = 100_000
_MAX_DOUBLINGS: Final = 8
_TIMEOUT_S: Final = 10.0


@dataclass(slots=True)
class _Unconfirmed:
    """A log of which the index holds more than `logs` has shown since then.

    `looks` counts the surveys of the log since then, `attempts` those that found lost entries.
    """

    since_s: float
    looks: int = 0
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class EntriesState:
    """Start and end offsets of `entries`, and the positions of the job `logs` there, as far as known."""

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    read: Mapping[Partition, int]


class LostEntriesWatch:
    """Produces lost entries of one index again. Subscribes to its hub and belongs to one event loop.

    `ask` blocks, and raises `KafkaFailure`.
    """

    def __init__(
        self,
        index: IndexWriter,
        publisher: LogPublisher,
        topics: TopicReaders,
        ask: Callable[[], EntriesState],
        peer_id: bytes,
        settings: RepairSettings,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.produced = 0
        """Number of entries that were produced again."""
        self.looks = 0
        """Number of times that the topics were read."""
        self._index = index
        self._publisher = publisher
        self._topics = topics
        self._ask = ask
        self._peer_id = peer_id
        self._settings = settings
        self._now_s = now_s
        self._unconfirmed: dict[LogKey, _Unconfirmed] = {}
        self._everything_since_s: float | None = now_s()
        """Time since when the stalled logs are unknown: the start, or when there were too many."""
        self._ends: deque[tuple[float, Mapping[Partition, int]]] = deque()
        """Past end offsets of `entries` with their times; the first are no older than `after_s`."""
        self._last: EntriesState | None = None
        """State of the topics when they were last read."""

    @property
    def unrepaired(self) -> int:
        """Number of logs that have not grown since their entries were produced again."""
        return sum(unconfirmed.attempts > 0 for unconfirmed in tuple(self._unconfirmed.values()))

    # Events of the hub: stored entries, and batches of `logs`.

    def on_stored(self, stored: Stored) -> None:
        """Expect the stored entries on `logs`."""
        for checked in stored.entries:
            log = checked.log
            if log in self._unconfirmed:
                continue
            if len(self._unconfirmed) < _MAX_LOGS:
                self._unconfirmed[log] = _Unconfirmed(self._now_s())
            elif self._everything_since_s is None:
                self._everything_since_s = self._now_s()

    def on_logs(self, heights: Mapping[LogKey, int]) -> None:
        """Note the heights of logs in a batch read from `logs`."""
        for log, height in heights.items():
            if log not in self._unconfirmed:
                continue
            if height >= self._index.store.height(*log):
                del self._unconfirmed[log]
            else:
                self._unconfirmed[log] = _Unconfirmed(self._now_s())

    # Stalled logs.

    @property
    def stalled(self) -> int:
        """Number of logs that have been stalled for at least `after_s`, whatever the reason."""
        since_s = self._now_s() - self._settings.after_s
        return sum(unconfirmed.since_s <= since_s for unconfirmed in tuple(self._unconfirmed.values()))

    def _due(self) -> list[LogKey]:
        """Returns the logs to survey now; each is due ever more rarely while it is stalled."""
        now_s, after_s = self._now_s(), self._settings.after_s
        return [
            log
            for log, unconfirmed in self._unconfirmed.items()
            if now_s - unconfirmed.since_s >= after_s * 2 ** min(unconfirmed.looks, _MAX_DOUBLINGS)
        ]

    async def run(self) -> None:
        """Call `tick` at intervals until cancelled. Raises `IndexDamaged`."""
        if not self._settings.enabled:
            return
        tick_s = min(self._settings.after_s / _TICKS, _LONGEST_TICK_S)
        while True:
            await asyncio.sleep(tick_s)
            try:
                await self.tick()
            except (KafkaFailure, ConsumeFailed, OffsetLost, ProduceFailed) as error:
                # The health of Kafka logs that it is down. Retention may overtake the reading.
                logger.debug("lost entries are looked for later: %s", error)

    async def tick(self) -> None:
        """Survey once, if logs have been stalled for long and there is a reason to read the topics."""
        if not self._unconfirmed and self._everything_since_s is None:
            return
        state = await asyncio.to_thread(self._ask)
        now_s, after_s = self._now_s(), self._settings.after_s
        self._ends.append((now_s, state.ends))
        due = self._due()
        everything = self._everything_since_s is not None and now_s - self._everything_since_s >= after_s
        while self._ends[0][0] <= now_s - after_s:
            self._ends.popleft()
        if not (due or everything) or not self._is_suspicious(state):
            return
        # Several edges hold the same entries: the first to produce them spares the others.
        await asyncio.sleep(random.uniform(0, min(after_s / _TICKS, _LONGEST_TICK_S)))
        await self._look(None if everything else due)

    def _is_suspicious(self, state: EntriesState) -> bool:
        """Whether entries of a stalled log may be lost, not only late."""
        _, ends = self._ends[0]
        if state.read and all(state.read.get(partition, 0) >= end for partition, end in ends.items()):
            return True
        known = {} if self._last is None else self._last.starts
        return any(
            start > max(state.read.get(partition, 0), known.get(partition, 0))
            for partition, start in state.starts.items()
        )

    async def _look(self, only: Collection[LogKey] | None) -> None:
        self.looks += 1
        # Asked before anything is read: what the job wrote up to this position is then on `logs`.
        state = self._last = await asyncio.to_thread(self._ask)
        parts = await find_lost(self._index.store, self._topics, state.read, only=only)
        now_s = self._now_s()
        if only is None:
            self._everything_since_s = None
        for part in parts:
            self._unconfirmed.setdefault(part.log, _Unconfirmed(now_s)).attempts += 1
        for log in self._unconfirmed.keys() & ({part.log for part in parts} if only is None else only):
            self._unconfirmed[log].looks += 1
        if parts:
            await self._repair(parts)

    async def _repair(self, parts: list[LostPart]) -> None:
        before = self.produced

        def count(entries: int) -> None:
            self.produced += entries

        await produce_again(
            parts,
            self._index,
            self._publisher,
            self._peer_id,
            entries_per_second=self._settings.entries_per_second,
            produced=count,
            is_wanted=lambda part: part.log in self._unconfirmed,
        )
        logger.warning(
            "%d logs stalled because entries had expired before they got to the topic logs: %d entries were "
            "produced again",
            len(parts),
            self.produced - before,
        )

    def metrics(self) -> Iterator[Metric]:
        """Metrics of stalled logs and of entries that were produced again."""
        yield gauge(
            "culm_logs_standing",
            "logs of which `logs` has been missing entries for a long time",
            self.stalled,
        )
        yield gauge(
            "culm_logs_unrepaired",
            "logs in which entries that were produced again are still missing",
            self.unrepaired,
        )
        yield from counters(
            ("culm_logs_repaired_entries", "entries produced again for logs", self.produced),
            ("culm_logs_repair_looks", "readings of topics for lost entries", self.looks),
        )


def ask_state(client: AdminClient, topics: TopicReaders, partitions: int) -> EntriesState:
    """Ask Kafka for the state of `entries`; blocking. Raises `KafkaFailure`."""
    topic = topics.topic("entries")
    numbers = range(partitions)
    try:
        read = read_positions(topics.kafka, "logs", [(topic, number) for number in numbers])
    except KafkaFailure as error:
        if error.passes:
            raise
        _refused.warning("only entries that have expired are produced again: %s (%s)", error, error.hint)
        read = {}
    topic_partitions = [TopicPartition(topic, number) for number in numbers]

    def offsets(which: Any) -> dict[Partition, int]:
        answers = client.list_offsets(dict.fromkeys(topic_partitions, which), request_timeout=_TIMEOUT_S)
        return {
            (partition.topic, partition.partition): int(answer.result(_TIMEOUT_S).offset)
            for partition, answer in answers.items()
        }

    try:
        starts = offsets(OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except (KafkaException, TimeoutError) as error:
        raise KafkaFailure(f"asking where {topic} ends: {error}") from error
    return EntriesState(starts, ends, read)
