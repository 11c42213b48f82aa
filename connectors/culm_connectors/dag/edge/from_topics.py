"""What topics bring to an edge's folder, whoever wrote them.

A batch is one step of the thread that works on the folder, and one transaction with the offsets behind it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from confluent_kafka import Message

from culm_connectors.dag.edge.room import EdgeRoom
from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.edge.taking import take_record
from culm_connectors.kafka import Batch, OffsetLost, TopicReader, TopicReaders
from culm_models.errors import CulmError
from culm_topics.readers.batch import Partition, source_of

FOLLOWED: Final = ("dag.blocked", "dag.nodes", "dag.publishes", "dag.shards", "dag.published")
_LOGGER = logging.getLogger(__name__)
_BYTES_A_STEP: Final = 4 * 1_048_576
"""Peers have their turns between so many bytes."""
_Refused = tuple[CulmError, tuple[str, int, int], bytes | None]


class DagFollower:
    """Follows the topics into one room. `ready` is set when all that was there at the start is taken."""

    def __init__(self, room: EdgeRoom) -> None:
        self.ready = asyncio.Event()
        self.readers: dict[str, TopicReader] = {}
        self.followed = 0
        """Records that were taken."""
        self._room = room

    async def run(self, topics: TopicReaders) -> None:
        """Follow all of them until cancelled. Raises OffsetLost, ConsumeFailed."""
        behind = set(FOLLOWED)

        async def follow(name: str) -> None:
            try:
                while True:
                    async with topics.open(name, await self._offsets(name, topics.topic(name))) as reader:
                        self.readers[name] = reader
                        async for batch in reader.read_to_end():
                            await self.take(name, batch)
                        behind.discard(name)
                        if not behind:
                            self.ready.set()
                        await self._go_on(name, reader)
            except OffsetLost:
                # Only what is there now is left to be read: from its start, when this is opened next.
                await self._room.work(lambda _: self._room.folder.tables.topics.forget(topics.topic(name)))
                raise

        async with asyncio.TaskGroup() as group:
            for name in FOLLOWED:
                group.create_task(follow(name))

    async def _offsets(self, name: str, topic: str) -> dict[Partition, int]:
        """Where a topic is gone on from: at its start, where something of it is missing here."""
        tables = self._room.folder.tables
        if name == SHARDS_TOPIC:
            self._room.wanted_again.clear()

        def step(_: object) -> dict[Partition, int]:
            if tables.begin_again(name, topic):
                _LOGGER.info("%s is read again from its start", topic)
            return tables.topics.kept()

        return await self._room.work(step)

    async def _go_on(self, name: str, reader: TopicReader) -> None:
        """Take what comes, for ever; of shards, until they are to be read again."""
        if name != SHARDS_TOPIC:
            while True:
                await self.take(name, await reader.get())
        again = asyncio.create_task(self._room.wanted_again.wait())
        coming = asyncio.create_task(reader.get())
        try:
            while not self._room.wanted_again.is_set():
                await asyncio.wait((again, coming), return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    await self.take(name, coming.result())
                    coming = asyncio.create_task(reader.get())
        finally:
            for task in (again, coming):
                task.cancel()
            await asyncio.gather(again, coming, return_exceptions=True)

    async def take(self, name: str, batch: Batch) -> None:
        """Take a batch of a topic, by its name in the catalogue."""
        left = list(batch.messages)[::-1]
        is_last = False
        while not is_last:
            some = _next(left)
            is_last = not left

            def step(_: object, some: list[Message] = some, is_last: bool = is_last) -> list[_Refused]:
                refused: list[_Refused] = []
                for message in some:
                    try:
                        take_record(self._room.folder, name, message.key(), message.value())
                    except CulmError as error:
                        refused.append((error, source_of(message), message.value()))
                if is_last:
                    self._room.folder.tables.topics.keep(batch.offsets)
                return refused

            for one in await self._room.work(step):
                self._room.refusals.record(*one)
            self.followed += len(some)


def _next(left: list[Message]) -> list[Message]:
    """What a step takes of messages, of which the last are first."""
    some: list[Message] = []
    size = 0
    while left and size < _BYTES_A_STEP:
        message = left.pop()
        some.append(message)
        size += 1_000 + len(message.value() or b"")
    return some
