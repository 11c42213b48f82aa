"""The main jobs, shown on real components, with one package per protocol.

- ``kit``: the base of every demo: the stage with its processes, and the report with its figures.
- ``p2panda``: peers at two edges converge through QUIC, Kafka and Spark.
- ``sds``: channels on a bad network.
- ``chotki``: replicas of Chotki at two edges.
- ``bamboo``: partial replication of logs, in scenes: between folders, and over two edges.
- ``dag``: writers that are rarely connected, over QUIC and HTTP, under each policy.
"""
