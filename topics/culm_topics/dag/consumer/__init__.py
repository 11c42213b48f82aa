"""`DagConsumer`: what is published under ids, and its content as blocks and files (reference 5.4, 6).

- `dag_consumer`: `DagConsumer`, for programs. `changes`: from one record of `dag.published` to the next;
  `ancestry`: which publish builds on which, of `dag.publishes`.
- `content`: blocks, files and shards. `shard_places`: the local file that says where blocks lie;
  `chunk_finder`: chunks of shards, found in the topic and kept a while.
"""

from culm_topics.dag.consumer.changes import DagChange, DagChangeKind
from culm_topics.dag.consumer.content import DagContent
from culm_topics.dag.consumer.dag_consumer import DagConsumer

__all__ = ["DagChange", "DagChangeKind", "DagConsumer", "DagContent"]
