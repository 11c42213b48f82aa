"""Live packets from Kafka to the peers of this edge: the tail beyond the newest epoch, and what arrives.

Every edge reads `chotki.packets`. A packet goes to a peer that holds what it builds on and does not hold it
itself (`peer_holding`); what cannot go so is brought by a follow-up sync from a later epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from culm_connectors.chotki.warnings.packet_ids import Arrival, PacketIds
from culm_connectors.kafka import Batch, TopicReader
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_topics.chotki.records import PacketRecord
from culm_topics.errors import RecordError

logger = logging.getLogger(__name__)


class RelayedPacket(NamedTuple):
    """A packet of `chotki.packets`: where it lies, what it builds on, and which session brought it."""

    partition: int
    offset: int
    src: int
    pro: int
    after: int
    session: tuple[bytes, int]
    packet: bytes
    is_late: bool = False
    """Whoever holds its source beyond it lacks it all the same: its writer went back."""


class PacketTail:
    """The packets that the newest epoch does not have yet, and what is known of those before.

    Beyond `max_bytes` the oldest are dropped: then nobody new is served before an epoch has them.
    """

    def __init__(self, max_bytes: int, ids: PacketIds) -> None:
        self.positions: dict[int, int] = {}
        """By partition: up to where everything was read."""
        self.bytes = 0
        self.ids = ids
        self._max_bytes = max_bytes
        self._packets: deque[RelayedPacket] = deque()
        self._dropped: dict[int, int] = {}
        """By partition: behind the last packet that was dropped."""
        self._moved = asyncio.Event()

    def reaches_back_to(self, offsets: Mapping[int, int]) -> bool:
        """Whether all packets are here that an epoch which covers up to these offsets does not have."""
        return all(offset <= offsets.get(partition, 0) for partition, offset in self._dropped.items())

    def __len__(self) -> int:
        return len(self._packets)

    def beyond(self, offsets: Mapping[int, int]) -> Iterator[RelayedPacket]:
        """Packets that an epoch which covers up to these offsets does not have, as they were read."""
        for one in self._packets:
            if one.offset >= offsets.get(one.partition, 0):
                yield one

    def forget(self, offsets: Mapping[int, int]) -> None:
        """Epochs up to these offsets are in the store, and no open handshake needs what is before."""
        kept: deque[RelayedPacket] = deque()
        for one in self._packets:
            if one.offset >= offsets.get(one.partition, 0):
                kept.append(one)
            else:
                self.bytes -= len(one.packet)
        self._packets = kept

    def take(self, batch: Batch) -> list[RelayedPacket]:
        """Packets as they were read; what is none was refused by the job."""
        found = []
        for message in batch.messages:
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert partition is not None and offset is not None, "a record has a place"
            try:
                record = PacketRecord.decode(value)
                live = read_live(parse(record.packet), record.packet)
            except (RecordError, ChotkiError) as error:
                logger.debug("chotki.packets/%d at %d: %s", partition, offset, error)
                continue
            src, pro, bringer = live.id.src, live.entry.pro, record.bringer
            arrival = self.ids.read(src, pro, record.packet, bringer, partition=partition, offset=offset)
            one = RelayedPacket(
                partition,
                offset,
                src,
                pro,
                record.after,
                (bringer.edge, bringer.session),
                record.packet,
                arrival in (Arrival.LATE, Arrival.REUSED),
            )
            self._packets.append(one)
            self.bytes += len(one.packet)
            found.append(one)
        while self.bytes > self._max_bytes:
            lost = self._packets.popleft()
            self.bytes -= len(lost.packet)
            self._dropped[lost.partition] = lost.offset + 1
        for (_, partition), offset in batch.offsets.items():
            self.positions[partition] = offset
        self._moved.set()
        return found

    async def until_at(self, offsets: Mapping[int, int]) -> None:
        """Wait until everything before these offsets was read."""
        while any(self.positions.get(partition, 0) < offset for partition, offset in offsets.items()):
            self._moved.clear()
            await self._moved.wait()


async def follow_packets(
    reader: TopicReader, tail: PacketTail, relay: Callable[[RelayedPacket], None]
) -> None:
    """Read packets for ever, and hand each to `relay`."""
    while True:
        for one in tail.take(await reader.get()):
            relay(one)
