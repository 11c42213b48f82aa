"""A writer or reader: a folder, a key, and a peer over QUIC; and files made from a seed."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_connectors.dag.author import append_shards, join_heads, publish_link
from culm_connectors.dag.cars import BlockFile
from culm_connectors.dag.errors import DagSyncError
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.progress import SyncProgress
from culm_connectors.dag.settings import DagPeerSettings
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.transport import Identity
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Address
from culm_infra.demo.dag.size import Policy
from culm_infra.patience import Patience
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.sharding import cut_dag
from culm_models.dag.unixfs.files import read_file
from culm_models.dag.unixfs.importing import PROFILES, import_file
from culm_models.dag.validation_rules import ValidationRules
from culm_models.keys import KeyPair

_PROFILE: Final = PROFILES["ipfs-cid-v1"]


@dataclass(frozen=True, slots=True)
class SeededFile:
    """A file of random bytes that are the same each time."""

    name: str
    seed: int
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the file in pieces."""
        rng = random.Random(f"{self.seed}/{self.name}")
        for start in range(0, self.size, _PROFILE.chunk_size):
            yield rng.randbytes(min(_PROFILE.chunk_size, self.size - start))

    def digest(self) -> str:
        """Return the SHA-256 of the file in hex."""
        return digest_of(self.chunks())


def digest_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of these pieces in hex."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def digest_of_file(folder: DagFolder, cid: Cid) -> str:
    """Return the SHA-256 of a file in the shards of a folder, in hex."""
    return digest_of(read_file(cid, folder.block))


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file in a space: its root, its node and its shards."""

    cid: Cid
    origin: Cid
    shards: tuple[Cid, ...]


def put_file(folder: DagFolder, space: bytes, file: SeededFile, shard_bytes: int, *, now: int) -> PutFile:
    """Import a file, cut it into shards, and append these."""
    with BlockFile(folder.folder) as blocks:
        root = import_file(file.chunks(), _PROFILE, blocks.put).cid
        shards = []
        for shard in cut_dag(root, blocks.find, shard_bytes):
            folder.add_shard(space, shard.cid, shard.data)
            shards.append(shard.cid)
    return PutFile(root, append_shards(folder, space, shards, now=now), tuple(shards))


_STEP_S: Final = 0.1


def now_s() -> int:
    """Return seconds since 1970; used as the time of receipt of what is put here."""
    return int(time.time())


@dataclass(slots=True)
class DagWriter:
    """One replica. `space` is shared by all of them; `moved` grows with every transfer."""

    name: str
    key: KeyPair
    space: bytes
    peer: DagPeer
    folder: Path
    moved: int = 0

    async def put(self, file: SeededFile, shard_bytes: int) -> PutFile:
        """Append a file to the space; if there are several heads, they are joined first."""
        return await self.peer.work(
            lambda folder: put_file(folder, self.space, file, shard_bytes, now=now_s())
        )

    async def publish(self, link: Cid, origin: Cid, shard: Cid | None = None) -> Cid:
        """Publish on the tip that this replica knows."""
        outcome = await self.peer.work(
            lambda folder: publish_link(
                folder, self.key, self.space, link, now=now_s(), origin=origin, shard=shard
            )
        )
        return outcome.cid

    async def join(self) -> Cid:
        """Join the heads of this replica."""
        return await self.peer.work(lambda folder: join_heads(folder, self.space, now=now_s()))

    async def dag_heads(self) -> list[Cid]:
        """Return the heads of this replica."""
        return await self.peer.work(lambda folder: folder.dag_heads(self.space))

    async def sync(
        self,
        address: Address,
        limit_s: float,
        on_progress: Callable[[SyncProgress], None] | None = None,
    ) -> SyncProgress:
        """Exchange with an edge until both sides have everything. Raises `NotReached`.

        After a lost connection, or if the edge has no capacity, the call is repeated as long as data moves.
        """
        patience = Patience(limit_s, lambda: self.moved)
        while True:
            error: object = None
            counted = 0

            def count(progress: SyncProgress) -> None:
                nonlocal counted
                now = progress.nodes + progress.shards + progress.received_bytes + progress.sent_bytes
                self.moved += max(now - counted, 0)
                counted = max(now, counted)
                if on_progress is not None:
                    on_progress(progress)

            try:
                progress = await self.peer.sync(address, [self.space], on_progress=count)
            except (TransportError, DagSyncError) as failed:
                error = failed
            else:
                if not progress.later:
                    return progress
                error = progress.later[0]
            patience.check(f"{self.name}'s exchange with an edge ({error})")
            await asyncio.sleep(_STEP_S)


@asynccontextmanager
async def dag_writer(
    directory: Path, name: str, key: KeyPair, space: bytes, policy: Policy
) -> AsyncIterator[DagWriter]:
    """Open a replica in its own folder."""
    settings = DagPeerSettings(folder=DagFolderSettings(verdict=ValidationRules(policy=policy)))
    identity = Identity.from_private_key(key.private_key)
    async with DagPeer.open(directory / name, identity=identity, settings=settings) as peer:
        yield DagWriter(name, key, space, peer, directory / name)
