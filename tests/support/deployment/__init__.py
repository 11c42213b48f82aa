"""Whole deployments for end-to-end tests.

- `world`: topics, `culm job run all` and two connectors, as processes.
- `full_edge`: a connector process that serves every protocol.
- `secured`: a deployment on a secured cluster, one user a program.
- `members`: peers of a deployment, the logs that they write, and the audit at the end.
- `demo`: `culm demo` as a user runs it.
"""
