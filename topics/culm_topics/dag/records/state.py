"""What the job makes of the sources: heads of spaces, orders of ids, what is published (reference 3.2, 5.4).

Each value is a function of the set of source records, whatever their order and their batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.publish.states import PublishState
from culm_topics.dag.records.shape import (
    FirstLinks,
    dump_list,
    first_links_item,
    link_item,
    list_item,
    load_list,
    node_item,
    uint_item,
)
from culm_topics.records.shape import refuse_item, require

MAX_ORDER_LINKS: Final = 10_000
"""Of one record of `dag.order`; what is longer takes several."""
MAX_KEY_LINKS: Final = 1_024
"""Of the key of a tip; a longer one, which only somebody who tries for it makes, is cut."""

_HEADS, _ORDER, _PUBLISHED = "dag.heads", "dag.order", "dag.published"
_STATES: Final = tuple(PublishState)


@dataclass(frozen=True, slots=True)
class HeadsRecord:
    """Value of `dag.heads`: how the DAG of a space stands. Its key is the space."""

    heads: FirstLinks
    shard_count: int
    missing_nodes: FirstLinks
    missing_shards: FirstLinks
    opaque_shards: FirstLinks

    def encode(self) -> bytes:
        """`[1, heads, shard count, missing nodes, missing shards, opaque shards]`, each `[total, [...]]`."""
        value = dump_list(
            _HEADS,
            self.heads,
            self.shard_count,
            self.missing_nodes,
            self.missing_shards,
            self.opaque_shards,
        )
        self.decode(value)
        return value

    @staticmethod
    def decode(value: bytes | None) -> HeadsRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        heads, shard_count, missing_nodes, missing_shards, opaque_shards = load_list(value, _HEADS, 5)
        return HeadsRecord(
            first_links_item(_HEADS, "heads", heads),
            uint_item(_HEADS, "shard count", shard_count),
            first_links_item(_HEADS, "missing nodes", missing_nodes),
            first_links_item(_HEADS, "missing shards", missing_shards, nodes=False),
            first_links_item(_HEADS, "opaque shards", opaque_shards, nodes=False),
        )


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """Value of `dag.order`: from `position` on the order of an id is these. Its key is the id."""

    position: int
    links: tuple[Cid, ...]

    def encode(self) -> bytes:
        """`[1, position, [cid...]]`."""
        value = dump_list(_ORDER, self.position, self.links)
        self.decode(value)
        return value

    @staticmethod
    def decode(value: bytes | None) -> OrderRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        position, links = load_list(value, _ORDER, 2)
        return OrderRecord(
            uint_item(_ORDER, "position", position),
            tuple(
                node_item(_ORDER, "links", one) for one in list_item(_ORDER, "links", links, MAX_ORDER_LINKS)
            ),
        )


def order_records(position: int, links: Sequence[Cid]) -> Iterator[OrderRecord]:
    """The records that say that an order is these from a position on: one, where they are not too many.

    Read one behind the other they say it, too: each ends the order, and the next one goes on there.
    """
    for start in range(0, max(len(links), 1), MAX_ORDER_LINKS):
        yield OrderRecord(position + start, tuple(links[start : start + MAX_ORDER_LINKS]))


class CompletePublish(NamedTuple):
    """The latest complete publish of an id, and what it says."""

    cid: Cid
    link: Cid
    origin: Cid
    shard: Cid | None


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """Value of `dag.published`: what is published under an id. Its key is the id."""

    tip: Cid
    tip_key: tuple[Cid, ...]
    """At most the first 1,024 of it."""
    count: int
    """How many publishes there are in the order."""
    state: PublishState
    """Of the tip."""
    other_heads: FirstLinks
    revoked: FirstLinks
    complete: CompletePublish | None

    def encode(self) -> bytes:
        """`[1, tip, key, count, state, other heads, revoked, [cid, link, origin, shard] or null]`."""
        value = dump_list(
            _PUBLISHED,
            self.tip,
            self.tip_key,
            self.count,
            str(self.state),
            self.other_heads,
            self.revoked,
            self.complete,
        )
        self.decode(value)
        return value

    @staticmethod
    def decode(value: bytes | None) -> PublishedRecord:
        """The record in `value`; `RecordError` says what is wrong with it."""
        tip, tip_key, count, state, other_heads, revoked, complete = load_list(value, _PUBLISHED, 7)
        keys = list_item(_PUBLISHED, "key", tip_key, MAX_KEY_LINKS)
        record = PublishedRecord(
            node_item(_PUBLISHED, "tip", tip),
            tuple(node_item(_PUBLISHED, "key", one) for one in keys),
            uint_item(_PUBLISHED, "count", count),
            _state(state),
            first_links_item(_PUBLISHED, "other heads", other_heads),
            first_links_item(_PUBLISHED, "revoked", revoked),
            _complete(complete),
        )
        require(record.count > 0, _PUBLISHED, "a count of nothing")
        whole = len(keys) < MAX_KEY_LINKS
        require(bool(keys) and (not whole or keys[-1] == tip), _PUBLISHED, "the key does not end in the tip")
        return record


def _state(item: object) -> PublishState:
    if type(item) is not str or item not in _STATES:
        refuse_item(_PUBLISHED, "state", item, f"one of {', '.join(_STATES)}")
    return PublishState(item)


def _complete(item: object) -> CompletePublish | None:
    if item is None:
        return None
    if type(item) is not list or len(item) != 4:
        refuse_item(_PUBLISHED, "complete", item, "[cid, link, origin, shard] or null")
    cid, link, origin, shard = item
    return CompletePublish(
        node_item(_PUBLISHED, "complete", cid),
        link_item(_PUBLISHED, "link", link),
        node_item(_PUBLISHED, "origin", origin),
        None if shard is None else link_item(_PUBLISHED, "shard", shard),
    )
