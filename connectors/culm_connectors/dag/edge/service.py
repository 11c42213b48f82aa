"""A service over an edge's folder: data is durable once Kafka has acknowledged it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

from culm_connectors.dag.edge.edge_folder import EdgeFolder
from culm_connectors.dag.edge.refusals import DagRefusals
from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.service import BlockTaken, DagService, SpooledPart
from culm_connectors.edge.intake import Intake
from culm_connectors.local_store.store_guard import Watching
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import Blocked
from culm_models.dag.wire.messages import AckStatus


class EdgeDagService(DagService):
    """The interface of one edge for its doors. `intake` produces the folder's outbox."""

    folder: EdgeFolder

    def __init__(
        self,
        folder: EdgeFolder,
        intake: Intake,
        refusals: DagRefusals,
        clock_s: Callable[[], float] = time.time,
        *,
        busy_share: float = 0.0,
        busy_burst_s: float = 1.0,
        watching: Watching = nullcontext,
    ) -> None:
        super().__init__(folder, clock_s, busy_share=busy_share, busy_burst_s=busy_burst_s, watching=watching)
        self.intake = intake
        self.refusals = refusals
        self.restart: Callable[[str], None] = lambda _: None
        """Reads a topic of the catalogue again, from the offsets in the folder."""

    def commit(self, by: object = None) -> None:
        """Commit the step, and wake the outbox and the reader of shards if the step gave them work."""
        super().commit(by)
        folder = self.folder
        if folder.is_outbox_longer:
            self._loop.call_soon_threadsafe(self.intake.wake)
        if folder.is_wanted_again:
            self._loop.call_soon_threadsafe(self.restart, SHARDS_TOPIC)
        folder.is_outbox_longer = folder.is_wanted_again = False

    def take(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockTaken]:
        """Validate and keep a peer's blocks, inside of a step, and report those that are refused."""
        taken = self.folder.take(space, blocks, peer, int(self._clock_s()))
        self._loop.call_soon_threadsafe(self.refusals.blocks, taken, blocks, peer)
        return taken

    async def spool_part(
        self, space: bytes, shard: Cid, size: int, offset: int, data: bytes, peer: bytes
    ) -> SpooledPart:
        """Keep a part of a shard; HAD is returned only once Kafka has the shard."""
        part = await super().spool_part(space, shard, size, offset, data, peer)
        return await self._until_kept(shard, part) if part.status is AckStatus.HAD else part

    async def accept(self, shard: Cid, peer: bytes, by: object = None) -> SpooledPart:
        """Verify and keep a complete spool; returns once Kafka has the shard."""
        part = await super().accept(shard, peer, by)
        if part.status in (AckStatus.DURABLE, AckStatus.HAD):
            return await self._until_kept(shard, part)
        if part.status is AckStatus.REFUSED and part.code is not None and part.code != Blocked.code:
            self.refusals.shard(shard, part.code, peer)
        return part

    async def _until_kept(self, shard: Cid, part: SpooledPart) -> SpooledPart:
        await self.until_acknowledged(await self.work(lambda _: self.folder.tables.numbers_of(shard)))
        # A shard that was dropped meanwhile (R33) is not acknowledged; a peer that sends it again gets the
        # reason.
        is_here = await self.work(lambda folder: folder.shard_path(shard) is not None)
        return part if is_here else SpooledPart(AckStatus.LATER)

    async def until_acknowledged(self, numbers: Iterable[int]) -> None:
        """Wait until Kafka has acknowledged these items of the outbox."""
        left = set(numbers)
        await self.intake.wait_until(lambda: left.isdisjoint(self.folder.waiting))

    async def until_idle(self) -> None:
        """Wait until Kafka has everything that peers sent."""
        await self.intake.wait_until(lambda: not self.folder.waiting)
