"""A shard's file, verified whole: its hash, and each block's (R3). For any thread, and in flat memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_models.dag.blocks.cid import CAR, Cid
from culm_models.dag.blocks.multihash import block_hasher
from culm_models.dag.car.reader import CarStream
from culm_models.dag.errors import BlockTooLarge, HashMismatch
from culm_models.dag.verdict import VerdictSettings
from culm_models.dag.walk.shard_blocks import block_places, is_opaque

_PIECE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class VerifiedShard:
    """A shard whose file was read to its end."""

    cid: Cid
    size: int
    places: tuple[tuple[bytes, int, int], ...]
    """CID, offset and length of each block, the first one of repeats; none where the shard is opaque."""


@contextmanager
def file_of(folder: Path, data: bytes | memoryview) -> Iterator[Path]:
    """A file of a folder with these bytes, on the disk; it is deleted where it was not renamed meanwhile."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".adding-", delete=False) as file:
        path = Path(file.name)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def verify_shard(path: Path, cid: Cid, settings: VerdictSettings) -> VerifiedShard:
    """Read a file. Raises the `DagError` that it is refused with, or `OSError`."""
    size = path.stat().st_size
    if size > settings.bounds.car:
        raise BlockTooLarge(f"a shard over {settings.bounds.car} bytes")
    hasher = block_hasher(cid, settings.hashes)
    stream = CarStream(hashes=settings.hashes, bounds=settings.bounds) if cid.codec == CAR else None
    found: dict[bytes, tuple[int, int]] = {}
    for piece in _pieces(path):
        hasher.update(piece)
        for section in stream.feed(piece) if stream is not None else ():
            found.setdefault(section.cid.raw, (section.offset, len(section.data)))
    if hasher.digest() != cid.digest:
        raise HashMismatch(f"the bytes are not those of {cid.text[:100]}")
    if stream is not None:
        stream.finish()
    elif not is_opaque(cid, settings.hashes):
        places = block_places(cid, path.read_bytes(), hashes=settings.hashes, bounds=settings.bounds)
        for block, offset, length in places:
            found.setdefault(block.raw, (offset, length))
    return VerifiedShard(cid, size, tuple((raw, *place) for raw, place in found.items()))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while piece := file.read(_PIECE_BYTES):
            yield piece
