"""What one connection has taken and Kafka has not acknowledged: first in, first out (reference 9.2, rule 11).

Packets are in memory up to a bound and on disk behind it, so a socket is read on while Kafka is slow. The
fields of a sync have a spool of their own; here stands only its place among the packets.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, NamedTuple

from culm_connectors.chotki.spool.chunk import Chunk
from culm_connectors.chotki.spool.room import SpoolRoom
from culm_connectors.chotki.spool.sync_spool import DiskSpool
from culm_models.chotki.ids import Id

_MOST_PACKETS: Final = 100
_MOST_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct(">QQ?Q")
"""When it was put here, source, whether it moves the source's entry, and where to."""


class WaitingPacket(NamedTuple):
    """A record of `chotki.packets`; `pro`: what it moves its source's entry to, if it does."""

    src: int
    pro: int | None
    record: bytes


class WaitingSync(NamedTuple):
    """A sync that is whole: its T, the fields, the vectors of its blocks, and what its commit says."""

    t: Id
    spool: DiskSpool
    vectors: list[tuple[Id, bytes]]
    vector: bytes
    after: bytes


class IntakeQueue:
    """The queue of one connection. `bytes` and `count`: what is in it, or was taken and is not `done`."""

    def __init__(self, room: SpoolRoom, max_memory_bytes: int) -> None:
        self.bytes = 0
        self.count = 0
        self._room = room
        self._max_memory_bytes = max_memory_bytes
        self._queue: deque[Chunk | tuple[int, WaitingSync]] = deque()
        self._at = 0
        """Where the first chunk is to be read."""
        self._taken_bytes = 0
        self._taken_since_ms: list[int] = []
        self._oldest_ms: int | None = None

    def age_ms(self, now_ms: int) -> int:
        """For how long the oldest of it has waited."""
        return 0 if self._oldest_ms is None else now_ms - self._oldest_ms

    def put_packet(self, packet: WaitingPacket, now_ms: int) -> None:
        """A packet behind all others. Raises `SpoolFull` before it is taken."""
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, Chunk) or last.is_full or last.is_on_disk:
            if isinstance(last, Chunk):
                self._set_aside(last)
            last = Chunk(self._room)
            self._queue.append(last)
        head = _HEAD.pack(now_ms, packet.src, packet.pro is not None, packet.pro or 0)
        last.append(head + packet.record)
        self._put(len(packet.record), now_ms)

    def put_sync(self, sync: WaitingSync, now_ms: int) -> None:
        """A sync behind all others."""
        if self._queue and isinstance(last := self._queue[-1], Chunk):
            self._set_aside(last)
        self._queue.append((now_ms, sync))
        self._put(_size(sync), now_ms)

    def take(self) -> list[WaitingPacket] | WaitingSync | None:
        """The next packets, or the next sync; None where there is nothing. Then `done`."""
        while self._queue:
            first = self._queue[0]
            if not isinstance(first, Chunk):
                self._queue.popleft()
                self._oldest_ms, sync = first
                self._taken_since_ms = [self._oldest_ms]
                self._taken_bytes = _size(sync)
                return sync
            entries, self._at = first.read(self._at, _MOST_PACKETS, _MOST_BYTES)
            if self._at >= first.size:
                self._drop_first(first)
            if entries:
                return self._packets(entries)
        return None

    def done(self, now_ms: int) -> list[float]:
        """What was taken last is acknowledged: for how long each of it has waited, in seconds."""
        waited_s = [(now_ms - since_ms) / 1000 for since_ms in self._taken_since_ms]
        self.bytes -= self._taken_bytes
        self.count -= len(waited_s)
        self._taken_bytes, self._taken_since_ms = 0, []
        if not self.bytes:
            self._oldest_ms = None
        return waited_s

    def close(self) -> None:
        """Let everything go: the peer brings it again."""
        while self._queue:
            first = self._queue[0]
            if isinstance(first, Chunk):
                self._drop_first(first)
            else:
                self._queue.popleft()
                first[1].spool.close()
        self.bytes, self.count, self._oldest_ms = 0, 0, None

    def _put(self, size: int, now_ms: int) -> None:
        self.bytes += size
        self.count += 1
        if self._oldest_ms is None:
            self._oldest_ms = now_ms

    def _set_aside(self, last: Chunk) -> None:
        """Nothing more comes into this chunk. Raises `SpoolFull`."""
        chunks = (one for one in self._queue if isinstance(one, Chunk) and not one.is_on_disk)
        if sum(one.size for one in chunks) > self._max_memory_bytes:
            last.spill()

    def _packets(self, entries: list[bytes]) -> list[WaitingPacket]:
        found = []
        self._taken_since_ms = []
        for entry in entries:
            since_ms, src, counts, pro = _HEAD.unpack_from(entry)
            self._taken_since_ms.append(since_ms)
            found.append(WaitingPacket(src, pro if counts else None, entry[_HEAD.size :]))
        self._oldest_ms = self._taken_since_ms[0]
        self._taken_bytes = sum(len(one.record) for one in found)
        return found

    def _drop_first(self, first: Chunk) -> None:
        self._queue.popleft()
        self._at = 0
        first.drop()


def _size(sync: WaitingSync) -> int:
    """An empty sync waits, too."""
    return sync.spool.bytes + 1
