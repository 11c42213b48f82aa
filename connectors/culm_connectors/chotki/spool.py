"""What an edge keeps on disk for a while: bounded, and nothing of it outlives the process (reference 10, 6).

`SpoolRoom` is a folder and its bound, a `Chunk` some entries in memory or in a file. A `DiskSpool` holds the
fields of a diff that is not whole, an `IntakeQueue` what a connection brought and Kafka has not acknowledged.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from culm_connectors.chotki.storage_limits import OperandSizes
from culm_models.chotki.errors import SpoolFull
from culm_models.chotki.ids import Id

CHUNK_BYTES: Final = 1 << 20
"""A chunk that has so much gets no further entry."""
_LENGTH: Final = 4
_MEMORY_BYTES: Final = 256 * 1024
_FIELD_HEAD: Final = 22
_KEY: Final = 18
_MOST_PACKETS: Final = 100
_MOST_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct(">QQ?Q")
"""When it was put here, source, whether it moves the source's entry, and where to."""


class SpoolRoom:
    """So many bytes in a folder. What a former run left there is removed.

    Whoever writes takes the room before and gives it back. `used_bytes` is what is taken.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.used_bytes = 0
        self._folder = folder
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        folder.mkdir(parents=True, exist_ok=True)
        for one in folder.glob("chunk-*"):
            one.unlink()

    def take(self, size: int) -> None:
        """Raises `SpoolFull` where there is no room for so many bytes more."""
        if self.used_bytes + size > self._max_bytes:
            raise SpoolFull(f"{self.used_bytes} of {self._max_bytes} bytes are waiting on disk")
        self.used_bytes += size

    def give(self, size: int) -> None:
        """So many bytes are needed no longer."""
        self.used_bytes -= size

    def write(self, data: bytes | bytearray) -> Path:
        """Keep these bytes in a file of their own, of which the room is taken. Raises `SpoolFull`."""
        self.take(len(data))
        path = self._folder / f"chunk-{next(self._numbers)}"
        try:
            path.write_bytes(data)
        except OSError as error:
            self.give(len(data))
            path.unlink(missing_ok=True)
            raise SpoolFull(f"{path}: {error}") from error
        return path

    def open_file(self, memory_bytes: int) -> BinaryIO:
        """A file without a name, in memory while it is small. The room is its owner's to take."""
        # It outlives the call.
        file: Any = tempfile.SpooledTemporaryFile(max_size=memory_bytes, dir=str(self._folder))  # noqa: SIM115
        return cast(BinaryIO, file)


class Chunk:
    """Entries of any bytes; `read` gives them back in their order, as often as one likes."""

    __slots__ = ("_data", "_path", "_room", "count", "size")

    def __init__(self, room: SpoolRoom) -> None:
        self.count = 0
        self.size = 0
        self._room = room
        self._data = bytearray()
        self._path: Path | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether it was spilled."""
        return self._path is not None

    @property
    def is_full(self) -> bool:
        """Whether the next entry belongs into another one."""
        return self.size >= CHUNK_BYTES

    def append(self, entry: bytes) -> None:
        """One entry more; none after `spill`."""
        assert self._path is None, "a file is written once"
        self._data += len(entry).to_bytes(_LENGTH, "big") + entry
        self.size = len(self._data)
        self.count += 1

    def spill(self) -> None:
        """Move it from memory to the disk. Raises `SpoolFull`."""
        if self._path is None:
            self._path = self._room.write(self._data)
            self._data = bytearray()

    def read(self, at: int, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        """Entries from byte ``at`` on, and where the next one begins: one at least, if there is any."""
        if self._path is None:
            return self._entries(memoryview(self._data), at, most, most_bytes)
        with self._path.open("rb") as file:
            file.seek(at)
            data = file.read(max(most_bytes, _LENGTH))
            if len(data) >= _LENGTH and (first := _LENGTH + int.from_bytes(data[:_LENGTH], "big")) > len(
                data
            ):
                data += file.read(first - len(data))
        found, behind = self._entries(memoryview(data), 0, most, most_bytes)
        return found, at + behind

    def _entries(self, data: memoryview, at: int, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        found: list[bytes] = []
        begun = at
        while len(found) < most and at + _LENGTH <= len(data):
            end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH], "big")
            if end > len(data) or (found and end - begun > most_bytes):
                break
            found.append(bytes(data[at + _LENGTH : end]))
            at = end
        data.release()
        return found, at

    def drop(self) -> None:
        """It is needed no longer."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._room.give(self.size)
            self._path = None
        self._data = bytearray()
        self.count = self.size = 0


class DiskSpool:
    """Implements `Spool`. `keep` takes it away from its session: what is in it stays until `close`."""

    def __init__(self, room: SpoolRoom) -> None:
        self.bytes = 0
        self.sizes = OperandSizes()
        """How much each field may grow."""
        self._room = room
        self._file = room.open_file(_MEMORY_BYTES)
        self._kept = False

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """See `Spool.extend`. Raises `SpoolFull`."""
        data = b"".join(key + len(value).to_bytes(4, "big") + value for key, value in fields)
        self._room.take(len(data))
        self.bytes += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise SpoolFull(f"a diff that is not whole: {error}") from error
        self.sizes.add(fields)

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Spool.fields`."""
        self._file.seek(0)
        while head := self._file.read(_FIELD_HEAD):
            yield head[:_KEY], self._file.read(int.from_bytes(head[_KEY:], "big"))

    def keep(self) -> None:
        """It is whole, and somebody else's now."""
        self._kept = True

    def drop(self) -> None:
        """See `Spool.drop`."""
        if not self._kept:
            self.close()

    def close(self) -> None:
        """Let the file go; again does nothing."""
        self._room.give(self.bytes)
        self.bytes = 0
        self._file.close()


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
