"""The main job, shown: peers at two edges converge through QUIC, Kafka and Spark.

- ``history``: the logs the peers start with, made from a seed, and the real history that comes with Culm.
- ``plan``: who holds which part of them, who announces what, who forks.
- ``processes``: the streaming jobs and the connectors as processes of their own.
- ``run``: the story from an empty stack to the verdict.
- ``audit``: what peers and topics hold in the end, compared byte for byte.
- ``cast``: the peers on stage, and the clock of the live entries.
- ``judge``: the verdict.
- ``report``: the figures and their table.
"""
