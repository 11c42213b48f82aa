"""DAG replication in tests.

- `edge`: an edge over topics that are lists.
- `job`: the job `dag` without Spark.
- `shell`: command lines of `culm dag`.
"""
