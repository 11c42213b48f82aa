"""What a connector reads from Kafka, in the order of a start: up to the ends of now, then for ever.

`blocks`, `announcements` and `logs` are read to the end that they have at that moment. Peers are served as
soon as `blocks` has told which logs there are, else when `logs` has been read. From then on `announcements`,
`logs` and `entries` are followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from culm_connectors.boot.boot import Boot
from culm_connectors.index import IndexWriter
from culm_connectors.kafka import TopicReader
from culm_connectors.kafka.clients import TopicReaders
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.subscription import Progress, Subscription
from culm_models.p2panda.schema_id import normalise

logger = logging.getLogger(__name__)

Serve = Callable[[asyncio.TaskGroup], Coroutine[Any, Any, None]]
"""Serves peers until cancelled, with a group for the tasks that this takes."""


@dataclass(slots=True)
class Intake:
    """Reads for a subscription. `tell` hears what peers wait for, None when they are served."""

    topics: TopicReaders
    index: IndexWriter
    interest: Interest
    boot: Boot
    driver: Driver
    subscription: Subscription
    progress: Progress
    tell: Callable[[str | None], None]
    serve_before_caught_up: bool = False
    readers: tuple[TopicReader, ...] = ()

    async def run(self, serve: Serve) -> None:
        """Read until cancelled; `serve` is begun once peers may come.

        Raises OffsetLost, ConsumeFailed, IndexDamaged, and what `serve` does.
        """
        offsets = self.index.store.offsets()
        self.tell("reading blocks")
        # Before `logs`, so that reading `logs` to its end reaches all that is told.
        self.interest.promise(await self.boot.promise(self.interest.wanted))
        async with (
            self.topics.open("announcements") as announcements,
            self.topics.open("logs", offsets) as logs,
            # What retention removed from `entries` while we were away is in `logs`.
            self.topics.open("entries", offsets, skip_lost=True) as entries,
            asyncio.TaskGroup() as group,
        ):
            self.readers = (announcements, logs, entries)
            self.tell("reading announcements")
            async for batch in announcements.read_to_end():
                self.subscription.take_announcements(batch)
            group.create_task(self.subscription.follow_announcements(announcements))
            group.create_task(self.subscription.keep_announcements())
            await self.boot.check(logs.ends)
            serving = None
            if self.serve_before_caught_up:
                serving = group.create_task(self._serve_what_is_held(serve, group))
            elif self.boot.claims.anything:
                # Of these it is known what they will be; the others follow when `logs` has been read.
                self.driver.announce(normalise(self.boot.claims.schema_ids))
                self.tell(None)
                serving = group.create_task(serve(group))
            await self._catch_up(logs, fresh=not offsets)
            await self.subscription.announce_served()
            group.create_task(self.subscription.follow_logs(logs, self.topics.whole_logs))
            group.create_task(self.subscription.follow_entries(entries))
            group.create_task(self.subscription.mend_gaps())
            self.tell(None)
            await (serving or group.create_task(serve(group)))

    async def _serve_what_is_held(self, serve: Serve, group: asyncio.TaskGroup) -> None:
        await self.subscription.announce_served()
        await serve(group)

    async def _catch_up(self, logs: TopicReader, *, fresh: bool) -> None:
        what = "building the index from logs" if fresh else "catching up with logs"
        if not self.driver.announced:
            self.tell(what)
        if fresh:
            self.interest.cover(self.interest.missing)
            self.subscription.built_from_logs = True
        await self.subscription.read_to_end(logs, what, progress=self.progress)
        await self.subscription.read_back(self.topics.whole_logs, logs, self.progress)
        await self.boot.settle(logs.positions)
        held, entries = self.index.store.counts()
        logger.info("the index holds %d entries of %d logs", entries, held)
