"""DAG replication at the edge: a folder of DAGs with Kafka behind it.

- `edge_folder`: what is kept, and how it is opened; `tables`: offsets and the outbox beside the DAGs
- `room`: what doors are offered; `refusals`: what is told on `rejected`
- `outboxes`: what waits for Kafka; `from_topics`: what topics bring, and what each record means
- `quic_door`: the door for peers; `access`: who may do what in a space
- `settings`; `metrics`; `driver`: all of it, put together
"""
