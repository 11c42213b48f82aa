"""Live packets of all edges: those that the newest epoch does not have (reference 9.2, rules 6 and 7).

Every edge reads `chotki.packets`. The packets that no epoch has yet are the tail. It is in memory up to one
limit; beyond it the oldest packets are on disk, up to another limit. Beyond that the oldest packets are
dropped, and no new session is served before an epoch has them.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from culm_connectors.chotki.spool import Chunk, SpoolFolder
from culm_connectors.chotki.warnings.packet_ids import PacketArrival, PacketIds
from culm_connectors.kafka import TopicReader
from culm_models.chotki.errors import ChotkiError, SpoolFull
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse, read_head
from culm_topics.chotki.records import PacketRecord
from culm_topics.errors import RecordError
from culm_topics.readers.batch import Batch

logger = logging.getLogger(__name__)

_TURN_PACKETS = 20

_READ_PACKETS: Final = 64
_READ_BYTES: Final = 256 * 1024
_LATE_PACKETS: Final = 1_000
_LATE_BYTES: Final = 8 * 1024 * 1024
_HEAD: Final = struct.Struct(">I?QQQQQB")


class RelayedPacket(NamedTuple):
    """A packet of `chotki.packets`, with its position, the entry that it builds on, and its session."""

    partition: int
    offset: int
    src: int
    pro: int
    after: int
    session: tuple[bytes, int]
    packet: bytes
    is_late: bool = False
    """Whether peers need it even if they hold later entries of its source, whose writer went back."""

    def encode(self) -> bytes:
        """Encode the packet for the tail."""
        edge, number = self.session
        head = _HEAD.pack(
            self.partition, self.is_late, self.offset, self.src, self.pro, self.after, number, len(edge)
        )
        return head + edge + self.packet

    @classmethod
    def decode(cls, entry: bytes) -> RelayedPacket:
        """Decode an entry of the tail."""
        partition, is_late, offset, src, pro, after, number, size = _HEAD.unpack_from(entry)
        at = _HEAD.size + size
        session = (entry[_HEAD.size : at], number)
        return cls(partition, offset, src, pro, after, session, entry[at:], is_late)


class TailPosition(NamedTuple):
    """A place in the tail: the number of the next packet, in the order of reading.

    `at` is the offset of the packet in its chunk.
    """

    number: int
    at: int


@dataclass(slots=True)
class _Segment:
    """Packets from number `first` on. `ends`: by partition, the offset after the last of them."""

    first: int
    chunk: Chunk
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The number after the last packet."""
        return self.first + self.chunk.count


