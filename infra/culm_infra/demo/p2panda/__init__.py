"""Peers at two edges converge through QUIC, Kafka and Spark.

- ``plan``: the initial logs, made from a seed and a recorded history; which peer holds, announces and forks
  which of them.
- ``size``: the options of the demo.
- ``run``: the story, chapter by chapter.
- ``audit``: the final contents of peers and topics, compared byte for byte.
- ``actors``: the peers, the latencies of live entries, and the costs of set reconciliation.
- ``convergence``: whether all peers and topics agree, with figures and tables.
"""
