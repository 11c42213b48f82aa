"""Peers at two edges converge through QUIC, Kafka and Spark.

- ``history``: the logs the peers start with, made from a seed, and the real history that comes with Culm.
- ``plan``: who holds which part of them, who announces what, who forks.
- ``size``: how large it is.
- ``run``: the story, chapter by chapter, to the verdict.
- ``audit``: what peers and topics hold in the end, compared byte for byte.
- ``cast``: the peers on stage, and the clock of the live entries.
- ``sessions``: what set reconciliation took, session by session.
- ``judge``: the verdict, with its figures and tables.
"""
