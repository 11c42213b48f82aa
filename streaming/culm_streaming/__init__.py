"""The Spark jobs that keep Culm's durable, aggregated state: one package or file per job.

- `logs/`: `entries` to `logs` and `rejected`. `blocks/`: `logs` to `blocks`, `receipts` to `block-vectors`.
- `coverage/`: `logs`, `fragments`, `payloads` and `holdings` to `coverage`, for logs that may have gaps.
- `p2panda_documents/`: `logs` to `documents`, the present state of p2panda's documents.
- `version_vectors`: `receipts` and `logs` to `version-vectors`.
- `sds/`: `sds.in` and `sds.commands` to the store, events and broadcasts of SDS channels.
- `sds_index`: `sds.messages` to `sds.index`.
- `chotki/`: packets and diffs of Chotki's replicas to one merged state, `chotki.state`.
- `dag/`: nodes, publishes and shards of DAGs to heads, orders, published states, and blocks in shards.
- `jobs`: the interface of a job, and access to the table of jobs. `run`: starts, watches and stops jobs.
- `stateful/`: common parts of jobs with state: packed rows, state that Spark restores, a step for each shard.
- `supervision/`: restarts one job after failures.
- `session`: the Spark session; `daemon`: the process from which its Python workers are forked;
  `worker_path/`: the code that workers run first.
- `kafka_io/`: Kafka as source and sink, and as watched service.
- `progress`, `metrics`: the results of a micro-batch; data for Prometheus, probes and the log.
- `status`: the document of the status socket.
- `errors`: the errors of this package and their stable codes.

In a job's package, `job` is the code that Spark runs; the other modules are its rules and its state, without
Spark.
"""
