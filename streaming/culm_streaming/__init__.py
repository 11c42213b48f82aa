"""The Spark jobs that keep Culm's durable, aggregated state: one file a job, and what runs them.

- `logs`: `entries` to `logs` and `rejected`; its rules and state, without Spark, are in `chain/`.
- `version_vectors`: `receipts` and `logs` to `version-vectors`.
- `session`: the Spark session; `run`: jobs started, watched and stopped; `metrics`: what they tell.
- `errors`: the errors of this package and their stable codes.
"""
