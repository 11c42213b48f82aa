"""The scenes of the demo, each a function of the stage that fills in figures.

- ``table``: all of them, in order.
- ``sparse_reader``: two entries of a long log, proven by their pools; ``payloads_later``: backfill.
- ``both_ways``: complementary parts cross in one request; ``greedy``: an apology, passed on.
- ``large_payload``: SIGKILL and offset, beside entries; ``live``: open ranges; ``credit``: waiting proposals.
- ``failover``: a source falls silent; ``small_device``: bounded memory.
- ``two_edges``: over Kafka, whole and sparse.
"""
