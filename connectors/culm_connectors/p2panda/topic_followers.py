"""Reads a connector's topics from Kafka: first up to their ends at the start, then continuously.

`blocks`, `announcements` and `logs` are read to the end that they have at that moment. Peers are served as
soon as `blocks` has shown which logs there are, else when `logs` has been read. From then on
`announcements`, `logs` and `entries` are followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from culm_connectors.kafka import Progress, TopicReader
from culm_connectors.logs.follow_entries import EntriesFollower
from culm_connectors.logs.follow_logs import LogsFollower
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_connectors.p2panda.announcements import AnnouncementTopic
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.interest import Interest
from culm_models.p2panda.operations.identifiers import normalise

logger = logging.getLogger(__name__)

Serve = Callable[[asyncio.TaskGroup], Coroutine[Any, Any, None]]
"""Serves peers until cancelled, with a group for the tasks that this takes."""


@dataclass(slots=True)
class TopicFollowers:
    """The readers of one connector. `set_state` receives what peers wait for, None once they are served."""

    room: ReplicatedLogs
    interest: Interest
    driver: Driver
    announcements: AnnouncementTopic
    logs: LogsFollower
    entries: EntriesFollower
    announce_served: Callable[[], Awaitable[None]]
    progress: Progress
    set_state: Callable[[str | None], None]
    serve_before_caught_up: bool = False
    readers: tuple[TopicReader, ...] = ()

    async def run(self, serve: Serve) -> None:
        """Read until cancelled; `serve` is begun once peers may come.

        Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`, and what `serve` does.
        """
        offsets = self.room.index.store.offsets()
        self.set_state("reading blocks")
        # Before `logs`, so that reading `logs` to its end reaches all that is in them.
        self.interest.announce_expected(await self.room.warm_start.claim_heights(self.interest.wanted))
        async with (
            self.room.topics.open("announcements") as announcements,
            self.room.topics.open("logs", offsets) as logs,
            # What retention removed from `entries` while we were away is in `logs`.
            self.room.topics.open("entries", offsets, skip_lost=True) as entries,
            asyncio.TaskGroup() as group,
        ):
            self.readers = (announcements, logs, entries)
            self.set_state("reading announcements")
            await self.announcements.read_to_end(announcements)
            group.create_task(self.announcements.follow(announcements))
            group.create_task(self.announcements.keep())
            await self.room.warm_start.check(logs.ends)
            serving = None
            if self.serve_before_caught_up:
                serving = group.create_task(self._serve_what_is_held(serve, group))
            elif self.room.warm_start.claims.anything:
                # Of these it is known what they will be; the others follow when `logs` has been read.
                self.driver.announce(normalise(self.room.warm_start.claims.schema_ids))
                self.set_state(None)
                serving = group.create_task(serve(group))
            await self._catch_up(logs, fresh=not offsets)
            await self.announce_served()
            group.create_task(self.logs.follow(logs))
            group.create_task(self.entries.follow(entries))
            group.create_task(self.logs.gaps.mend())
            self.set_state(None)
            await (serving or group.create_task(serve(group)))

    async def _serve_what_is_held(self, serve: Serve, group: asyncio.TaskGroup) -> None:
        await self.announce_served()
        await serve(group)

    async def _catch_up(self, logs: TopicReader, *, fresh: bool) -> None:
        what = "building the index from logs" if fresh else "catching up with logs"
        if not self.driver.announced:
            self.set_state(what)
        await self.logs.catch_up(logs, what, self.progress, fresh=fresh)
        log_count, entry_count = self.room.index.store.counts()
        logger.info("the index holds %d entries of %d logs", entry_count, log_count)
