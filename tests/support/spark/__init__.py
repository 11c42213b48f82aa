"""Spark in tests.

- `session`: the one Spark session of a test run.
- `cluster`: a standalone Spark cluster on loopback.
- `noop_job`: a job that does nothing.
"""
