"""Payloads whose chunks are arriving, many at a time, within limits of bytes and of files."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from culm_topics.errors import PayloadHashRefused
from culm_topics.logs.payload_chunks import PayloadAssembly
from culm_topics.logs.records import PayloadChunkRecord

MAX_UNFINISHED: Final = 200
"""Limit of payloads at once; each may have a file open."""
MAX_REMEMBERED: Final = 10_000
"""Limit of remembered hashes of whole payloads: a repeated chunk of one of them is ignored."""


@dataclass(slots=True)
class _Begun:
    assembly: PayloadAssembly
    partition: int
    first_offset: int


class UnfinishedPayloads:
    """Assembles payloads. Chunks of one hash with different payload sizes are assembled separately.

    Beyond `max_bytes` in total, or `MAX_UNFINISHED` payloads, the oldest payload is given up.
    """

    def __init__(self, max_payload_bytes: int, max_bytes: int) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._max_bytes = max_bytes
        # A chunk with a wrong size must not spoil the correct ones: sizes are kept apart.
        self._begun: OrderedDict[tuple[bytes, int], _Begun] = OrderedDict()
        self._whole: OrderedDict[bytes, None] = OrderedDict()
        self._given_up: list[bytes] = []
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._begun)

    def add(
        self, payload_hash: bytes, record: PayloadChunkRecord, partition: int, offset: int
    ) -> PayloadAssembly | None:
        """Add a chunk from this position. Returns the payload, now the caller's, if it is whole.

        Raises `PayloadTooLarge`, `PayloadHashRefused`, `RecordError`; the payload is dropped then.
        """
        if payload_hash in self._whole:
            return None
        name = payload_hash, record.payload_size
        begun = self._begun.get(name)
        if begun is None:
            assembly = PayloadAssembly(payload_hash, record.payload_size, max_bytes=self._max_payload_bytes)
            begun = self._begun[name] = _Begun(assembly, partition, offset)
        before = begun.assembly.held_bytes
        try:
            is_whole = begun.assembly.add(record)
        except PayloadHashRefused:
            self.held_bytes -= before
            self._let_go(name)
            raise
        self.held_bytes += begun.assembly.held_bytes - before
        if is_whole:
            self.held_bytes -= begun.assembly.held_bytes
            del self._begun[name]
            for other in [other for other in self._begun if other[0] == payload_hash]:
                self._let_go(other)
            self._whole[payload_hash] = None
            if len(self._whole) > MAX_REMEMBERED:
                self._whole.popitem(last=False)
            return begun.assembly
        while len(self._begun) > MAX_UNFINISHED or (
            self.held_bytes > self._max_bytes and len(self._begun) > 1
        ):
            oldest = next(iter(self._begun))
            self._let_go(oldest)
            self._given_up.append(oldest[0])
        return None

    def take_abandoned(self) -> list[bytes]:
        """Return the hashes of the payloads given up since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def positions(self, read: Mapping[int, int]) -> dict[int, int]:
        """Return the positions to resume from: `read`, or an earlier first chunk of an unfinished payload."""
        positions = dict(read)
        for begun in self._begun.values():
            first = min(positions.get(begun.partition, begun.first_offset), begun.first_offset)
            positions[begun.partition] = first
        return positions

    def close(self) -> None:
        """Drop everything that is not whole."""
        for begun in self._begun.values():
            begun.assembly.close()
        self._begun.clear()
        self.held_bytes = 0

    def _let_go(self, name: tuple[bytes, int]) -> None:
        begun = self._begun.pop(name)
        self.held_bytes -= begun.assembly.held_bytes
        begun.assembly.close()
