"""Temporary storage of an edge on disk: bounded, and deleted with the process (reference 10, 6).

A `SpoolFolder` is a folder with a limit, a `Chunk` is a sequence of entries in memory or in a file. A
`DiskSpool` holds the fields of an incomplete diff, an `IntakeQueue` the changes of a connection that Kafka
has not acknowledged.
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
"""Size at which a chunk gets no further entries."""
_LENGTH: Final = 4
_MEMORY_BYTES: Final = 256 * 1024
_FIELD_HEAD: Final = 22
_KEY: Final = 18
_MOST_PACKETS: Final = 100
_MOST_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct(">QQ?Q")
"""Head of a queued packet: time in ms, source, whether it advances the source's entry, and the new entry."""


class SpoolFolder:
    """A limited number of bytes in a folder. Files of a former run are deleted.

    Writers reserve capacity first and return it later. `used_bytes` is the reserved capacity.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.used_bytes = 0
        self._folder = folder
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob("chunk-*"):
            leftover.unlink()

    def take(self, size: int) -> None:
        """Reserve capacity in bytes. Raises `SpoolFull` if there is not enough."""
        if self.used_bytes + size > self._max_bytes:
            raise SpoolFull(f"{self.used_bytes} of {self._max_bytes} bytes are waiting on disk")
        self.used_bytes += size

    def give(self, size: int) -> None:
        """Return reserved capacity in bytes."""
        self.used_bytes -= size

    def write(self, data: bytes | bytearray) -> Path:
        """Reserve capacity and write bytes to a new file. Returns its path. Raises `SpoolFull`."""
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
        """Return an unnamed file, in memory up to `memory_bytes`. Its owner has to reserve the capacity."""
        # The file outlives the call.
        file: Any = tempfile.SpooledTemporaryFile(max_size=memory_bytes, dir=str(self._folder))  # noqa: SIM115
        return cast(BinaryIO, file)


class Chunk:
    """A sequence of entries (bytes), in memory or in a file. `read` returns them in order, repeatedly."""

    __slots__ = ("_data", "_path", "_spool_folder", "count", "size")

    def __init__(self, folder: SpoolFolder) -> None:
        self.count = 0
        self.size = 0
        self._spool_folder = folder
        self._data = bytearray()
        self._path: Path | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether the chunk was moved to disk."""
        return self._path is not None

    @property
    def is_full(self) -> bool:
        """Whether the next entry has to go to another chunk."""
        return self.size >= CHUNK_BYTES

    def append(self, entry: bytes) -> None:
        """Append an entry. Not allowed after `spill`."""
        assert self._path is None, "a file is written once"
        self._data += len(entry).to_bytes(_LENGTH, "big") + entry
        self.size = len(self._data)
        self.count += 1

    def spill(self) -> None:
        """Move the chunk from memory to disk. Raises `SpoolFull`."""
        if self._path is None:
            self._path = self._spool_folder.write(self._data)
            self._data = bytearray()

    def read(self, at: int, max_items: int, max_bytes: int) -> tuple[list[bytes], int]:
        """Return entries from byte ``at`` on, and the position of the next one.

        Returns at most `max_items` entries of about `max_bytes`, but at least one entry if there is one.
        """
        if self._path is None:
            return self._entries(memoryview(self._data), at, max_items, max_bytes)
        with self._path.open("rb") as file:
            file.seek(at)
            data = file.read(max(max_bytes, _LENGTH))
            if len(data) >= _LENGTH and (first := _LENGTH + int.from_bytes(data[:_LENGTH], "big")) > len(
                data
            ):
                data += file.read(first - len(data))
        entries, behind = self._entries(memoryview(data), 0, max_items, max_bytes)
        return entries, at + behind

    def _entries(self, data: memoryview, at: int, max_items: int, max_bytes: int) -> tuple[list[bytes], int]:
        entries: list[bytes] = []
        begun = at
        while len(entries) < max_items and at + _LENGTH <= len(data):
            end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH], "big")
            if end > len(data) or (entries and end - begun > max_bytes):
                break
            entries.append(bytes(data[at + _LENGTH : end]))
            at = end
        data.release()
        return entries, at

    def drop(self) -> None:
        """Delete the entries and the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._spool_folder.give(self.size)
            self._path = None
        self._data = bytearray()
        self.count = self.size = 0


class DiskSpool:
    """Implements `Spool`. After `keep`, `drop` does nothing and the fields stay until `close`."""

    def __init__(self, folder: SpoolFolder) -> None:
        self.bytes = 0
        self.sizes = OperandSizes()
        """Upper bounds of the growth of each field."""
        self._spool_folder = folder
        self._file = folder.open_file(_MEMORY_BYTES)
        self._kept = False

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Append store keys and operands. Raises `SpoolFull`."""
        data = b"".join(key + len(value).to_bytes(4, "big") + value for key, value in fields)
        self._spool_folder.take(len(data))
        self.bytes += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise SpoolFull(f"a diff that is not whole: {error}") from error
        self.sizes.add(fields)

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all fields, from the first."""
        self._file.seek(0)
        while head := self._file.read(_FIELD_HEAD):
            yield head[:_KEY], self._file.read(int.from_bytes(head[_KEY:], "big"))

    def keep(self) -> None:
        """Keep the fields of a sync that is complete, for the publisher."""
        self._kept = True

    def drop(self) -> None:
        """Delete all fields, unless they are kept."""
        if not self._kept:
            self.close()

    def close(self) -> None:
        """Delete the file. Repeated calls do nothing."""
        self._spool_folder.give(self.bytes)
        self.bytes = 0
        self._file.close()


class WaitingPacket(NamedTuple):
    """A record of `chotki.packets`. `pro`: the new entry of its source, or None if the entry stays."""

    src: int
    pro: int | None
    record: bytes


class WaitingSync(NamedTuple):
    """A whole sync: its T, the fields, the vectors of its blocks, and the two vectors of its commit."""

    t: Id
    spool: DiskSpool
    vectors: list[tuple[Id, bytes]]
    vector: bytes
    after: bytes


class IntakeQueue:
    """The queue of one connection. `bytes` and `count` include the batch that was taken and is not `done`."""

    def __init__(self, folder: SpoolFolder, max_memory_bytes: int) -> None:
        self.bytes = 0
        self.count = 0
        self._spool_folder = folder
        self._max_memory_bytes = max_memory_bytes
        self._queue: deque[Chunk | tuple[int, WaitingSync]] = deque()
        self._at = 0
        """Read position in the first chunk."""
        self._taken_bytes = 0
        self._taken_since_ms: list[int] = []
        self._oldest_ms: int | None = None

    def age_ms(self, now_ms: int) -> int:
        """Return how long the oldest item has waited, in milliseconds."""
        return 0 if self._oldest_ms is None else now_ms - self._oldest_ms

    def put_packet(self, packet: WaitingPacket, now_ms: int) -> None:
        """Append a packet. Raises `SpoolFull`; the packet is not queued then."""
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, Chunk) or last.is_full or last.is_on_disk:
            if isinstance(last, Chunk):
                self._set_aside(last)
            last = Chunk(self._spool_folder)
            self._queue.append(last)
        head = _HEAD.pack(now_ms, packet.src, packet.pro is not None, packet.pro or 0)
        last.append(head + packet.record)
        self._put(len(packet.record), now_ms)

    def put_sync(self, sync: WaitingSync, now_ms: int) -> None:
        """Append a sync. Raises `SpoolFull`."""
        if self._queue and isinstance(last := self._queue[-1], Chunk):
            self._set_aside(last)
        self._queue.append((now_ms, sync))
        self._put(_size(sync), now_ms)

    def take(self) -> list[WaitingPacket] | WaitingSync | None:
        """Return the next packets, or the next sync, or None. Call `done` before the next call."""
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
        """Remove the acknowledged batch. Returns how long each of its items has waited, in seconds."""
        waited_s = [(now_ms - since_ms) / 1000 for since_ms in self._taken_since_ms]
        self.bytes -= self._taken_bytes
        self.count -= len(waited_s)
        self._taken_bytes, self._taken_since_ms = 0, []
        if not self.bytes:
            self._oldest_ms = None
        return waited_s

    def close(self) -> None:
        """Discard everything; the peer sends it again."""
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
        """Finish a chunk, and move it to disk if too much is in memory. Raises `SpoolFull`."""
        chunks = (chunk for chunk in self._queue if isinstance(chunk, Chunk) and not chunk.is_on_disk)
        if sum(chunk.size for chunk in chunks) > self._max_memory_bytes:
            last.spill()

    def _packets(self, entries: list[bytes]) -> list[WaitingPacket]:
        packets = []
        self._taken_since_ms = []
        for entry in entries:
            since_ms, src, counts, pro = _HEAD.unpack_from(entry)
            self._taken_since_ms.append(since_ms)
            packets.append(WaitingPacket(src, pro if counts else None, entry[_HEAD.size :]))
        self._oldest_ms = self._taken_since_ms[0]
        self._taken_bytes = sum(len(packet.record) for packet in packets)
        return packets

    def _drop_first(self, first: Chunk) -> None:
        self._queue.popleft()
        self._at = 0
        first.drop()


def _size(sync: WaitingSync) -> int:
    """Return the size of a sync in bytes, at least 1, so that an empty sync counts as waiting."""
    return sync.spool.bytes + 1
