"""The main jobs, shown on real components, a room for each protocol.

- ``kit``: what every demo stands on: processes of their own, and figures of many measurements.
- ``p2panda``: peers at two edges converge through QUIC, Kafka and Spark.
- ``sds``: channels on a bad network, with the same rooms.
- ``chotki``: replicas of Chotki at two edges, with the same rooms.
- ``bamboo``: partial replication of logs, in scenes: between folders, and over two edges.
- ``dag``: writers who are seldom connected, over QUIC and HTTP, under each policy.
"""
