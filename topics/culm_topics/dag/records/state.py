"""What the job makes of the sources: heads of spaces, orders of ids, what is published (reference 3.2, 5.4).

Each value is a function of the set of source records, whatever their order and their batches.
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
"""Of one record of `dag.order`; what is longer takes several."""
MAX_KEY_LINKS: Final = 1_024
"""Of the key of a tip; a longer one, which only somebody who tries for it makes, is cut."""

_PUBLISHED: Final = "dag.published"


@record("dag.heads", "how the DAG of a space stands. Key: the space (32 bytes).", codec=DAG_LIST)
class HeadsRecord(Record):
    """Value of `dag.heads`: how the DAG of a space stands. Its key is the space."""

    heads: FirstNodes
    shard_count: int
    missing_nodes: FirstNodes
    missing_shards: FirstOfAny
    opaque_shards: FirstOfAny


@record("dag.order", "the order of an id from a position on. Key: the id (32 bytes).", codec=DAG_LIST)
class OrderRecord(Record):
    """Value of `dag.order`: from `position` on the order of an id is these. Its key is the id."""

    position: int
    links: Annotated[
        tuple[NodeLink, ...], counted(MAX_ORDER_LINKS), "what is longer goes on in the next record"
    ]


def order_records(position: int, links: Sequence[Cid]) -> Iterator[OrderRecord]:
    """The records that say that an order is these from a position on: one, where they are not too many.

    Read one behind the other they say it, too: each ends the order, and the next one goes on there.
    """
    for start in range(0, max(len(links), 1), MAX_ORDER_LINKS):
        yield OrderRecord(position + start, tuple(links[start : start + MAX_ORDER_LINKS]))


class CompletePublish(NamedTuple):
    """The latest complete publish of an id, and what it says."""

    cid: NodeLink
    link: Annotated[Link, called("root")]
    origin: NodeLink
    shard: Link | None


@record(_PUBLISHED, "what is published under an id. Key: the id (32 bytes).", codec=DAG_LIST)
class PublishedRecord(Record):
    """Value of `dag.published`: what is published under an id. Its key is the id."""

    tip: NodeLink
    tip_key: Annotated[
        tuple[NodeLink, ...],
        counted(MAX_KEY_LINKS, 1),
        called("key"),
        f"of the tip; at most the first {MAX_KEY_LINKS:,}",
    ]
    count: Annotated[int, between(1), "publishes in the order"]
    state: Annotated[PublishState, rule("publish-state"), "of the tip"]
    other_heads: FirstNodes
    revoked: FirstNodes
    complete: Annotated[CompletePublish, rule("complete-publish")] | None

    def verify(self) -> None:
        """Raises `RecordError` where a whole key does not end in the tip."""
        sound = len(self.tip_key) == MAX_KEY_LINKS or self.tip_key[-1] == self.tip
        require(sound, _PUBLISHED, "the key does not end in the tip")
