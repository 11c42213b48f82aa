"""Remembers the latest packets of `chotki.packets` and classifies new ones by them (reference 9.2, rule 9).

An id is a source and a sequence number. Packets are remembered as digests, since ids are kept for long and a
packet may have megabytes. The latest ids are in a dictionary, earlier ones in sorted arrays of 20 bytes per
id. The arrays are only searched for ids that are not beyond all others of their source, which is rare.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from culm_models.chotki.ids import OFFSET_BITS
from culm_topics.chotki.records import RecordOrigin

_CHUNK: Final = 65_536
_ROW: Final = np.dtype([("name", "<u8"), ("digest", "<u8"), ("origin", "<u4")])
_OWN_KEY_BYTES: Final = 24
"""Length of the constant part of an edge's id, in bytes; the rest is random for each start."""


class PacketArrival(Enum):
    """Class of an arriving packet."""

    NEW = auto()
    LATE = auto()
    """Its id is below a known id of its source: its writer went back."""
    REPEATED = auto()
    """It arrived before from the same edge and peer."""
    LOOP = auto()
    """It arrived before from another edge or peer: the tree of replicas has a loop."""
    REUSED = auto()
    """Another packet arrived before under its id."""


class Merged(Protocol):
    """The part of the store that is used here: the progress of its newest epoch."""

    @property
    def vector(self) -> Mapping[int, int]:
        """The global vector."""
        ...

    @property
    def packets(self) -> Mapping[int, int]:
        """Offsets up to which the epoch contains `chotki.packets`, by partition."""
        ...


class _PacketDigest(NamedTuple):
    digest: int
    origin: int


class PacketIds:
    """The latest ids of `chotki.packets`, at least `most` of them."""

    def __init__(self, max_packets: int, merged: Merged) -> None:
        self._merged = merged
        self._key = secrets.token_bytes(16)
        self._newest: dict[int, int] = {}
        """Highest read sequence number, by source."""
        self._latest: dict[int, _PacketDigest] = {}
        self._chunks: deque[npt.NDArray[Any]] = deque(maxlen=max(1, -(-max_packets // _CHUNK)))

    def arrives(self, src: int, pro: int, packet: bytes, origin: RecordOrigin) -> PacketArrival:
        """Classify a packet received from a connection."""
        known = self._find(src, pro)
        if known is None:
            is_behind = self._is_behind(src, pro) or pro <= self._merged.vector.get(src, -1)
            return PacketArrival.LATE if is_behind else PacketArrival.NEW
        if known.digest != self._digest(packet):
            return PacketArrival.REUSED
        return PacketArrival.REPEATED if known.origin == self._origin_hash(origin) else PacketArrival.LOOP

    def read(
        self, src: int, pro: int, packet: bytes, origin: RecordOrigin, *, partition: int, offset: int
    ) -> PacketArrival:
        """Classify and remember a packet of the topic that is read for the first time at this offset."""
        arrival = self.arrives(src, pro, packet, origin)
        if (
            arrival is PacketArrival.LATE
            and not self._is_behind(src, pro)
            and offset < self._merged.packets.get(partition, 0)
        ):
            # The epoch has this very packet.
            arrival = PacketArrival.NEW
        self.remember(src, pro, packet, origin)
        return arrival

    def remember(self, src: int, pro: int, packet: bytes, origin: RecordOrigin) -> None:
        """Remember a packet of the topic."""
        self._newest[src] = max(pro >> OFFSET_BITS, self._newest.get(src, 0))
        self._latest[self._name(src, pro)] = _PacketDigest(self._digest(packet), self._origin_hash(origin))
        if len(self._latest) >= _CHUNK:
            self._set_aside()

    def highest(self, src: int) -> int:
        """Return the highest id of a source in the topic or the newest epoch, with offset 0; 0 if unknown."""
        return max(self._newest.get(src, 0) << OFFSET_BITS, self._merged.vector.get(src, 0))

    def sources(self) -> set[int]:
        """Return all sources in the topic or the newest epoch."""
        return self._newest.keys() | self._merged.vector.keys()

    def _is_behind(self, src: int, pro: int) -> bool:
        return pro >> OFFSET_BITS <= self._newest.get(src, -1)

    def _find(self, src: int, pro: int) -> _PacketDigest | None:
        if not self._is_behind(src, pro):
            return None
        name = self._name(src, pro)
        if (digest := self._latest.get(name)) is not None:
            return digest
        for chunk in reversed(self._chunks):
            position = int(np.searchsorted(chunk["name"], np.uint64(name)))
            if position < len(chunk) and chunk["name"][position] == name:
                return _PacketDigest(int(chunk["digest"][position]), int(chunk["origin"][position]))
        return None

    def _set_aside(self) -> None:
        rows = [(name, *known) for name, known in self._latest.items()]
        chunk = np.array(rows, dtype=_ROW)
        chunk.sort(order="name")
        self._chunks.append(chunk)
        self._latest.clear()

    def _name(self, src: int, pro: int) -> int:
        return self._hash(src.to_bytes(8, "big") + (pro >> OFFSET_BITS).to_bytes(8, "big"))

    def _origin_hash(self, origin: RecordOrigin) -> int:
        """Return the hash of an origin, by its edge and peer: a peer that reconnects keeps its hash."""
        return self._hash(origin.edge[:_OWN_KEY_BYTES] + origin.peer.to_bytes(8, "big")) & 0xFFFFFFFF

    def _digest(self, packet: bytes) -> int:
        return self._hash(packet)

    def _hash(self, data: bytes) -> int:
        return int.from_bytes(blake2b(data, digest_size=8, key=self._key).digest(), "little")
