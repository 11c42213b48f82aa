"""Long messages as several short ones that say the same, so that each is read in a short step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from culm_models.dag.wire.messages import (
    DagAck,
    DagBlocks,
    DagCancel,
    DagMessage,
    DagOffer,
    DagWant,
)

_LINKS: Final = 256
_BLOCKS: Final = 32

_T = TypeVar("_T")


def in_pieces(messages: Iterable[DagMessage]) -> Iterator[DagMessage]:
    """The messages, in order, each with a bounded number of links or blocks."""
    for message in messages:
        match message:
            case DagBlocks(space, blocks) if len(blocks) > _BLOCKS:
                yield from (DagBlocks(space, some) for some in _cut(blocks, _BLOCKS))
            case DagAck(space, results):
                yield from (DagAck(space, some) for some in _cut(results))
            case DagCancel(space, links):
                yield from (DagCancel(space, some) for some in _cut(links))
            case DagOffer(space, dag_heads, publish_heads, shards):
                lists = zip_longest(_cut(shards), _cut(dag_heads), _cut(publish_heads), fillvalue=())
                yield from (DagOffer(space, dag, publish, some) for some, dag, publish in lists)
            case DagWant(space, nodes, shards):
                wants = zip_longest(_cut(nodes), _cut(shards), fillvalue=())
                yield from (DagWant(space, some, other) for some, other in wants)
            case _:
                yield message


def _cut(items: Sequence[_T], count: int = _LINKS) -> list[tuple[_T, ...]]:
    """Pieces of a list; of an empty one, an empty piece."""
    return [tuple(items[start : start + count]) for start in range(0, len(items), count)] or [()]
