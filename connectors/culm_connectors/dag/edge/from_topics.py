"""What topics bring to an edge's folder, whoever wrote them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Message

from culm_connectors.dag.edge.room import EdgeRoom
from culm_connectors.dag.edge.taking import take_record
from culm_connectors.edge.feed import RefusedRecord, apply_each
from culm_topics.readers.batch import Partition

FOLLOWED: Final = ("dag.blocked", "dag.nodes", "dag.publishes", "dag.shards", "dag.published")
_LOGGER = logging.getLogger(__name__)


class RoomApplier:
    """Applies records to the folder of one room. Implements `Applier`."""

    def __init__(self, room: EdgeRoom) -> None:
        self._room = room

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        """Return the offsets that the folder has; a topic of which it lacks something begins at its start."""
        tables = self._room.folder.tables

        def step(_: object) -> Mapping[Partition, int]:
            if tables.begin_again(name, topic):
                _LOGGER.info("%s is read again from its start", topic)
            return tables.topics.kept()

        return await self._room.work(step)

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        """Judge and keep records in one step."""
        folder = self._room.folder

        def step(_: object) -> Sequence[RefusedRecord]:
            refused = apply_each(records, lambda one: take_record(folder, name, one.key(), one.value()))
            if offsets is not None:
                folder.tables.topics.keep(offsets)
            return refused

        return await self._room.work(step)

    async def lost(self, topic: str) -> None:
        """Read what there is now of a topic when this is opened next."""
        await self._room.work(lambda _: self._room.folder.tables.topics.forget(topic))
