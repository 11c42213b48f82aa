"""What a process that keeps DAGs offers to its doors (QUIC, HTTP): one interface behind both.

A door knows who asks and what they may; the room judges, keeps and finds. What it calls durable survives the
process: in a folder once it is on the disk, at an edge (`edge/room`) once Kafka has acknowledged it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.outcomes import BlockOutcome, FolderChanges, Lack, PublishedDag
from culm_connectors.dag.store.shard_table import verify_shard
from culm_connectors.dag.watches import Watches
from culm_connectors.edge.fair_turns import FairWorker, in_turns
from culm_connectors.local_store.store_guard import Watching
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, ShardSizeChanged, SpoolFull
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.exchange.store import NotReserved
from culm_models.dag.verdict import VerdictSettings
from culm_models.dag.walk.reach import FindBlock
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus

_T = TypeVar("_T")
_VERIFYING: Final = 2
_BLOCKS_A_STEP: Final = 32
Listener = Callable[[FolderChanges, object], None]
"""Is told what changed, and who has brought it where that is known."""


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """What became of a part of a shard."""

    status: AckStatus
    """DURABLE: the shard is whole, verified and durable. HAD: it was here. NOT_HERE: parts are lacking.
    REFUSED and LATER have a code."""
    code: str | None = None
    ranges: tuple[Range, ...] = ()
    """What of the shard lies here for whoever brought the part, while it is not whole."""


@dataclass(frozen=True, slots=True)
class BlockTaken:
    """What became of a block, and what of the outbox it waits for before that may be told."""

    outcome: BlockOutcome
    waits_for: tuple[int, ...] = ()
    is_news: bool = True
    """Of what is refused: whether it was not before, so that it is told on `rejected`."""


class DagRoom:
    """Nodes, shards and orders of an open folder, which nobody uses meanwhile but by `work`.

    For one event loop; nothing blocks it. The caller closes the folder. `peer` is who brings or asks: 32
    bytes, the proven key or a digest of what stands for one.
    """

    def __init__(
        self,
        folder: DagFolder,
        clock_s: Callable[[], float] = time.time,
        *,
        busy_share: float = 0.0,
        busy_burst_s: float = 1.0,
        watching: Watching = nullcontext,
    ) -> None:
        """`busy_share`: how much of the folder's time one caller, and one address, may use; 0: any.

        Each step of work on the folder is within `watching`.
        """
        self.folder = folder
        self._clock_s = clock_s
        self._worker = FairWorker(
            "dag-room", busy_share=busy_share, busy_burst_s=busy_burst_s, watching=watching
        )
        self._verifiers = FairWorker("dag-room-verify", threads=_VERIFYING)
        self.watches = Watches()
        """Who waits for what is published."""
        self.listeners: list[Listener] = []
        """Called with what a step changed, once it is committed, where the folder is worked on."""
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failed: object) -> None:
        await self._verifiers.stop()
        await self._worker.stop(self.commit)

    @property
    def verdict(self) -> VerdictSettings:
        """The deployment's rules (R28)."""
        return self.folder.settings.verdict

    async def work(self, step: Callable[[DagFolder], _T], *, metered: bool = False, by: object = None) -> _T:
        """Ask or change the folder where nobody else does; all of it is committed, or nothing.

        What is `metered` counts to the share of whoever calls. `by` is who brings what is new.
        """

        def run() -> _T:
            try:
                result = step(self.folder)
            except BaseException:
                self.folder.rollback()
                raise
            self.commit(by)
            return result

        return await self._worker.call(run, metered=metered)

    def commit(self, by: object = None) -> None:
        """Commit what a step has done so far, from within it, and tell of what is new."""
        if changes := self.folder.commit():
            for listener in self.listeners:
                listener(changes, by)
            self._loop.call_soon_threadsafe(self.watches.announce, changes.keys)

    async def until_allowed(self) -> None:
        """Wait while whoever calls has used more than its share."""
        await self._worker.until_allowed()

    def take(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockTaken]:
        """Judge and keep what a peer brought, inside of a step."""
        outcomes = self.folder.put_blocks(space, blocks, received_at=int(self._clock_s()), peer=peer)
        return [BlockTaken(outcome) for outcome in outcomes]

    async def until_acknowledged(self, numbers: Iterable[int]) -> None:
        """Wait until what `BlockTaken.waits_for` names is durable: what is committed is."""

    async def receive(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockOutcome]:
        """Judge and keep nodes and UCANs in any order, received now; returns once they are durable.

        One outcome each, in the order given. A publish belongs to the space that is its id.
        """
        taken: list[BlockTaken] = []
        # What comes in no space goes with a publish beside it.
        for some in [blocks] if space is None else _slices(blocks):
            taken += await self.work(lambda _, some=some: self.take(space, some, peer), metered=True)  # type: ignore[misc]
            await self.until_allowed()
        await self.until_acknowledged(number for one in taken for number in one.waits_for)
        return [one.outcome for one in taken]

    async def spool_part(
        self, space: bytes, shard: Cid, size: int, offset: int, data: bytes, peer: bytes
    ) -> SpooledPart:
        """Keep a part of a shard, whole chunks (R27) of the one peer; the last one makes it be verified.

        Raises `ShardSizeChanged` when this peer began it with another size.
        """

        def keep(folder: DagFolder) -> SpooledPart:
            found = folder.spooled(peer, shard)
            if found is not None and found[0] != size:
                raise ShardSizeChanged(f"{shard} was begun with {found[0]} bytes")
            if folder.shard_path(shard) is not None:
                return SpooledPart(AckStatus.HAD)
            reserved = folder.reserve(peer, space, shard, size)
            if isinstance(reserved, NotReserved):
                return SpooledPart(reserved.status, reserved.code)
            for at in range(0, len(data), CHUNK_SIZE):
                if not folder.spool(peer, shard, offset + at, data[at : at + CHUNK_SIZE]):
                    return SpooledPart(AckStatus.LATER, SpoolFull.code)
            ranges = folder.spooled(peer, shard)
            return SpooledPart(AckStatus.NOT_HERE, None, ranges[1] if ranges else ())

        part = await self.work(keep, metered=True)
        await self.until_allowed()
        if part.status is not AckStatus.NOT_HERE or part.ranges != ((0, size),):
            return part
        return await self.accept(shard, peer)

    async def accept(self, shard: Cid, peer: bytes, by: object = None) -> SpooledPart:
        """Verify a spool that is whole in another thread, and keep it; `by` as `work`."""
        path = await self.work(lambda folder: folder.whole_spool(peer, shard))
        verified, error = None, None
        if path is not None:
            try:
                verified = await self._verifiers.call(partial(verify_shard, path, shard, self.verdict))
            except DagError as refused:
                error = refused
            except OSError:
                # It came from somebody else meanwhile, and this spool is gone.
                verified = None

        def settle(folder: DagFolder) -> SpooledPart:
            if error is not None:
                return SpooledPart(*folder.refuse_spool(peer, shard, error))
            if folder.shard_path(shard) is not None:
                return SpooledPart(AckStatus.HAD)
            try:
                if verified is not None and folder.accept_spool(peer, shard, verified):
                    return SpooledPart(AckStatus.DURABLE)
            except DagError as refused:
                return SpooledPart(AckStatus.REFUSED, refused.code)
            return SpooledPart(AckStatus.LATER)

        return await self.work(settle, by=by)

    async def spooled(self, shard: Cid, peer: bytes) -> tuple[int, tuple[Range, ...]] | None:
        """Announced size and ranges of a shard that a peer has brought in part."""
        return await self.work(lambda folder: folder.spooled(peer, shard))

    async def shard_size(self, shard: Cid) -> int | None:
        """The size of a shard that is here whole."""

        def size(folder: DagFolder) -> int | None:
            path = folder.shard_path(shard)
            return None if path is None else path.stat().st_size

        return await self.work(size)

    async def read_shard(self, shard: Cid, offset: int, length: int) -> bytes:
        """Bytes of a shard that is here whole; fewer where it was dropped meanwhile."""
        return await self.work(lambda folder: folder.read_shard(shard, offset, length))

    async def belongs(self, space: bytes, cid: Cid) -> bool:
        """Whether a block, node or shard is of a space: it came in it, or is named by its nodes."""
        return await self.work(
            lambda folder: folder.block_belongs(space, cid) or folder.shard_size(space, cid) is not None
        )

    async def lack(self, heads: Sequence[Cid]) -> Lack:
        """What is not here of what some nodes stand for."""
        return await in_turns(self.work, lambda folder: folder.queries.lack_steps(heads))

    async def reading(self, step: Callable[[FindBlock], _T], spaces: Collection[bytes] | None = None) -> _T:
        """Run a short step over the blocks that are here, away from the loop; of these spaces, or of all.

        The finder that it is given is good inside of any step, and of steps alone: so a step may begin an
        iterator that later steps advance.
        """

        def find(cid: Cid) -> bytes | None:
            if spaces is not None and not any(self.folder.block_belongs(space, cid) for space in spaces):
                return None
            return self.folder.block(cid)

        return await self.work(lambda folder: step(find))

    async def published(self, id: bytes) -> PublishedDag:
        """Order, states and heads of an id."""

        def step(folder: DagFolder) -> PublishedDag:
            published = folder.published(id)
            # Before any later step: what changes behind this one finds its keys.
            self.watches.read(published)
            return published

        return await self.work(step)


def _slices(blocks: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Blocks, as many at a time as are judged in one step."""
    for first in range(0, len(blocks), _BLOCKS_A_STEP):
        yield blocks[first : first + _BLOCKS_A_STEP]
