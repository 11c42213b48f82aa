"""SDS in tests.

- `edge`: an edge over a backbone in memory, and remotes that send anything.
- `connectors`: connectors over a real Kafka.
- `shards`: one shard of the job without Spark.
- `topics`: records of SDS channels on the real broker.
- `waku`: @waku/sds, the JavaScript implementation, as a process.
"""
