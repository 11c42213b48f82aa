"""Watches for logs that stand: the index holds more of them than `logs` has shown for long.

A job that is behind or away makes all logs stand and loses nothing, so the topics are read only once it has
read past all that had stood for long, or once records that it had not read were removed. Each attempt for a
log that does not help doubles the time until the next one.
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
from culm_topics.records import log_key

logger = logging.getLogger(__name__)
_refused = LimitedLog(logger, interval_s=3_600.0)

_LONGEST_TICK_S: Final = 60.0
_TICKS: Final = 5
"""So often it is looked within the time after which a log stands."""
_MAX_LOGS: Final = 100_000
_MAX_DOUBLINGS: Final = 8
_TIMEOUT_S: Final = 10.0


@dataclass(slots=True)
class _Unconfirmed:
    """A log of which the index holds more than `logs` has shown since then.

    `looks` counts how often it was looked at since then, `attempts` how often entries were produced again.
    """

    since_s: float
    looks: int = 0
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class TopicState:
    """Where `entries` begins and ends, and how far the job `logs` has read it, as far as it tells."""

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    read: Mapping[Partition, int]


class LostEntriesWatch:
    """Produces lost entries of one index again. A subscriber of its hub; of one event loop.

    `ask` blocks, and raises KafkaFailure.
    """

    def __init__(
        self,
        index: IndexWriter,
        publisher: LogPublisher,
        topics: TopicReaders,
        ask: Callable[[], TopicState],
        peer_id: bytes,
        settings: RepairSettings,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.produced = 0
        """Entries that were produced again."""
        self.looks = 0
        """How often the topics were read for it."""
        self._index = index
        self._publisher = publisher
        self._topics = topics
        self._ask = ask
        self._peer_id = peer_id
        self._settings = settings
        self._now_s = now_s
        self._unconfirmed: dict[bytes, _Unconfirmed] = {}
        self._everything_since_s: float | None = now_s()
        """Since when it is not known which logs stand: since the start, or since there were too many."""
        self._ends: deque[tuple[float, Mapping[Partition, int]]] = deque()
        """Where `entries` ended, and when that was asked: the first time behind all that stands for long."""
        self._last: TopicState | None = None
        """What the topics were like when they were read."""

    @property
    def unrepaired(self) -> int:
        """How many logs have not gone on since their entries were produced again."""
        return sum(one.attempts > 0 for one in tuple(self._unconfirmed.values()))

    # What the index takes, and what `logs` shows.

    def on_stored(self, stored: Stored) -> None:
        """Expect what was stored on `logs`."""
        for checked in stored.entries:
            key = log_key(*checked.log)
            if key in self._unconfirmed:
                continue
            if len(self._unconfirmed) < _MAX_LOGS:
                self._unconfirmed[key] = _Unconfirmed(self._now_s())
            elif self._everything_since_s is None:
                self._everything_since_s = self._now_s()

    def on_logs(self, heights: Mapping[LogKey, int]) -> None:
        """Note how high logs were in a batch of `logs` that was taken."""
        for log, height in heights.items():
            key = log_key(*log)
            if key not in self._unconfirmed:
                continue
            if height >= self._index.store.height(*log):
                del self._unconfirmed[key]
            else:
                self._unconfirmed[key] = _Unconfirmed(self._now_s())

    # What stands.

    @property
    def standing(self) -> int:
        """How many logs have stood for long, whatever the reason."""
        since_s = self._now_s() - self._settings.after_s
        return sum(one.since_s <= since_s for one in tuple(self._unconfirmed.values()))

    def _due(self) -> list[bytes]:
        """The logs that are to be looked at now: each ever more rarely while it stands."""
        now_s, after_s = self._now_s(), self._settings.after_s
        return [
            key
            for key, one in self._unconfirmed.items()
            if now_s - one.since_s >= after_s * 2 ** min(one.looks, _MAX_DOUBLINGS)
        ]

    async def run(self) -> None:
        """Look now and then, until cancelled. Raises IndexDamaged."""
        if not self._settings.enabled:
            return
        tick_s = min(self._settings.after_s / _TICKS, _LONGEST_TICK_S)
        while True:
            await asyncio.sleep(tick_s)
            try:
                await self.tick()
            except (KafkaFailure, ConsumeFailed, OffsetLost, ProduceFailed) as error:
                # That Kafka is away is logged by its health. Retention may overtake the reading.
                logger.debug("lost entries are looked for later: %s", error)

    async def tick(self) -> None:
        """Look once, if anything has stood for long and there is a reason to read the topics."""
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
        # Several edges hold the same: the first of them to produce it spares the others.
        await asyncio.sleep(random.uniform(0, min(after_s / _TICKS, _LONGEST_TICK_S)))
        await self._look(None if everything else due)

    def _is_suspicious(self, state: TopicState) -> bool:
        """Whether something that has stood for long may be lost, not only late."""
        _, ends = self._ends[0]
        if state.read and all(state.read.get(place, 0) >= end for place, end in ends.items()):
            return True
        known = {} if self._last is None else self._last.starts
        return any(
            start > max(state.read.get(place, 0), known.get(place, 0))
            for place, start in state.starts.items()
        )

    async def _look(self, only: Collection[bytes] | None) -> None:
        self.looks += 1
        # Asked for before anything is read: what the job has written up to there is on `logs` then.
        state = self._last = await asyncio.to_thread(self._ask)
        parts = await find_lost(self._index.store, self._topics, state.read, only=only)
        now_s = self._now_s()
        if only is None:
            self._everything_since_s = None
        for part in parts:
            self._unconfirmed.setdefault(part.key, _Unconfirmed(now_s)).attempts += 1
        for key in self._unconfirmed.keys() & ({part.key for part in parts} if only is None else only):
            self._unconfirmed[key].looks += 1
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
            is_wanted=lambda part: part.key in self._unconfirmed,
        )
        logger.warning(
            "%d logs stood because entries had expired before they got to the topic logs: %d entries were "
            "produced again",
            len(parts),
            self.produced - before,
        )

    def metrics(self) -> Iterator[Metric]:
        """What stands, and what was produced again."""
        yield gauge("culm_logs_standing", "logs of which `logs` has lacked entries for long", self.standing)
        yield gauge("culm_logs_unrepaired", "logs that still lack what was produced again", self.unrepaired)
        yield from counters(
            ("culm_logs_repaired_entries", "entries produced again for logs", self.produced),
            ("culm_logs_repair_looks", "readings of topics for lost entries", self.looks),
        )


def ask_state(client: AdminClient, topics: TopicReaders, partitions: int) -> TopicState:
    """Ask Kafka for the state of `entries`; blocks. Raises KafkaFailure."""
    topic = topics.topic("entries")
    numbers = range(partitions)
    try:
        read = read_positions(topics.kafka, "logs", [(topic, number) for number in numbers])
    except KafkaFailure as error:
        if error.passes:
            raise
        _refused.warning("only entries that have expired are produced again: %s (%s)", error, error.hint)
        read = {}
    places = [TopicPartition(topic, number) for number in numbers]

    def offsets(which: Any) -> dict[Partition, int]:
        answers = client.list_offsets(dict.fromkeys(places, which), request_timeout=_TIMEOUT_S)
        return {
            (place.topic, place.partition): int(answer.result(_TIMEOUT_S).offset)
            for place, answer in answers.items()
        }

    try:
        starts = offsets(OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except (KafkaException, TimeoutError) as error:
        raise KafkaFailure(f"asking where {topic} ends: {error}") from error
    return TopicState(starts, ends, read)