class PacketTail:
    """The packets that the newest epoch does not have yet. `ids` has the known ids of all packets.

    At most about `max_memory_bytes` of them are in memory, and on disk as much as `folder` allows.
    """

    def __init__(self, ids: PacketIds, folder: SpoolFolder, *, max_memory_bytes: int) -> None:
        self.ids = ids
        self.positions: dict[int, int] = {}
        """By partition: the offset up to which all packets were read."""
        self._folder = folder
        self._max_memory_bytes = max_memory_bytes
        self._segments = [_Segment(0, Chunk(folder))]
        self._late: deque[tuple[int, RelayedPacket]] = deque()
        """The last late packets with their numbers, also dropped ones: no sync sends them to a peer."""
        self._late_bytes = 0
        self._begin: Mapping[int, int] = {}
        """By partition: the offset before which only the ids of packets are kept."""
        self._dropped: dict[int, int] = {}
        """By partition: the offset after the last dropped packet."""
        self._moved = asyncio.Event()

    def begin_at(self, offsets: Mapping[int, int]) -> None:
        """Set the offsets that the first served epoch covers."""
        self._begin = dict(offsets)

    @property
    def bytes(self) -> int:
        """Size of the tail in memory and on disk, in bytes."""
        return sum(segment.chunk.size for segment in self._segments)

    @property
    def start(self) -> TailPosition:
        """The place of the oldest packet in the tail."""
        return TailPosition(self._segments[0].first, 0)

    @property
    def end(self) -> int:
        """The number of the next packet that is appended."""
        return self._segments[-1].end

    def __len__(self) -> int:
        return self.end - self._segments[0].first

    def reaches_back_to(self, offsets: Mapping[int, int]) -> bool:
        """Whether the tail has all packets that are missing in an epoch that covers these offsets."""
        return all(offset <= offsets.get(partition, 0) for partition, offset in self._dropped.items())

    def read(self, position: TailPosition) -> tuple[list[RelayedPacket], TailPosition]:
        """Return some packets from a position on, and the position after them.

        Among dropped packets only late ones are returned, since no epoch sends them; others are skipped.
        """
        if position.number < (start := self.start).number:
            late = [packet for number, packet in self._late if position.number <= number < start.number]
            if late:
                return late, start
        if position.number >= self.end:
            return [], position
        after = bisect_right(self._segments, position.number, key=lambda segment: segment.first)
        segment = self._segments[max(0, after - 1)]
        at = position.at if position.number > segment.first else 0
        entries, behind = segment.chunk.read(at, _READ_PACKETS, _READ_BYTES)
        number = max(position.number, segment.first) + len(entries)
        return [RelayedPacket.decode(data) for data in entries], TailPosition(number, behind)

    def forget(self, offsets: Mapping[int, int]) -> None:
        """Drop packets that are not needed any more, because the store has an epoch up to these offsets."""
        while all(end <= offsets.get(partition, 0) for partition, end in self._segments[0].ends.items()):
            if not self._segments[0].chunk.count:
                return
            self._drop_first()

    def take(self, batch: Batch) -> list[RelayedPacket]:
        """Add packets that were read, and return them. Malformed ones are skipped; the job refuses them."""
        relayed_packets = []
        for message in batch.messages:
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert partition is not None and offset is not None, "a record has a place"
            try:
                record = PacketRecord.decode(value)
                if offset < self._begin.get(partition, 0):
                    id = Id.unzip(read_head(record.packet).id_bytes, compat=record.compat)
                    self.ids.remember(id.src, id.pro, record.packet, record.origin)
                    continue
                packet = parse(record.packet, compat=record.compat)
                live = read_live(packet, record.packet, compat=record.compat)
            except (RecordError, ChotkiError) as error:
                logger.debug("chotki.packets/%d at %d: %s", partition, offset, error)
                continue
            src, pro, origin = live.id.src, live.entry.pro, record.origin
            arrival = self.ids.read(src, pro, record.packet, origin, partition=partition, offset=offset)
            relayed = RelayedPacket(
                partition,
                offset,
                src,
                pro,
                record.after,
                (origin.edge, origin.session),
                record.packet,
                arrival in (PacketArrival.LATE, PacketArrival.REUSED),
            )
            self._append(relayed)
            relayed_packets.append(relayed)
        for (_, partition), offset in batch.offsets.items():
            self.positions[partition] = offset
        self._moved.set()
        return relayed_packets

    async def until_at(self, offsets: Mapping[int, int]) -> None:
        """Wait until all packets before these offsets are read."""
        while any(self.positions.get(partition, 0) < offset for partition, offset in offsets.items()):
            self._moved.clear()
            await self._moved.wait()

    def _append(self, packet: RelayedPacket) -> None:
        if self._segments[-1].chunk.is_full:
            self._spill()
            if self._segments[-1].chunk.count:
                self._segments.append(_Segment(self.end, Chunk(self._folder)))
        if packet.is_late:
            self._keep_late(packet)
        last = self._segments[-1]
        last.chunk.append(packet.encode())
        last.ends[packet.partition] = packet.offset + 1

    def _keep_late(self, packet: RelayedPacket) -> None:
        self._late.append((self.end, packet))
        self._late_bytes += len(packet.packet)
        while len(self._late) > _LATE_PACKETS or self._late_bytes > _LATE_BYTES:
            self._late_bytes -= len(self._late.popleft()[1].packet)

    def _spill(self) -> None:
        """Move the oldest chunks to disk until the memory limit holds. Drops the oldest if disk is full."""
        in_memory = [segment for segment in self._segments if not segment.chunk.is_on_disk]
        size = sum(segment.chunk.size for segment in in_memory)
        for segment in in_memory:
            if size <= self._max_memory_bytes:
                return
            size -= segment.chunk.size
            while not segment.chunk.is_on_disk and segment.chunk.count:
                try:
                    segment.chunk.spill()
                except SpoolFull as error:
                    logger.warning("the tail of live packets loses its oldest: %s", error)
                    for partition, end in self._segments[0].ends.items():
                        self._dropped[partition] = max(end, self._dropped.get(partition, 0))
                    self._drop_first()

    def _drop_first(self) -> None:
        first = self._segments.pop(0)
        if not self._segments:
            self._segments.append(_Segment(first.end, Chunk(self._folder)))
        first.chunk.drop()


async def follow_packets(
    reader: TopicReader, tail: PacketTail, relay: Callable[[list[RelayedPacket]], None]
) -> None:
    """Read packets into the tail in short turns and pass them to `relay`, until cancelled."""
    while True:
        batch = await reader.get()
        for start in range(0, max(1, len(batch.messages)), _TURN_PACKETS):
            messages = batch.messages[start : start + _TURN_PACKETS]
            is_last = start + _TURN_PACKETS >= len(batch.messages)
            relay(tail.take(Batch(messages, batch.offsets if is_last else {})))
            await asyncio.sleep(0)
