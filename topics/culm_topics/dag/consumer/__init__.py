"""`DagConsumer`: what is published under ids, and its content as blocks and files (reference 5.4, 6).

- `dag_consumer`: `DagConsumer`, for programs. `changes`: the differences between records of `dag.published`;
  `ancestry`: which publish builds on which, from `dag.publishes`.
- `content`: blocks, files and shards. `shard_places`: the local file with the locations of blocks;
  `chunk_finder`: finds chunks of shards in the topic and caches them.
"""

from culm_topics.dag.consumer.changes import DagChange, DagChangeKind
from culm_topics.dag.consumer.content import DagContent
from culm_topics.dag.consumer.dag_consumer import DagConsumer

__all__ = ["DagChange", "DagChangeKind", "DagConsumer", "DagContent"]
