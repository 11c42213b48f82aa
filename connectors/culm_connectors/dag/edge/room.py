"""A room over an edge's folder: durable is what Kafka has acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TypeVar

from culm_connectors.dag.edge.edge_folder import Arrivals, BlockTaken, EdgeFolder
from culm_connectors.dag.edge.refusals import DagRefusals
from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.folder_room import FolderRoom, slices
from culm_connectors.dag.room import SpooledPart
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import BlockOutcome
from culm_connectors.edge.intake import Intake
from culm_connectors.local_store.store_guard import Watching
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import Blocked
from culm_models.dag.wire.messages import AckStatus

_T = TypeVar("_T")
Listener = Callable[[Arrivals], None]


class EdgeRoom(FolderRoom):
    """What one edge offers to its doors. `intake` produces what waits in the folder's outbox."""

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
        self.folder = folder
        self.intake = intake
        self.refusals = refusals
        self.listeners: list[Listener] = []
        """Are told what is new, where the folder is worked on, before it is committed."""
        self.restart: Callable[[str], None] = lambda _: None
        """Has a topic of the catalogue read again, from where the folder says."""
        self._now_s = clock_s
        self._loop = asyncio.get_running_loop()

    async def work(self, step: Callable[[DagFolder], _T], *, metered: bool = False) -> _T:
        """See `FolderRoom`; whoever listens is told what a step has brought."""

        def run(folder: DagFolder) -> _T:
            result = step(folder)
            if arrived := self.folder.take_arrivals():
                for listener in self.listeners:
                    listener(arrived)
                # Called when the step is committed, or about to be: those who are woken ask behind it.
                self._loop.call_soon_threadsafe(self._arrived, arrived)
            return result

        return await super().work(run, metered=metered)

    def _arrived(self, arrived: Arrivals) -> None:
        if arrived.is_outbox_longer:
            self.intake.wake()
        if arrived.is_wanted_again:
            self.restart(SHARDS_TOPIC)
        if arrived.changed:
            self.watches.announce(arrived.changed)

    def take(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockTaken]:
        """Judge and keep what a peer brought, inside of a step."""
        taken = self.folder.take(space, blocks, peer, int(self._now_s()))
        self._loop.call_soon_threadsafe(self.refusals.blocks, taken, blocks, peer)
        return taken

    async def receive(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockOutcome]:
        """See `DagRoom`: Kafka has what is had."""
        taken: list[BlockTaken] = []
        # What comes in no space goes with a publish beside it.
        for some in [blocks] if space is None else slices(blocks):
            taken += await self.work(lambda _, some=some: self.take(space, some, peer), metered=True)  # type: ignore[misc]
            await self.until_allowed()
        await self.until_acknowledged(number for one in taken for number in one.waits_for)
        return [one.outcome for one in taken]

    async def spool_part(
        self, space: bytes, shard: Cid, size: int, offset: int, data: bytes, peer: bytes
    ) -> SpooledPart:
        """See `DagRoom`: Kafka has what is had."""
        part = await super().spool_part(space, shard, size, offset, data, peer)
        return await self._until_kept(shard, part) if part.status is AckStatus.HAD else part

    async def accept(self, shard: Cid, peer: bytes) -> SpooledPart:
        """Verify a spool that is whole and keep it; returns once Kafka has it."""
        part = await super().accept(shard, peer)
        if part.status in (AckStatus.DURABLE, AckStatus.HAD):
            return await self._until_kept(shard, part)
        if part.status is AckStatus.REFUSED and part.code is not None and part.code != Blocked.code:
            self.refusals.shard(shard, part.code, peer)
        return part

    async def _until_kept(self, shard: Cid, part: SpooledPart) -> SpooledPart:
        await self.until_durable(shard)
        # What was dropped meanwhile (R33) is promised to nobody: who brings it again hears why.
        is_here = await self.work(lambda folder: folder.has_shard(shard))
        return part if is_here else SpooledPart(AckStatus.LATER)

    async def until_durable(self, cid: Cid) -> None:
        """Wait until Kafka has all that waits under a CID."""
        await self.until_acknowledged(await self.work(lambda _: self.folder.tables.numbers_of(cid)))

    async def until_acknowledged(self, numbers: Iterable[int]) -> None:
        """Wait until Kafka has these items of the outbox."""
        left = set(numbers)
        await self.intake.wait_until(lambda: left.isdisjoint(self.folder.waiting))

    async def until_idle(self) -> None:
        """Wait until Kafka has everything that peers have brought."""
        await self.intake.wait_until(lambda: not self.folder.waiting)
