"""Peers at two edges converge through QUIC, Kafka and Spark.

- ``plan``: the logs the peers start with, made from a seed and a real one; who holds which part of them,
  who announces what, who forks.
- ``size``: how large it is.
- ``run``: the story, chapter by chapter, to the verdict.
- ``audit``: what peers and topics hold in the end, compared byte for byte.
- ``cast``: the peers on stage, the clock of the live entries, and what set reconciliation took.
- ``judge``: the verdict, with its figures and tables.
"""
