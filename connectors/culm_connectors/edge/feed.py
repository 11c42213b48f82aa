"""Follows topics into the local store of a protocol: to their ends, then for ever.

A protocol contributes an `Applier`. It says where each topic is resumed and keeps records together with the
offsets behind them, in one transaction of its store. A record that is malformed, or holds what breaks a rule,
is reported on `rejected` and passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from confluent_kafka import Message

from culm_connectors.kafka import Batch, OffsetLost, TopicReader, TopicReaders
from culm_models.errors import CulmError
from culm_topics.readers.batch import Partition, source_of

_STEP_RECORDS: Final = 200
_STEP_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that was passed over, and why. `source` is its topic, partition and offset."""

    error: CulmError
    source: tuple[str, int, int]
    value: bytes | None


class Applier(Protocol):
    """Keeps the records of topics in a store. Topics are named as in the catalogue."""

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return offsets to resume at, those of this topic among them; `topic` is its full name."""
        ...

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Keep records of a topic in one transaction, with the offsets behind them unless that is None."""
        ...

    async def lost(self, topic: str) -> None:
        """Forget the offsets of a topic: what lies between them and what the topic still has is gone."""
        ...


class Feed:
    """Reads topics and hands them to an applier in steps, after each of which other work has its turn."""

    def __init__(
        self,
        names: Sequence[str],
        applier: Applier,
        refuse: Callable[[RefusedRecord], None],
        *,
        skip_lost: Collection[str] = (),
    ) -> None:
        """`skip_lost`: topics that may lose what was not read, since another one makes up for it."""
        self.at_ends = asyncio.Event()
        """Set when everything that the topics had when reading began is applied."""
        self.readers: dict[str, TopicReader] = {}
        self.records = 0
        """How many records were applied or refused."""
        self._applier = applier
        self._refuse = refuse
        self._skip_lost = skip_lost
        self._behind = set(names)
        self._restarts = {name: asyncio.Event() for name in names}

    async def run(self, topics: TopicReaders) -> None:
        """Follow all topics until cancelled. Raises OffsetLost, ConsumeFailed, and what the applier does."""
        async with asyncio.TaskGroup() as group:
            for name in self._restarts:
                group.create_task(self._follow(topics, name))

    def restart(self, name: str) -> None:
        """Have a topic opened again, at the positions that the applier gives then."""
        self._restarts[name].set()

    async def take(self, name: str, batch: Batch) -> None:
        """Apply a batch of a topic in steps; the last step keeps its offsets."""
        for records, is_last in _steps(batch.messages):
            offsets = batch.offsets if is_last else None
            for refused in await self._applier.apply(name, records, offsets):
                self._refuse(refused)
            self.records += len(records)

    async def _follow(self, topics: TopicReaders, name: str) -> None:
        topic = topics.topic(name)
        try:
            while True:
                self._restarts[name].clear()
                offsets = await self._applier.positions(name, topic)
                async with topics.open(name, offsets, skip_lost=name in self._skip_lost) as reader:
                    self.readers[name] = reader
                    # An applier that is ready by what was read hears of a topic without anything new, too.
                    await self.take(name, Batch((), {}))
                    async for batch in reader.read_to_end():
                        await self.take(name, batch)
                    self._behind.discard(name)
                    if not self._behind:
                        self.at_ends.set()
                    await self._read_on(name, reader)
        except OffsetLost:
            await self._applier.lost(topic)
            raise

    async def _read_on(self, name: str, reader: TopicReader) -> None:
        """Take what comes until a restart is wanted."""
        restart = asyncio.create_task(self._restarts[name].wait())
        coming = asyncio.create_task(reader.get())
        try:
            while not restart.done():
                await asyncio.wait((restart, coming), return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    await self.take(name, coming.result())
                    coming = asyncio.create_task(reader.get())
        finally:
            for task in (restart, coming):
                task.cancel()
            await asyncio.gather(restart, coming, return_exceptions=True)


def apply_each(records: Iterable[Message], apply: Callable[[Message], None]) -> list[RefusedRecord]:
    """Apply records one by one; return those for which that raises `CulmError`."""
    refused = []
    for message in records:
        try:
            apply(message)
        except CulmError as error:
            refused.append(RefusedRecord(error, source_of(message), message.value()))
    return refused


def _steps(messages: Sequence[Message]) -> Iterator[tuple[Sequence[Message], bool]]:
    """Split records into steps, each with whether it is the last one; no records are one step."""
    first, size = 0, 0
    for number, message in enumerate(messages):
        if number > first and (number - first >= _STEP_RECORDS or size >= _STEP_BYTES):
            yield messages[first:number], False
            first, size = number, 0
        size += len(message.value() or b"")
    yield messages[first:], True
