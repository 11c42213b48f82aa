"""Keys and values of the `dag.*` topics.

- `keys`: their keys, and the partition of data named by a CID; `shape`: items that several records share.
- `sources`: records of connectors. `state`: records of the job; `shard_index`: blocks in shards.
- `rejected`: refused data.

The value of `dag.settings` is R28's map itself, under the key `VERDICT_KEY`.
"""

from culm_topics.dag.records.keys import (
    MAX_CID_BYTES,
    VERDICT_KEY,
    blocked_key,
    cid_of_key,
    cid_partition,
    id_of_key,
    node_key,
    shard_chunk_key,
    shard_index_key,
    split_blocked_key,
    split_node_key,
    split_shard_chunk_key,
    split_shard_index_key,
)
from culm_topics.dag.records.rejected import dag_rejection
from culm_topics.dag.records.shape import MAX_RECORD_BYTES, NO_LINKS, FirstLinks, first_links
from culm_topics.dag.records.shard_index import (
    INDEX_PART_BYTES,
    BlockPlace,
    ShardIndexRecord,
    decode_shard_index,
    shard_index,
)
from culm_topics.dag.records.sources import (
    BlockedRecord,
    NodeRecord,
    PublishRecord,
    ShardChunkRecord,
    common_node_record,
    decode_blocked,
    decode_node_record,
    decode_publish_record,
    decode_shard_chunk,
)
from culm_topics.dag.records.state import (
    MAX_KEY_LINKS,
    MAX_ORDER_LINKS,
    CompletePublish,
    HeadsRecord,
    OrderRecord,
    PublishedRecord,
    order_records,
)

__all__ = [
    "INDEX_PART_BYTES",
    "MAX_CID_BYTES",
    "MAX_KEY_LINKS",
    "MAX_ORDER_LINKS",
    "MAX_RECORD_BYTES",
    "NO_LINKS",
    "VERDICT_KEY",
    "BlockPlace",
    "BlockedRecord",
    "CompletePublish",
    "FirstLinks",
    "HeadsRecord",
    "NodeRecord",
    "OrderRecord",
    "PublishRecord",
    "PublishedRecord",
    "ShardChunkRecord",
    "ShardIndexRecord",
    "blocked_key",
    "cid_of_key",
    "cid_partition",
    "common_node_record",
    "dag_rejection",
    "decode_blocked",
    "decode_node_record",
    "decode_publish_record",
    "decode_shard_chunk",
    "decode_shard_index",
    "first_links",
    "id_of_key",
    "node_key",
    "order_records",
    "shard_chunk_key",
    "shard_index",
    "shard_index_key",
    "split_blocked_key",
    "split_node_key",
    "split_shard_chunk_key",
    "split_shard_index_key",
]
