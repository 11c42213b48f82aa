"""The job's state: heads of spaces, orders of ids, and published content (reference 3.2, 5.4).

Each value depends on the set of source records alone, whatever their order and their batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.publish.states import PublishState
from culm_topics.dag.records.shape import DAG_LIST, FirstNodes, FirstOfAny, Link, NodeLink
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import between, called, counted, rule
from culm_topics.records.shape import require

MAX_ORDER_LINKS: Final = 10_000
"""Limit of links in one record of `dag.order`; a longer order takes several records."""
MAX_KEY_LINKS: Final = 1_024
"""Limit of links in the key of a tip. Only a deliberate attempt makes a longer key, which is cut."""

_PUBLISHED: Final = "dag.published"


@record("dag.heads", "state of the DAG of a space. Key: the space (32 bytes).", codec=DAG_LIST)
class HeadsRecord(Record):
    """Value of `dag.heads`: the present state of a space's DAG. Its key is the space."""

    heads: FirstNodes
    shard_count: int
    missing_nodes: FirstNodes
    missing_shards: FirstOfAny
    opaque_shards: FirstOfAny


@record("dag.order", "the order of an id from a position on. Key: the id (32 bytes).", codec=DAG_LIST)
class OrderRecord(Record):
    """Value of `dag.order`: the order of an id from `position` on. Its key is the id."""

    position: int
    links: Annotated[
        tuple[NodeLink, ...], counted(MAX_ORDER_LINKS), "a longer order continues in the next record"
    ]


def order_records(position: int, links: Sequence[Cid]) -> Iterator[OrderRecord]:
    """Yield the records of an order from a position on: one, or several if there are many links.

    Each record ends the order, and the next one continues it there, so reading them in sequence gives the
    order.
    """
    for start in range(0, max(len(links), 1), MAX_ORDER_LINKS):
        yield OrderRecord(position + start, tuple(links[start : start + MAX_ORDER_LINKS]))


class CompletePublish(NamedTuple):
    """The latest complete publish of an id, and its contents."""

    cid: NodeLink
    link: Annotated[Link, called("root")]
    origin: NodeLink
    shard: Link | None


@record(_PUBLISHED, "the publish that is in force under an id. Key: the id (32 bytes).", codec=DAG_LIST)
class PublishedRecord(Record):
    """Value of `dag.published`: what is published under an id. Its key is the id."""

    tip: NodeLink
    tip_key: Annotated[
        tuple[NodeLink, ...],
        counted(MAX_KEY_LINKS, 1),
        called("key"),
        f"of the tip; at most the first {MAX_KEY_LINKS:,} links",
    ]
    count: Annotated[int, between(1), "number of publishes in the order"]
    state: Annotated[PublishState, rule("publish-state"), "of the tip"]
    other_heads: FirstNodes
    revoked: FirstNodes
    complete: Annotated[CompletePublish, rule("complete-publish")] | None

    def verify(self) -> None:
        """Raise `RecordError` if a whole key does not end with the tip."""
        sound = len(self.tip_key) == MAX_KEY_LINKS or self.tip_key[-1] == self.tip
        require(sound, _PUBLISHED, "the key does not end in the tip")
