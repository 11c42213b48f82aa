"""Culm's Kafka topics: what they are called, what their records hold, and how to read them.

- `catalogue`: every topic as data: name, key, value, partitions, clean-up, who writes and reads it.
- `topic_spec`: what is said of a topic and of a job, and the properties that each clean-up asks for.
- `kafka/`: clients, administration, rights. `readers/`: what readers of topics share.
- `records/`: how records are declared, and what those of all topics share.
- `logs/`: the topics of replicated logs, and `LogConsumer` for programs that consume them.
- `p2panda/`: announcements, and operations in entries.
- `sds/`: the topics of SDS: their records, events and store.
- `chotki/`: the topics of Chotki: packets, diffs, the merged state.
- `dag/`: the topics of DAG replication: nodes, shards, publishes, orders.
- `status_server`: the HTTP port of jobs and connectors: metrics, alive, ready.
- `closing`: what a `with` block closes.
- `docs`: renders docs/topics.md from all of the above.
- `errors`: the errors of this package and their stable codes.

No protocol rule lives here.
"""
