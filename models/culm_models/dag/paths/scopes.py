"""The blocks that answer a request to the trustless gateway, and no others (9).

A client checks every block by its CID and follows the path itself. The blocks on the path therefore come
first. Depending on the scope, nothing follows, or the file or directory at its end, or everything below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from culm_models.dag.blocks.cid import RAW, Cid
from culm_models.dag.errors import EntityBytesMalformed, TooManyLinks
from culm_models.dag.paths.resolve import ContentKind, PathEnd
from culm_models.dag.unixfs.directories import directory_blocks
from culm_models.dag.unixfs.files import file_blocks, file_size
from culm_models.dag.walk.reach import FindBlock, block_of, links_of

_ENTITY_BYTES: Final = re.compile(r"(-?[0-9]{1,19}):(\*|-?[0-9]{1,19})")


class DagScope(StrEnum):
    """The requested part of the DAG below the end of a path."""

    BLOCK = "block"
    ENTITY = "entity"
    """The file, or the names in the directory, at the end."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class EntityBytes:
    """An inclusive byte range of a file. Negative offsets count from the end; `last` of None is the end."""

    first: int
    last: int | None

    def within(self, size: int) -> tuple[int, int]:
        """Return the offsets of the range in a file of `size` bytes: the first, and one past the last."""
        first = max(0, size + self.first) if self.first < 0 else min(self.first, size)
        last = size - 1 if self.last is None else self.last
        stop = (size + last if last < 0 else last) + 1
        return first, max(first, min(stop, size))


def parse_entity_bytes(text: str) -> EntityBytes:
    """Parse a range `from:to`, in which `to` may be `*`. Raises `EntityBytesMalformed`."""
    match = _ENTITY_BYTES.fullmatch(text)
    if match is None:
        raise EntityBytesMalformed(f"{text[:60]!r} is not from:to")
    first, last = int(match[1]), None if match[2] == "*" else int(match[2])
    if last is not None and (first < 0) == (last < 0) and last < first:
        raise EntityBytesMalformed("a range that ends before it begins")
    return EntityBytes(first, last)


def blocks_of_end(
    end: PathEnd,
    find: FindBlock,
    scope: DagScope = DagScope.ALL,
    entity_bytes: EntityBytes | None = None,
    *,
    repeats: bool = False,
    limit: int | None = None,
) -> Iterator[Cid]:
    """Yield the blocks that a client needs: those of the path, and then those of the scope.

    Each block is yielded once, or with `repeats` every time that the walk reaches it. Identity CIDs are
    skipped, because they contain their blocks. Raises `BlockMissing` at the position of a missing block, and
    `TooManyLinks` after `limit` blocks and links.
    """
    for cid in end.passed:
        if not cid.is_identity:
            yield cid
    below = _below(end, find, scope, entity_bytes, repeats, limit)
    # The end of the path was yielded already. The other blocks of the path are above it, never below.
    next(below, None)
    for count, cid in enumerate(below, len(end.passed) + 1):
        _require_within_limit(count, limit)
        if not cid.is_identity:
            yield cid


def _below(
    end: PathEnd,
    find: FindBlock,
    scope: DagScope,
    entity_bytes: EntityBytes | None,
    repeats: bool,
    limit: int | None,
) -> Iterator[Cid]:
    """Yield the block in which a path ends and the blocks of the scope below it."""
    if scope == DagScope.ALL:
        return _all(end.cid, find, repeats, limit)
    if scope == DagScope.ENTITY and end.kind == ContentKind.DIRECTORY:
        # A shard of a directory occurs only once: at another position its names would have other hashes.
        return directory_blocks(end.cid, find)
    is_file = end.kind == ContentKind.FILE or (end.kind == ContentKind.RAW and end.cid.codec == RAW)
    if scope == DagScope.ENTITY and is_file:
        start, stop = 0, None
        if entity_bytes is not None:
            start, stop = entity_bytes.within(file_size(end.cid, find))
        return file_blocks(end.cid, find, start, stop, repeats=repeats)
    return iter(())


def _require_within_limit(count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        raise TooManyLinks(f"more than {limit} blocks and links at once")


def _all(root: Cid, find: FindBlock, repeats: bool, limit: int | None) -> Iterator[Cid]:
    """Yield all reachable blocks, depth first. A block whose links cannot be read is a leaf."""
    seen: set[Cid] = set()
    waiting = [root]
    while waiting:
        cid = waiting.pop()
        if cid in seen:
            continue
        if not repeats:
            seen.add(cid)
        block = block_of(cid, find)
        yield cid
        waiting += [link for link in reversed(links_of(cid, block) or []) if link not in seen]
        _require_within_limit(len(seen) + len(waiting), limit)
