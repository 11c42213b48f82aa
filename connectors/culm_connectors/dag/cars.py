"""Import and export of CARs: an imported CAR becomes shards of a space, and one DAG is exported as a CAR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, Self

from culm_connectors.dag.author import append_shards
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.bounds import DagBounds
from culm_models.dag.car import car_header, car_section
from culm_models.dag.car.reader import V2_HEAD_SIZE, CarStream, find_payload
from culm_models.dag.sharding import NO_ROOT, CutShard, blocks_in_order, cut_blocks

_PIECE_BYTES: Final = 1_048_576
_UNLIMITED: Final = 1 << 50


class BlockFile:
    """Blocks to be cut into shards, in one temporary file; only their CIDs are in memory.

    The file lies in `folder` and is deleted at the end of the context.
    """

    def __init__(self, folder: Path) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115
        self._places: dict[Cid, tuple[int, int]] = {}
        self._end = 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Cid]:
        """Iterate over the CIDs of the blocks, in the order in which they came."""
        return iter(self._places)

    def put(self, cid: Cid, block: bytes) -> None:
        """Add a block; a block that is here changes nothing."""
        if cid not in self._places:
            self._file.seek(self._end)
            self._file.write(block)
            self._places[cid] = (self._end, len(block))
            self._end += len(block)

    def find(self, cid: Cid) -> bytes | None:
        """Return a block, or None if it is not here."""
        position = self._places.get(cid)
        if position is None:
            return None
        self._file.seek(position[0])
        return self._file.read(position[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class ImportedCar:
    """Result of importing a CAR into a space."""

    roots: tuple[Cid, ...]
    blocks: int
    shards: tuple[Cid, ...]
    origin: Cid | None
    """The append that names the shards; None if the CAR had no blocks."""
    missing: tuple[Cid, ...]
    """Blocks below the roots, and roots, that are neither in the CAR nor in the folder."""


def import_car(
    folder: DagFolder,
    source: Path,
    space: bytes,
    *,
    now: int,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> ImportedCar:
    """Verify a CAR (version 1 or 2), cut its blocks into shards, and append these to a space.

    The shards of a root are the same as those of any other cut of its DAG. Blocks that no root leads to
    follow in the order of the file. Raises `DagError` if the file breaks a rule; nothing of it is kept then.
    """
    verdict = folder.settings.verdict
    with BlockFile(folder.folder) as blocks:
        # The file is the owner's own and never held in memory: it may be larger than a shard, its blocks may
        # not.
        bounds = replace(verdict.bounds, car=_UNLIMITED, sections=_UNLIMITED)
        stream = CarStream(hashes=verdict.hashes, bounds=bounds)
        for piece in _payload(source, on_bytes):
            for section in stream.feed(piece):
                if not section.cid.is_identity:
                    blocks.put(section.cid, bytes(section.data))
        stream.finish()
        roots = stream.roots or ()
        missing: list[Cid] = []
        shards: list[Cid] = []
        for shard in _cut(roots, blocks, missing, verdict.bounds):
            folder.add_shard(space, shard.cid, shard.data)
            folder.commit()
            shards.append(shard.cid)
        origin = append_shards(folder, space, shards, now=now) if shards else None
        lacking = tuple(cid for cid in missing if folder.block(cid) is None)
        return ImportedCar(roots, len(blocks), tuple(shards), origin, lacking)


def _payload(source: Path, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """Return the CARv1 payload of a file, in pieces."""
    with source.open("rb") as file:
        at, end = find_payload(file.read(V2_HEAD_SIZE), source.stat().st_size)
        file.seek(at)
        while piece := file.read(min(_PIECE_BYTES, end - at)):
            yield piece
            at += len(piece)
            on_bytes(len(piece))


def _cut(
    roots: Sequence[Cid], blocks: BlockFile, missing: list[Cid], bounds: DagBounds
) -> Iterator[CutShard]:
    """Return the shards of each root that is not below an earlier root, and then of the remaining blocks."""
    seen: set[Cid] = set()
    for root in roots:
        if root in seen:
            continue
        if not root.is_identity and blocks.find(root) is None:
            seen.add(root)
            missing.append(root)
            continue
        below = blocks_in_order(root, blocks.find, seen=seen, missing=missing)
        yield from cut_blocks(root, below, bounds=bounds)
    rest = [cid for cid in blocks if cid not in seen]
    if rest:
        remaining = ((cid, block) for cid in rest if (block := blocks.find(cid)) is not None)
        yield from cut_blocks(NO_ROOT, remaining, bounds=bounds)


def export_car(root: Cid, find: Callable[[Cid], bytes | None], file: BinaryIO) -> int:
    """Write a DAG as a CAR with this root, a block before its children; returns the number of blocks.

    Raises `BlockMissing` if a block is not here.
    """
    file.write(car_header([root]))
    count = 0
    for cid, block in blocks_in_order(root, find):
        file.write(car_section(cid, block))
        count += 1
    return count
