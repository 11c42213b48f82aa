"""Follows topics into the local store of a protocol: to their ends, then forever.

A protocol contributes an `Applier`. It returns the offsets at which each topic is resumed, and keeps records
together with the offsets behind them, in one transaction of its store. A record that is malformed, or whose
content breaks a rule, is reported on `rejected` and skipped.
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
    """A record that was skipped, with the error. `source` is its topic, partition and offset."""

    error: CulmError
    source: tuple[str, int, int]
    value: bytes | None


class Applier(Protocol):
    """Keeps the records of topics in a store. Topics are named as in the catalogue."""

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return offsets to resume at, including those of this topic; `topic` is its full name."""
        ...

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Keep records of a topic in one transaction, with the offsets behind them unless that is None.

        Returns the records that were refused.
        """
        ...

    async def lost(self, topic: str) -> None:
        """Forget the offsets of a topic: records between them and what the topic still has are gone."""
        ...


class Feed:
    """Reads topics and passes them to an applier in steps; other work has its turn after each step."""

    def __init__(
        self,
        names: Sequence[str],
        applier: Applier,
        refuse: Callable[[RefusedRecord], None],
        *,
        skip_lost: Collection[str] = (),
    ) -> None:
        """`skip_lost`: topics that may lose unread records, since another topic makes up for them."""
        self.at_ends = asyncio.Event()
        """Set when everything that the topics contained at the start is applied."""
        self.readers: dict[str, TopicReader] = {}
        self.records = 0
        """Number of records that were applied or refused."""
        self._applier = applier
        self._refuse = refuse
        self._skip_lost = skip_lost
        self._behind = set(names)
        self._restarts = {name: asyncio.Event() for name in names}

    async def run(self, topics: TopicReaders) -> None:
        """Follow all topics until cancelled.

        Raises `OffsetLost`, `ConsumeFailed`, and the applier's errors.
        """
        async with asyncio.TaskGroup() as group:
            for name in self._restarts:
                group.create_task(self._follow(topics, name))

    def restart(self, name: str) -> None:
        """Open a topic again, at the positions that the applier returns then."""
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
                    # An applier that becomes ready by what was read has to be called even if a topic has
                    # nothing new.
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
        """Apply new batches until a restart is requested."""
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
    """Apply records one by one; return those for which `apply` raises `CulmError`."""
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
