"""Files that are made from a seed and never in memory whole, and what comes back of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.author import append_shards
from culm_connectors.dag.cars import BlockFile
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.sharding.cut import cut_dag
from culm_models.dag.unixfs.files import read_file
from culm_models.dag.unixfs.importing import PROFILES, import_file

_PROFILE: Final = PROFILES["ipfs-cid-v1"]


@dataclass(frozen=True, slots=True)
class SeededFile:
    """Random bytes that are the same each time they are made."""

    name: str
    seed: int
    size: int

    def chunks(self) -> Iterator[bytes]:
        """All of it, in pieces."""
        rng = random.Random(f"{self.seed}/{self.name}")
        for start in range(0, self.size, _PROFILE.chunk_size):
            yield rng.randbytes(min(_PROFILE.chunk_size, self.size - start))

    def digest(self) -> str:
        """The SHA-256 of all of it."""
        return digest_of(self.chunks())


def digest_of(pieces: Iterable[bytes]) -> str:
    """The SHA-256 of what comes in pieces."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def digest_of_file(folder: DagFolder, cid: Cid) -> str:
    """The SHA-256 of a file that is in the shards of a folder."""
    return digest_of(read_file(cid, folder.block))


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file as it stands in a space."""

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
