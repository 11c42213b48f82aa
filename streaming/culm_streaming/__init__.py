"""The Spark jobs that keep Culm's durable, aggregated state: one file a job, and what runs them.

- `logs`: `entries` to `logs` and `rejected`; its rules and state, without Spark, are in `chain/`.
- `version_vectors`: `receipts` and `logs` to `version-vectors`.
- `blocks`: `logs` to `blocks`, `receipts` to `block-vectors`; its rules and state are in `heights/`.
- `sds`: `sds.in` and `sds.commands` to the store, events and broadcasts of SDS channels; its rules and
  state are in `sds_channels/`. `sds_index`: `sds.messages` to `sds.index`.
- `topics`: Kafka as source and sink; `fetching`: one record of `entries` read back.
- `session`: the Spark session; `daemon`: what its Python workers are forked from; `collector`: their garbage
  collector.
- `run`: jobs started, watched and stopped.
- `progress`, `metrics`, `health`: what a micro-batch did, what Prometheus is told of it, whether all is well.
- `errors`: the errors of this package and their stable codes.
"""
