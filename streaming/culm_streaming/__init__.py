"""The Spark jobs that keep Culm's durable, aggregated state: one package or file a job, and what runs them.

- `logs/`: `entries` to `logs` and `rejected`. `blocks/`: `logs` to `blocks`, `receipts` to `block-vectors`.
- `coverage/`: `logs`, `fragments`, `payloads` and `holdings` to `coverage`, of logs that may have gaps.
- `version_vectors`: `receipts` and `logs` to `version-vectors`.
- `sds/`: `sds.in` and `sds.commands` to the store, events and broadcasts of SDS channels.
- `sds_index`: `sds.messages` to `sds.index`.
- `chotki/`: packets and diffs of Chotki's replicas to one merged state, `chotki.state`.
- `dag/`: nodes, publishes and shards of DAGs to heads, orders, what is published, and blocks in shards.
- `jobs`: the table of them. `run`: jobs started, watched and stopped.
- `stateful/`: what jobs with state share: packed rows, state that Spark restores, a step for each shard.
- `supervision/`: one job over its failures.
- `session`: the Spark session; `daemon`: what its Python workers are forked from; `worker_path/`: what they
  run before all else.
- `kafka_io/`: Kafka as source and sink, and watched.
- `progress`, `metrics`: what a micro-batch did; what Prometheus, probes and the log are told of the jobs.
- `errors`: the errors of this package and their stable codes.

In a job's package `job` is what Spark runs; the rest are its rules and its state, without Spark.
"""
