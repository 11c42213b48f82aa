"""Peers at two edges converge through QUIC, Kafka and Spark.

- ``plan``: the initial logs, made from a seed and a recorded history; which peer holds, announces and forks
  which of them.
- ``size``: the options of the demo.
- ``run``: the story, chapter by chapter.
- ``concurrent_edits``: two peers edit one document at the same time, and one of them merges the edits.
- ``documents``: the documents of peers and of the topic ``documents``, compared byte for byte.
- ``audit``: the final contents of peers and topics, compared byte for byte.
- ``actors``: the peers, the latencies of live entries, and the costs of set reconciliation.
- ``convergence``: whether all peers and topics agree, with figures and tables.
"""
