"""DAG replication at the edge: a folder of DAGs with Kafka behind it.

- `edge_folder`: the nodes, UCANs and shards of the edge, and how the folder is opened; `tables`: offsets and
outbox in the same database
- `service`: the interface for doors; `refusals`: records for `rejected`
- `outboxes`: data that waits for Kafka; `from_topics`: applies records of the topics to the folder
- `quic_door`: the door for peers; `access`: what a principal may do in a space
- `settings`; `metrics`; `driver`: assembles all of these
"""
