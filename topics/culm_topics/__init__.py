"""Culm's Kafka topics: their names, the contents of their records, and how to read them.

- `catalogue`: every topic as data: name, key, value, partitions, clean-up, writers and readers.
- `topic_spec`: the classes that describe a topic and a job, and the Kafka properties of each clean-up.
- `kafka/`: clients, administration, rights. `readers/`: code that readers of topics share.
- `records/`: how records are declared, and what the records of all topics share.
- `logs/`: the topics of replicated logs, and `LogConsumer` for programs that consume them.
- `p2panda/`: announcements and documents.
- `sds/`: the topics of SDS: their records, events and store.
- `chotki/`: the topics of Chotki: packets, diffs, the merged state.
- `dag/`: the topics of DAG replication: nodes, shards, publishes, orders.
- `status_server`: the HTTP port of jobs and connectors: metrics, alive, ready.
- `status_socket`: the private Unix socket of jobs and connectors: one JSON document about the process.
- `process_status`: fields of that document that jobs and connectors share.
- `closing`: the base class of objects that a `with` block closes.
- `docs`: renders docs/topics.md from all of the above.
- `errors`: the errors of this package and their stable codes.

No protocol rule is implemented here.
"""
