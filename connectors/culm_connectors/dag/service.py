"""Interface of a process that keeps DAGs for its doors (QUIC, HTTP).

A door knows the principal and its rights; the service validates, keeps and finds data. Data that it calls
durable survives the process: in a folder once it is on disk, at an edge (`edge/service`) once Kafka has
acknowledged it.
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
from culm_connectors.dag.store.outcomes import BlockOutcome, FolderChanges, MissingBlocks, PublishedDag
from culm_connectors.dag.store.shard_table import verify_shard
from culm_connectors.dag.watches import Watches
from culm_connectors.edge.fair_turns import FairWorker, in_turns
from culm_connectors.local_store.store_guard import Watching
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, DagSpoolFull, ShardSizeChanged
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.exchange.store import NotReserved
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.reach import FindBlock
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus

_T = TypeVar("_T")
_VERIFYING: Final = 2
_BLOCKS_A_STEP: Final = 32
Listener = Callable[[FolderChanges, object], None]
"""Called with the changes of a step and, if it is known, their origin."""


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """Result of receiving a part of a shard."""

    status: AckStatus
    """DURABLE: the shard is complete, verified and durable. HAD: it was here already.

    NOT_HERE: parts are missing. REFUSED and LATER have a code.
    """
    code: str | None = None
    ranges: tuple[Range, ...] = ()
    """Ranges of an incomplete shard that are here from this peer, in bytes."""


@dataclass(frozen=True, slots=True)
class BlockTaken:
    """Outcome of a block, and the outbox items to wait for before it may be reported."""

    outcome: BlockOutcome
    waits_for: tuple[int, ...] = ()
    is_news: bool = True
    """For a refused block: whether it was not refused before, so that it is recorded on `rejected`."""


class DagService:
    """Nodes, shards and orders of an open folder, which only `work` may use meanwhile.

    For one event loop; nothing blocks it. The caller closes the folder. `peer` identifies the principal in 32
    bytes: its proven key, or a digest of its token or address.
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
        """Make a service over an open folder.

        `busy_share`: the share of the folder's time that one caller, and one address, may use; 0: unlimited.
        Each step of work on the folder runs within `watching`.
        """
        self.folder = folder
        self._clock_s = clock_s
        self._worker = FairWorker(
            "dag-service", busy_share=busy_share, busy_burst_s=busy_burst_s, watching=watching
        )
        self._verifiers = FairWorker("dag-service-verify", threads=_VERIFYING)
        self.watches = Watches()
        """Readers that wait for changes of published ids."""
        self.listeners: list[Listener] = []
        """Called with the changes of a step once it is committed, in the folder's thread."""
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failed: object) -> None:
        await self._verifiers.stop()
        await self._worker.stop(self.commit)

    @property
    def verdict(self) -> ValidationRules:
        """Return the deployment's rules (R28)."""
        return self.folder.settings.verdict

    async def work(self, step: Callable[[DagFolder], _T], *, metered: bool = False, by: object = None) -> _T:
        """Run a step on the folder in its thread; all of it is committed, or nothing.

        The time of a `metered` step counts towards the caller's share. `by` is the origin of new data.
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
        """Commit the changes of a step so far, from within it, and notify the listeners."""
        if changes := self.folder.commit():
            for listener in self.listeners:
                listener(changes, by)
            self._loop.call_soon_threadsafe(self.watches.announce, changes.keys)

    async def until_allowed(self) -> None:
        """Wait while the caller has used more than its share."""
        await self._worker.until_allowed()

    def take(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockTaken]:
        """Validate and keep a peer's blocks, inside of a step."""
        outcomes = self.folder.put_blocks(space, blocks, received_at=int(self._clock_s()), peer=peer)
        return [BlockTaken(outcome) for outcome in outcomes]

    async def until_acknowledged(self, numbers: Iterable[int]) -> None:
        """Wait until the items of `BlockTaken.waits_for` are durable; here, everything committed is."""

    async def receive(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockOutcome]:
        """Validate and keep nodes and UCANs in any order, received now; returns once they are durable.

        Returns one outcome each, in the order of the blocks. A publish belongs to the space that is its id.
        """
        taken: list[BlockTaken] = []
        # Blocks that come in no space stay together, as they belong to a publish among them.
        for part in [blocks] if space is None else _slices(blocks):
            taken += await self.work(lambda _, part=part: self.take(space, part, peer), metered=True)  # type: ignore[misc]
            await self.until_allowed()
        await self.until_acknowledged(number for block in taken for number in block.waits_for)
        return [block.outcome for block in taken]

    async def spool_part(
        self, space: bytes, shard: Cid, size: int, offset: int, data: bytes, peer: bytes
    ) -> SpooledPart:
        """Keep a part of a shard from one peer, in whole chunks (R27); the last part has the shard verified.

        Raises `ShardSizeChanged` if this peer began the shard with another size.
        """

        def keep(folder: DagFolder) -> SpooledPart:
            spool = folder.spooled(peer, shard)
            if spool is not None and spool[0] != size:
                raise ShardSizeChanged(f"{shard} was begun with {spool[0]} bytes")
            if folder.shard_path(shard) is not None:
                return SpooledPart(AckStatus.HAD)
            reserved = folder.reserve(peer, space, shard, size)
            if isinstance(reserved, NotReserved):
                return SpooledPart(reserved.status, reserved.code)
            for at in range(0, len(data), CHUNK_SIZE):
                if not folder.spool(peer, shard, offset + at, data[at : at + CHUNK_SIZE]):
                    return SpooledPart(AckStatus.LATER, DagSpoolFull.code)
            spool = folder.spooled(peer, shard)
            return SpooledPart(AckStatus.NOT_HERE, None, spool[1] if spool else ())

        part = await self.work(keep, metered=True)
        await self.until_allowed()
        if part.status is not AckStatus.NOT_HERE or part.ranges != ((0, size),):
            return part
        return await self.accept(shard, peer)

    async def accept(self, shard: Cid, peer: bytes, by: object = None) -> SpooledPart:
        """Verify a complete spool in another thread, and keep it; `by` as in `work`."""
        path = await self.work(lambda folder: folder.whole_spool(peer, shard))
        verified, error = None, None
        if path is not None:
            try:
                verified = await self._verifiers.call(partial(verify_shard, path, shard, self.verdict))
            except DagError as refused:
                error = refused
            except OSError:
                # The shard came from another peer meanwhile, and this spool is gone.
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
        """Return the announced size and the ranges of a shard that a peer has sent in part, or None."""
        return await self.work(lambda folder: folder.spooled(peer, shard))

    async def shard_size(self, shard: Cid) -> int | None:
        """Return the size of a complete shard in bytes, or None if it is not here."""

        def size(folder: DagFolder) -> int | None:
            path = folder.shard_path(shard)
            return None if path is None else path.stat().st_size

        return await self.work(size)

    async def read_shard(self, shard: Cid, offset: int, length: int) -> bytes:
        """Return bytes of a complete shard; fewer if it was dropped meanwhile."""
        return await self.work(lambda folder: folder.read_shard(shard, offset, length))

    async def belongs(self, space: bytes, cid: Cid) -> bool:
        """Return whether a block, node or shard belongs to a space: it came in it, or its nodes name it."""
        return await self.work(
            lambda folder: folder.block_belongs(space, cid) or folder.shard_size(space, cid) is not None
        )

    async def missing(self, heads: Sequence[Cid]) -> MissingBlocks:
        """Return the missing ancestors, proofs and shards of some nodes."""
        return await in_turns(self.work, lambda folder: folder.queries.missing_steps(heads))

    async def reading(self, step: Callable[[FindBlock], _T], spaces: Collection[bytes] | None = None) -> _T:
        """Run a short step over the blocks that are here, in the folder's thread; of these spaces, or of all.

        The `find` function that the step receives may be called inside of any step, and only there: so a step
        may begin an iterator that later steps advance.
        """

        def find(cid: Cid) -> bytes | None:
            if spaces is not None and not any(self.folder.block_belongs(space, cid) for space in spaces):
                return None
            return self.folder.block(cid)

        return await self.work(lambda folder: step(find))

    async def published(self, id: bytes) -> PublishedDag:
        """Return order, states and heads of an id."""

        def step(folder: DagFolder) -> PublishedDag:
            published = folder.published(id)
            # This has to happen before any later step, so that a later change finds the keys of this id.
            self.watches.read(published)
            return published

        return await self.work(step)


def _slices(blocks: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Split blocks into slices that are validated in one step each."""
    for first in range(0, len(blocks), _BLOCKS_A_STEP):
        yield blocks[first : first + _BLOCKS_A_STEP]
