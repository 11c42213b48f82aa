"""A replica in memory: an `ExchangeStore`, and the validation that the driver of a connection performs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.multihash import check_block
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.exchange.ranges import all_chunks, chunk_bit
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.publish.authority import is_final
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.wire.messages import AckStatus

NOW: Final = 1_700_000_000
"""Time of receipt of all data."""


class MemoryReplica:
    """Nodes and shards of any number of spaces, without limits."""

    def __init__(self) -> None:
        self.machine = PublishMachine()
        self.blocks: dict[Cid, bytes] = {}
        self.places: dict[bytes, set[Cid]] = {}
        self.shard_bytes: dict[Cid, bytes] = {}
        self.shard_places: dict[bytes, set[Cid]] = {}
        self.spools: dict[tuple[bytes, Cid], tuple[bytearray, int]] = {}
        self.refused: dict[Cid, str] = {}
        self._needs: dict[Cid, tuple[Cid, ...]] = {}

    # Validation.

    def put(self, space: bytes, cid: Cid, block: bytes) -> tuple[AckStatus, str | None]:
        """Validate and store a node or UCAN; returns its status, and its code if it is refused."""
        if cid in self.places.get(space, ()):
            return AckStatus.HAD, None
        try:
            self.machine.add(cid, block, NOW)
        except DagError as error:
            if is_final(error):
                self.refused[cid] = error.code
            return AckStatus.REFUSED, error.code
        finally:
            self._drop_fallen()
        self.blocks[cid] = block
        self._needs[cid] = needs_of_block(cid, block)
        self.places.setdefault(space, set()).add(cid)
        node = self.machine.nodes.get(cid)
        for shard in node.shards if node else ():
            self.shard_places.setdefault(space, set()).add(shard)
        return AckStatus.DURABLE, None

    def _drop_fallen(self) -> None:
        for cid, error in self.machine.refused.items():
            self.refused.setdefault(cid, error.code)
            if self.blocks.pop(cid, None) is not None:
                for places in self.places.values():
                    places.discard(cid)

    def accept(self, peer: bytes, space: bytes, shard: Cid) -> tuple[AckStatus, str | None]:
        """Verify a spooled shard and store it; another connection of the peer may have done so already."""
        if not self._is_whole(peer, shard):
            return (AckStatus.HAD if shard in self.shard_bytes else AckStatus.LATER), None
        data = bytes(self.spools.pop((peer, shard))[0])
        return self.add_shard(space, shard, data)

    def add_shard(self, space: bytes, shard: Cid, data: bytes) -> tuple[AckStatus, str | None]:
        """Verify a shard and store it."""
        try:
            check_block(shard, data)
            self.machine.add(shard, data, NOW)
        except DagError as error:
            return AckStatus.REFUSED, error.code
        had = shard in self.shard_bytes
        self.shard_bytes[shard] = data
        self.shard_places.setdefault(space, set()).add(shard)
        return (AckStatus.HAD if had else AckStatus.DURABLE), None

    # `ExchangeStore`.

    def dag_heads(self, space: bytes) -> Sequence[Cid]:
        """Return the heads among the held nodes of a space."""
        return self._heads(space, is_publish=False)

    def publish_heads(self, space: bytes) -> Sequence[Cid]:
        """Return the publishes that no other publish follows, and the UCANs that no held block needs."""
        placed = self.places.get(space, set())
        needed = {need for cid in placed for need in self._needs[cid]}
        loose = {cid for cid in placed - needed if cid not in self.machine.nodes}
        return sorted({*self._heads(space, is_publish=True), *loose})

    def _heads(self, space: bytes, *, is_publish: bool) -> list[Cid]:
        known = self.machine.nodes
        nodes = {cid: known[cid] for cid in self.places.get(space, ()) if cid in known}
        below = {parent for node in nodes.values() for parent in node.parents}
        return sorted(
            cid for cid, node in nodes.items() if node.is_publish is is_publish and cid not in below
        )

    def tip(self, space: bytes) -> Cid | None:
        """Return the last publish; None if there is none."""
        order = self.machine.order(space)
        return order.order(len(order) - 1)[0] if len(order) else None

    def missing_nodes(self, space: bytes, limit: int) -> Sequence[Cid]:
        """Return nodes that held blocks need and that are not held, at most `limit`."""
        needs = {need for cid in self.places.get(space, ()) for need in self._needs[cid]}
        return sorted(need for need in needs if not self.has_node(space, need))[:limit]

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """Whether a node need not be requested: it is held or refused."""
        return cid in self.places.get(space, ()) or cid in self.refused

    def refused_with(self, cid: Cid) -> str | None:
        """Return the code with which a node is finally refused; None if it is not."""
        return self.refused.get(cid)

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """Return the block of a node; None if the space does not have it."""
        return self.blocks.get(cid) if cid in self.places.get(space, ()) else None

    def shards(self, space: bytes) -> Iterable[tuple[Cid, int]]:
        """Return the whole shards of a space with their sizes in bytes."""
        named = sorted(self.shard_places.get(space, ()))
        return [(cid, len(self.shard_bytes[cid])) for cid in named if cid in self.shard_bytes]

    def has_shard(self, cid: Cid) -> bool:
        """Whether a shard is held whole."""
        return cid in self.shard_bytes

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """Return the size of a held shard of this space in bytes; None without one."""
        if cid not in self.shard_places.get(space, ()) or cid not in self.shard_bytes:
            return None
        return len(self.shard_bytes[cid])

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """Read bytes of a shard."""
        return self.shard_bytes[cid][offset : offset + length]

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Reserve space for a shard; there is always capacity."""
        if shard in self.shard_bytes:
            return NotReserved(AckStatus.HAD)
        data, bits = self.spools.setdefault((peer, shard), (bytearray(size), 0))
        if len(data) != size:
            bits = 0
            self.spools[peer, shard] = (bytearray(size), 0)
        return Reserved(bits)

    def release(self, peer: bytes, shard: Cid) -> None:
        """Delete an empty spool."""
        if self.spools.get((peer, shard), (b"", 1))[1] == 0:
            del self.spools[peer, shard]

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """Store one chunk; returns False without a spool."""
        if (peer, shard) not in self.spools:
            return False
        content, bits = self.spools[peer, shard]
        content[offset : offset + len(data)] = data
        self.spools[peer, shard] = (content, bits | chunk_bit(offset))
        return True

    def _is_whole(self, peer: bytes, shard: Cid) -> bool:
        content, bits = self.spools.get((peer, shard), (b"", 0))
        return bool(content) and bits == all_chunks(len(content))
