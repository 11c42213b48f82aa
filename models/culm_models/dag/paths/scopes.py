"""The blocks that answer a request of the trustless gateway, and no others (9).

A client checks every block that it gets by its CID, and follows the path itself: so the blocks on the way
come first, and then, by the scope, nothing else, the one thing at its end, or all below it.
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
    """How much below the end of a path is wanted."""

    BLOCK = "block"
    ENTITY = "entity"
    """The file, or the names of the directory, that is there."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class EntityBytes:
    """A range of a file's bytes, both ends in it; negative ones count from the end, and None is the end."""

    first: int
    last: int | None

    def within(self, size: int) -> tuple[int, int]:
        """Where the range begins and before where it stops, in a file of so many bytes."""
        first = max(0, size + self.first) if self.first < 0 else min(self.first, size)
        last = size - 1 if self.last is None else self.last
        stop = (size + last if last < 0 else last) + 1
        return first, max(first, min(stop, size))


def parse_entity_bytes(text: str) -> EntityBytes:
    """The range that `from:to` says, where to may be `*`."""
    found = _ENTITY_BYTES.fullmatch(text)
    if found is None:
        raise EntityBytesMalformed(f"{text[:60]!r} is not from:to")
    first, last = int(found[1]), None if found[2] == "*" else int(found[2])
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
    most: int | None = None,
) -> Iterator[Cid]:
    """The blocks that a client needs, each once: those of the path, and then those of the scope.

    Raises when a block below is not here, where it would stand. Identity CIDs are not given: they are their
    blocks. `repeats`: give a block wherever the walk comes to it, and not once. `most`: how many blocks and
    links may be gone through; beyond it `TooManyLinks` is raised.
    """
    for cid in end.passed:
        if not cid.is_identity:
            yield cid
    below = _below(end, find, scope, entity_bytes, repeats, most)
    # The block in which the path ends, which was given. Those on the way are above it, and never below.
    next(below, None)
    for count, cid in enumerate(below, len(end.passed) + 1):
        _require_room(count, most)
        if not cid.is_identity:
            yield cid


def _below(
    end: PathEnd,
    find: FindBlock,
    scope: DagScope,
    entity_bytes: EntityBytes | None,
    repeats: bool,
    most: int | None,
) -> Iterator[Cid]:
    """The block in which a path ends, and those below it that a scope wants."""
    if scope == DagScope.ALL:
        return _all(end.cid, find, repeats, most)
    if scope == DagScope.ENTITY and end.kind == ContentKind.DIRECTORY:
        # No shard of a directory stands in two places: its names have other hashes there.
        return directory_blocks(end.cid, find)
    is_file = end.kind == ContentKind.FILE or (end.kind == ContentKind.RAW and end.cid.codec == RAW)
    if scope == DagScope.ENTITY and is_file:
        start, stop = 0, None
        if entity_bytes is not None:
            start, stop = entity_bytes.within(file_size(end.cid, find))
        return file_blocks(end.cid, find, start, stop, repeats=repeats)
    return iter(())


def _require_room(count: int, most: int | None) -> None:
    if most is not None and count > most:
        raise TooManyLinks(f"more than {most} blocks and links at once")


def _all(root: Cid, find: FindBlock, repeats: bool, most: int | None) -> Iterator[Cid]:
    """All that can be reached, depth first; a block that nothing can be seen below is a leaf."""
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
        _require_room(len(seen) + len(waiting), most)
