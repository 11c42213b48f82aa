"""Splitting of lists into messages that fit a frame, and of long messages into short steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import (
    DagAck,
    DagBlocks,
    DagCancel,
    DagMessage,
    DagOffer,
    DagWant,
)

FRAME_OVERHEAD: Final = 128
"""Bytes reserved in a frame for everything but the lists of the message."""
_LINK_OVERHEAD: Final = 8
_SIZE_OVERHEAD: Final = 6
_LINKS: Final = 256
_BLOCKS: Final = 32
"""Links (`_LINKS`) or blocks (`_BLOCKS`) per piece when a long message is split."""

_T = TypeVar("_T")


def link_size(cid: Cid) -> int:
    """Return the maximum size of a link in a list, in bytes."""
    return len(cid.raw) + _LINK_OVERHEAD


def in_frames(items: Iterable[_T], size_of: Callable[[_T], int], max_frame: int) -> Iterator[tuple[_T, ...]]:
    """Yield the items in batches that fit a frame. Yields nothing if there are no items."""
    batch: list[_T] = []
    capacity = max_frame - FRAME_OVERHEAD
    for item in items:
        size = size_of(item)
        if batch and size > capacity:
            yield tuple(batch)
            batch, capacity = [], max_frame - FRAME_OVERHEAD
        batch.append(item)
        capacity -= size
    if batch:
        yield tuple(batch)


def offers_of(
    space: bytes,
    shards: Iterable[tuple[Cid, int]],
    dag_heads: Sequence[Cid],
    publish_heads: Sequence[Cid],
    max_frame: int,
) -> Iterator[DagOffer]:
    """Yield an offer as messages that fit a frame.

    The shards come first and the heads last, so that a peer that knows the heads has received the whole
    offer.
    """
    for batch in in_frames(shards, lambda shard: link_size(shard[0]) + _SIZE_OVERHEAD, max_frame):
        yield DagOffer(space, (), (), batch)
    heads = [(cid, False) for cid in dag_heads] + [(cid, True) for cid in publish_heads]
    for marked in in_frames(heads, lambda head: link_size(head[0]), max_frame):
        yield DagOffer(
            space,
            tuple(cid for cid, is_publish in marked if not is_publish),
            tuple(cid for cid, is_publish in marked if is_publish),
            (),
        )
    if not heads:
        yield DagOffer(space, (), (), ())


def offer_of_store(store: ExchangeStore, space: bytes, max_frame: int) -> Iterator[DagOffer]:
    """Yield an offer of everything that the store holds of a space, read when the first message is needed."""
    yield from offers_of(
        space, store.shards(space), store.dag_heads(space), store.publish_heads(space), max_frame
    )


def first_message(messages: Iterable[DagMessage | None]) -> DagMessage | None:
    """Return the first message that is not None, without producing those after it."""
    return next((message for message in messages if message is not None), None)


def in_pieces(messages: Iterable[DagMessage]) -> Iterator[DagMessage]:
    """Yield the messages in order, with long messages split, so that each is processed in a short step."""
    for message in messages:
        match message:
            case DagBlocks(space, blocks) if len(blocks) > _BLOCKS:
                yield from (DagBlocks(space, piece) for piece in _cut(blocks, _BLOCKS))
            case DagAck(space, results):
                yield from (DagAck(space, piece) for piece in _cut(results))
            case DagCancel(space, links):
                yield from (DagCancel(space, piece) for piece in _cut(links))
            case DagOffer(space, dag_heads, publish_heads, shards):
                lists = zip_longest(_cut(shards), _cut(dag_heads), _cut(publish_heads), fillvalue=())
                yield from (DagOffer(space, dag, publish, piece) for piece, dag, publish in lists)
            case DagWant(space, nodes, shards):
                wants = zip_longest(_cut(nodes), _cut(shards), fillvalue=())
                yield from (DagWant(space, piece, other) for piece, other in wants)
            case _:
                yield message


def _cut(items: Sequence[_T], count: int = _LINKS) -> list[tuple[_T, ...]]:
    """Split a list into pieces of up to `count` items. An empty list gives one empty piece."""
    return [tuple(items[start : start + count]) for start in range(0, len(items), count)] or [()]
